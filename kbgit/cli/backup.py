"""`kbgit backup`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbgit.cli import terminal
from kbgit.cli.homes import home_of
from kbgit.cli.lazy import load
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session

if TYPE_CHECKING:
    from kbgit.upkeep.manifest import Manifest


@click.command(short_help="Write a backup of a home, or verify one.")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Write nothing: check the backup that is at TARGET.")
@click.option("--with-owner-token", is_flag=True, help="Put the owner's token into it, in clear.")
@home_option
@json_option
@pass_session
def backup(session: Session, target: Path, verify: bool, with_owner_token: bool, as_json: bool) -> None:
    """Write everything that cannot be derived into TARGET: a new directory or, where its name ends in .tar, one file.

    A server may go on running, and people may go on pushing: whatever was acknowledged before the command began is in
    the backup. It has the repositories with the publication log, the accounts, memory, settings and waiting documents. It
    is checked before it gets its name. It holds what everybody wrote, so keep it as private as the home.

    \b
    Examples:
      kbgit backup /var/backups/kbgit-2026-11-30.tar
      kbgit backup --verify /var/backups/kbgit-2026-11-30.tar
    """
    progress = terminal.ProgressLine()
    try:
        if verify:
            if with_owner_token:
                raise click.UsageError("--with-owner-token is for writing a backup")
            found: Manifest = load("kbgit.upkeep.backup:check_backup")(target, progress=progress.count)
        else:
            found = load("kbgit.upkeep.backup:back_up")(
                home_of(session), target, with_owner_token=with_owner_token, progress=progress.count
            )
    finally:
        progress.wipe()
    told = {**described(found), "type": "backup_verified" if verify else "backup_written", "backup": str(target)}
    verb = "is whole:" if verify else "written and checked:"
    answer(told, lines(found, f"{target} {verb}"), as_json=as_json)


def described(manifest: Manifest) -> dict[str, object]:
    """What is in a backup, without the list of its files."""
    return {
        "created_at": manifest.created_at,
        "kbgit": manifest.kbgit,
        "owner": manifest.owner,
        "files": len(manifest.files),
        "bytes": manifest.size,
        "bases": {key: base.head for key, base in sorted(manifest.bases.items())},
        "left_out": list(manifest.left_out),
    }


def lines(manifest: Manifest, verdict: str) -> Iterator[str]:
    """The same, for people."""
    counted = f"{terminal.count(len(manifest.bases), 'base')}, {terminal.count(len(manifest.files), 'file')}"
    yield f"{terminal.line(verdict)} {counted}, {manifest.size:,} bytes, of {terminal.line(manifest.created_at)}"
    for key, base in sorted(manifest.bases.items()):
        yield f"  {terminal.line(key)} at {(base.head or 'nothing')[:12]}"
    for key in manifest.left_out:
        yield f"  {terminal.line(key)} is left out: it was made or destroyed meanwhile"
