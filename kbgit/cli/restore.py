"""`kbgit restore`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbgit.cli import terminal
from kbgit.cli.backup import described, lines
from kbgit.cli.errors import NO
from kbgit.cli.homes import home_of
from kbgit.cli.lazy import load
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.cli.soundness import finding_lines, inspected, summary

if TYPE_CHECKING:
    from kbgit.upkeep.inspection import Inspection
    from kbgit.upkeep.restoring import Restored


@click.command(short_help="Make a home of a backup.")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only check the backup, and say what would be restored.")
@home_option
@json_option
@pass_session
def restore(session: Session, source: Path, dry_run: bool, as_json: bool) -> None:
    """Make the home --home, which must be an empty directory or not there yet, of the backup SOURCE.

    The backup is checked before and the home verified after. Every citation resolves to the same bytes with the same
    provenance, and tokens go on working; the owner gets a new token, unless the backup holds theirs. Indexes are derived
    by the first start of the server, or by `kbgit reindex`.

    \b
    Examples:
      kbgit restore /var/backups/kbgit-2026-11-30.tar --home /srv/kbgit --dry-run
      kbgit restore /var/backups/kbgit-2026-11-30.tar --home /srv/kbgit
    """
    progress = terminal.ProgressLine()
    path = session.home_path
    try:
        done: Restored = load("kbgit.upkeep.restoring:restore")(source, path, dry_run=dry_run, progress=progress.count)
    finally:
        progress.wipe()
    told = {**described(done.manifest), "type": "restore_preview" if dry_run else "restored", "home": str(path)}
    if dry_run:
        answer(told, lines(done.manifest, f"{source} is whole, and would become {path}:"), as_json=as_json)
        return
    found = inspected(home_of(session), [], full=False)
    told |= {"alarms": list(done.alarms), "token": done.new_token, "verified": found.as_json()}
    answer(told, _lines(path, done, found), as_json=as_json)
    if not found.is_sound:
        raise click.exceptions.Exit(NO)


def _lines(path: Path, done: Restored, found: Inspection) -> Iterator[str]:
    yield from lines(done.manifest, f"{path} is restored:")
    yield from (f"alarm: {terminal.line(alarm)}" for alarm in done.alarms)
    if done.new_token is not None:
        yield f"A new token of {done.manifest.owner}, also in owner-token there: {done.new_token}"
    yield from finding_lines([finding for finding in found.findings if finding.is_fault], explain=True)
    yield f"Verified: {summary(found)}."
