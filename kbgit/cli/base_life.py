"""`kbgit base update`, `archive`, `restore`, `export` and `delete`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kbgit.base import BaseKey
from kbgit.cli import render, terminal
from kbgit.cli.base_names import key_named
from kbgit.cli.base_settings import admission_option, base_options, description_option, status_option, title_option
from kbgit.cli.client import reach
from kbgit.cli.http_client import Json
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.errors import AlreadyExists


@click.command(short_help="Change the settings of a base.")
@click.argument("name")
@title_option
@description_option
@status_option
@admission_option
@library_options
@json_option
@pass_session
def update(
    session: Session,
    name: str,
    title: str | None,
    description: str | None,
    default_status: str | None,
    admission: str | None,
    as_json: bool,
) -> None:
    """Change what the options name of a base's settings: one commit of its base.yaml.

    \b
    Examples:
      kbgit base update runbooks --title "Runbooks" --description "What to do when it burns"
      kbgit base update team:platform/runbooks --admission lenient
    """
    settings = base_options(title, description, default_status, admission).given
    if not settings:
        raise click.UsageError("say what to change: --title, --description, --default-status, --admission")
    with reach(session) as client:
        found = client.update_base(key_named(client, name), settings)
    answer(found, render.base_changed(found), as_json=as_json)


@click.command(short_help="Suspend search and unpinned reads of a base.")
@click.argument("name")
@library_options
@json_option
@pass_session
def archive(session: Session, name: str, as_json: bool) -> None:
    """Archive a base: at once nothing in it is found, and only pinned citations resolve. No content changes.

    \b
    Examples:
      kbgit base archive runbooks
    """
    _move(session, "archive", name, as_json=as_json)


@click.command(short_help="Bring an archived base back.")
@click.argument("name")
@library_options
@json_option
@pass_session
def restore(session: Session, name: str, as_json: bool) -> None:
    """Bring an archived base back: all its published items are found and served again, at once.

    What was deleted comes back from an export instead: `kbgit base import --restore`.

    \b
    Examples:
      kbgit base restore runbooks
    """
    _move(session, "restore", name, as_json=as_json)


def _move(session: Session, verb: str, name: str, *, as_json: bool) -> None:
    with reach(session) as client:
        found = client.move_base(key_named(client, name), verb)
    answer(found, render.base_changed(found), as_json=as_json)


@click.command(short_help="Write a base into a Git bundle.")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@library_options
@json_option
@pass_session
def export(session: Session, name: str, file: Path, force: bool, as_json: bool) -> None:
    """Write a base into FILE, a Git bundle: its published branch with its whole history, and its publication log.

    Git can clone from it as it is; `kbgit base import --from FILE --restore` makes the same base of it again.

    \b
    Examples:
      kbgit base export runbooks runbooks.bundle
    """
    if file.exists() and not force:
        raise AlreadyExists(f"{file} is there already; name another file, or use --force")
    with reach(session) as client:
        key = key_named(client, name)
        size = _write(file, client.export_base(key))
    found = {"type": "base_exported", "base": str(key), "file": str(file), "bytes": size}
    answer(found, [f"wrote {key} to {file}: {size:,} bytes"], as_json=as_json)


def _write(file: Path, pieces: Iterator[bytes]) -> int:
    """Write all or nothing. Returns the size in bytes."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    size = 0
    try:
        with open(draft, "xb") as opened:
            for piece in pieces:
                size += opened.write(piece)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return size


@click.command(short_help="Destroy a base and all that was made of it.")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only say what would be destroyed.")
@click.option("--name", "typed", metavar="NAME", help="The base's own name once more, in full; then nobody is asked.")
@library_options
@json_option
@pass_session
def delete(session: Session, name: str, dry_run: bool, typed: str | None, as_json: bool) -> None:
    """Destroy a base for ever: its repository, its rows in the catalogue, its passages and its vectors.

    Afterwards its text is nowhere in the home, and its citations resolve no more. Clones and exports that people have
    are out of reach.

    \b
    Examples:
      kbgit base delete runbooks --dry-run
      kbgit base delete team:platform/runbooks --name runbooks
    """
    with reach(session) as client:
        key = key_named(client, name)
        found = client.delete_base(key, typed or "", dry_run=True)
        if not dry_run:
            found = client.delete_base(key, typed or _asked(key, found), dry_run=False)
    answer(found, render.purge(found), as_json=as_json)


def _asked(key: BaseKey, preview: Json) -> str:
    """The name, typed by somebody who was told what it means. Raises `UsageError` where nobody is there."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"nobody is there to ask; --name {key.slug} deletes without asking")
    for line in render.purge(preview):
        click.echo(line, err=True)
    typed: str = click.prompt(f"Type {key.slug} to destroy it for ever", err=True)
    if typed != key.slug:
        terminal.tell("that is not its name; nothing was destroyed")
        raise click.Abort
    return typed
