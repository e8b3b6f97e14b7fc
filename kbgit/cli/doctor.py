"""`kbgit doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kbgit.cli import terminal
from kbgit.cli.client import running_server
from kbgit.cli.errors import NO
from kbgit.cli.homes import home_of
from kbgit.cli.lazy import load
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.reindex import rebuild_by_server
from kbgit.cli.session import Session
from kbgit.cli.soundness import finding_lines, inspected, summary
from kbgit.home import Home

if TYPE_CHECKING:
    from kbgit.upkeep.inspection import Inspection
    from kbgit.upkeep.mending import Step


@click.command(short_help="Explain what is wrong with a home, and mend what is derived.")
@click.argument("bases", nargs=-1, metavar="[BASE]…")
@click.option("--mend", is_flag=True, help="Mend what is derived, then look again.")
@click.option("--dry-run", is_flag=True, help="Only say what --mend would do.")
@click.option("--full", is_flag=True, help="Look at every object, revision and posting.")
@home_option
@json_option
@pass_session
def doctor(session: Session, bases: Sequence[str], mend: bool, dry_run: bool, full: bool, as_json: bool) -> None:
    """Look at the home (or at the given bases of it), and explain each thing that is wrong and what mends it.

    With --mend, what is derived is made anew: catalogue, indexes, vectors, hooks, modes, what crashes left behind. The
    content of repositories, accounts and memory is never touched; where these are at fault, it says what to restore.
    Afterwards it looks again. Exit code 0 says that nothing is wrong (any more), 1 that something is.

    \b
    Examples:
      kbgit doctor
      kbgit doctor --mend --dry-run
      kbgit doctor --mend
    """
    home = home_of(session)
    is_served = running_server(home) is not None  # once: a finding and what is done about it must agree on that
    found = inspected(home, bases, full=full, is_served=is_served)
    steps: list[Step] = load("kbgit.upkeep.mending:plan")(found.findings, is_served=is_served)
    told = {**found.as_json(), "type": "diagnosis", "steps": [step.as_json() for step in steps], "mended": False}
    if not mend or dry_run or not steps:
        answer(told, [*finding_lines(found.findings, explain=True), *_planned(steps, dry_run=dry_run)], as_json=as_json)
        _conclude(found, as_json=as_json)
        return
    if not as_json:
        for line in [*finding_lines(found.findings, explain=False), *_planned(steps, dry_run=False)]:
            click.echo(line)
    problems = _mended(session, home, steps, is_served=is_served)
    after = inspected(home, bases, full=full, is_served=is_served)
    told |= {"mended": True, "problems": problems, "sound": after.is_sound, "remaining": after.as_json()["findings"]}
    lines = [f"failed: {terminal.line(problem)}" for problem in problems]
    remaining = [finding for finding in after.findings if finding.is_fault]
    lines += ["What remains:", *finding_lines(remaining, explain=True)] if remaining else ["Mended."]
    answer(told, lines, as_json=as_json)
    _conclude(after, as_json=as_json)


def _planned(steps: Sequence[Step], *, dry_run: bool) -> list[str]:
    verb = "would" if dry_run else "to do:"
    return [f"{verb} {terminal.line(step.words)}{f' ({step.obstacle})' if step.obstacle else ''}" for step in steps]


def _mended(session: Session, home: Home, steps: Sequence[Step], *, is_served: bool) -> list[str]:
    rebuild = (lambda keys: rebuild_by_server(home, keys)) if is_served else None
    problems: list[str] = load("kbgit.upkeep.mending:carry_out")(home, steps, rebuild, session.embedder_api_key)
    return problems


def _conclude(found: Inspection, *, as_json: bool) -> None:
    if not as_json:
        terminal.note(summary(found))
    if not found.is_sound:
        raise click.exceptions.Exit(NO)
