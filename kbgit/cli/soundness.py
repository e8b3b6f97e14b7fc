"""How commands look at a whole home, and say what they found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from kbgit.cli import terminal
from kbgit.cli.base_names import base_key
from kbgit.cli.client import running_server
from kbgit.cli.lazy import load
from kbgit.cli.session import Session
from kbgit.home import Home

if TYPE_CHECKING:
    from kbgit.upkeep.finding import Finding
    from kbgit.upkeep.inspection import Inspection


def inspected(home: Home, names: Sequence[str], *, full: bool, is_served: bool | None = None) -> Inspection:
    """Look at the home, or at the named bases of it, showing progress on a terminal; `is_served` is found out unless told."""
    served = running_server(home) is not None if is_served is None else is_served
    progress = terminal.ProgressLine()
    keys = [base_key(home, name) for name in names] or None
    try:
        # Not imported above, because this brings the index's libraries.
        found: Inspection = load("kbgit.upkeep.inspection:inspect")(
            home, is_served=served, bases=keys, full=full, progress=progress.count
        )
    finally:
        progress.wipe()
    return found


def refuse_server(session: Session, what: str) -> None:
    """Raises `UsageError` where a server of another machine was named."""
    if session.given_server is not None:
        raise click.UsageError(f"{what} works on the home itself; run it on the machine of the home")


def summary(found: Inspection) -> str:
    """The verdict in a line."""
    faults = sum(finding.is_fault for finding in found.findings)
    looked_at = terminal.count(len(found.bases), "base")
    verdict = "sound" if found.is_sound else f"{terminal.count(faults, 'fault')} found"
    return f"{looked_at} inspected{' in full' if found.full else ''}: {verdict}"


def finding_lines(findings: Sequence[Finding], *, explain: bool) -> Iterator[str]:
    """`code base where: what`, and with `explain` what that means and what mends it."""
    for finding in findings:
        code = click.style(finding.code, fg="red" if finding.is_fault else "yellow")
        place = " ".join(terminal.line(part) for part in (finding.base, finding.where) if part)
        yield f"{code} {place}: {terminal.line(finding.what)}"
        if explain:
            yield f"  {finding.kind.meaning}"
            yield f"  Mend: {finding.kind.mend}."
