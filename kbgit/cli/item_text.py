"""`kbgit item create` and `kbgit item edit`: items whose text is somewhere else, in a file, a pipe or an editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from kbgit.base import slug_from
from kbgit.cli import render, terminal
from kbgit.cli.base_names import key_named
from kbgit.cli.client import reach
from kbgit.cli.http_client import Json
from kbgit.cli.item import current
from kbgit.cli.options import base_option, expect_option, json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.errors import InvalidName, InvalidRequest, KbgitError, StaleRevision
from kbgit.item import ItemStatus, parse_document

_Command = TypeVar("_Command", bound=Callable[..., Any])
_EMPTIED: Mapping[str, str | list[str]] = {"title": "", "description": "", "tags": []}


def _field_options(command: _Command) -> _Command:
    """What front matter can be given on the command line."""
    for option in (
        click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="Set a field of the front matter."),
        click.option("--description", metavar="TEXT", help="What it says, in one sentence."),
        click.option("--tag", "tags", multiple=True, metavar="TAG", help="Its tags; can be given several times."),
        click.option("--status", type=click.Choice([status.value for status in ItemStatus]), help="Its status."),
        click.option("--title", metavar="TEXT", help="Its title."),
    ):
        command = option(command)
    return command


@click.command(short_help="Create an item.")
@click.argument("base")
@click.option("--file", required=True, type=click.File("rb"), metavar="FILE", help="Its text; - reads standard input.")
@click.option("--id", "item_id", metavar="ID", help="Its id.  [default: made from base and locator]")
@click.option("--locator", metavar="PATH", help="Where it is stored in the base.  [default: made from the title]")
@_field_options
@library_options
@json_option
@pass_session
def create(
    session: Session,
    /,
    base: str,
    file: IO[bytes],
    item_id: str | None,
    locator: str | None,
    as_json: bool,
    **fields: Any,  # noqa: ANN401
) -> None:
    """Create an item of BASE from a Markdown file. It is a draft unless the file or --status says otherwise.

    Front matter at the beginning of the file counts; options come before it.

    \b
    Examples:
      kbgit item create notes --file heron.md
      kbgit item create runbooks --file - --title "Cache warm-up" --tag cache --status published < warm-up.md
    """
    body = _merged(_body_of(file.read()), _given(fields))
    body |= {name: value for name, value in (("id", item_id), ("locator", locator)) if value is not None}
    with reach(session) as client:
        found = client.create_item(key_named(client, base), body)
    answer(found, render.written(found), as_json=as_json)


@click.command(short_help="Change an item's text or front matter.")
@click.argument("item_id", metavar="ITEM")
@click.option("--file", type=click.File("rb"), metavar="FILE", help="Its new text; - reads standard input.")
@_field_options
@click.option("--unset", multiple=True, metavar="KEY", help="Remove a field of the front matter.")
@click.option("--message", "-m", metavar="TEXT", help="The message of the commit.")
@expect_option
@base_option
@library_options
@json_option
@pass_session
def edit(
    session: Session,
    /,
    item_id: str,
    file: IO[bytes] | None,
    unset: Sequence[str],
    message: str | None,
    expect: str | None,
    base: str | None,
    as_json: bool,
    **fields: Any,  # noqa: ANN401
) -> None:
    """Change what the options name of an item, and no other byte of its file. Without options, edit its text.

    The editor is that of VISUAL or EDITOR. The change starts from the revision that --expect names, else from the one
    that is current when the command begins. If the item has changed since, nothing is written: the difference is
    shown, and what you wrote is kept in a file.

    \b
    Examples:
      kbgit item edit item_runbook_deploy
      kbgit item edit item_runbook_deploy --title "Deployment" --set owner=platform --unset reviewed
      kbgit item edit item_runbook_deploy --file deploy.md --expect 0b1c…
    """
    body = _merged(_given(fields), _unset(unset))
    text = _Text(file.read(), Path(file.name) if file.name != "<stdin>" else None) if file is not None else None
    if text is None and not body:
        with reach(session) as client:  # closed while the editor is open: others may want the home meanwhile
            before = current(client, item_id, base)
        expect = expect or _noted(before)
        text = _edited(session, item_id, before["content"])
        if text is None:
            terminal.note("the text is as it was, so nothing was changed")
            answer({**before, "type": "knowledge_unchanged"}, [before["reference"]], as_json=as_json)
            return
    try:
        if text is not None:
            body = _merged(_body_of(text.raw, item_id), body)
        body |= {"message": message} if message else {}
        with reach(session) as client:
            expect = expect or _noted(current(client, item_id, base))
            found = client.update_item(item_id, base, expect, body)
    except KbgitError as error:
        _keep(text, error, item_id)
        raise
    if text is not None and text.is_scratch and text.path is not None:
        text.path.unlink(missing_ok=True)
    answer(found, render.written(found), as_json=as_json)


def _noted(before: Json) -> str:
    """The revision that a change starts from, after saying so."""
    revision: str = before["knowledge_revision_id"]
    terminal.note(
        f"{terminal.line(before['knowledge_item_id'])} is at revision {before['revision_number']}, {revision}"
    )
    return revision


@dataclass(frozen=True, slots=True)
class _Text:
    """What somebody wrote, and the file that has it; `is_scratch` for one made for the editor, None for standard input."""

    raw: bytes
    path: Path | None
    is_scratch: bool = False


def _edited(session: Session, item_id: str, content: str) -> _Text | None:
    """What the user's editor makes of `content`; None where that is the same. Raises `UsageError`, `InvalidRequest`."""
    editor = session.environment.get("VISUAL") or session.environment.get("EDITOR")
    if not editor and not sys.stdin.isatty():
        raise click.UsageError("say what to change with an option, or name an editor in EDITOR")
    try:
        words = shlex.split(editor or "vi")
    except ValueError as error:
        raise click.UsageError(f"the editor {editor!r} cannot be read: {error}") from None
    path = _scratch_file(item_id, content.encode())
    command = [*words, str(path)]
    try:
        failed = subprocess.run(command, env=dict(session.environment), check=False).returncode
    except OSError as error:
        path.unlink()
        raise InvalidRequest(f"the editor {command[0]} cannot be started: {error.strerror}") from None
    if failed:
        raise InvalidRequest(f"{command[0]} ended with an error, so nothing was changed; what it wrote is in {path}")
    raw = path.read_bytes()
    if raw == content.encode():
        path.unlink()
        return None
    return _Text(raw, path, is_scratch=True)


def _scratch_file(item_id: str, raw: bytes) -> Path:
    """A file that only this user can read, named after the item."""
    try:
        name = slug_from(item_id)[:40]
    except InvalidName:
        name = "item"
    handle, path = tempfile.mkstemp(prefix=f"kbgit-{name}-", suffix=".md")
    with os.fdopen(handle, "wb") as file:
        file.write(raw)
    return Path(path)


def _keep(text: _Text | None, error: KbgitError, item_id: str) -> None:
    """Show what the item has become meanwhile, if that is the trouble, and say where the user's text is."""
    if isinstance(error, StaleRevision) and error.details.get("diff"):
        for line in render.difference({"diff": error.details["diff"]}):
            click.echo(line, err=True)
    if text is not None:
        kept = text.path or _scratch_file(item_id, text.raw)
        error.details["kept"] = str(kept)
        terminal.note(f"your text is kept in {kept}")


def _body_of(raw: bytes, item_id: str | None = None) -> Json:
    """A Markdown file as the API takes it: its content, and what its front matter says. Raises `DocumentProblem`.

    Of an item that is there already (`item_id`), only what the front matter itself says is named.
    """
    document = parse_document(raw)
    for name, value in document.metadata.items():
        if isinstance(value, dict) or (isinstance(value, list) and not all(isinstance(word, str) for word in value)):
            raise InvalidRequest(
                f"`{name}` in the front matter has levels, which this command cannot write; push the file with Git",
                {"field": name},
            )
    if item_id is not None and document.explicit_id not in (None, item_id):
        raise InvalidRequest(f"the file says that it is {document.explicit_id!r}, not {item_id!r}", {"field": "id"})
    title = document.fields.get("title") if item_id is not None else document.title
    named: Json = {
        "id": document.explicit_id if item_id is None else None,
        "title": title,
        "status": document.status.value if document.status else None,
        "tags": list(document.tags) if "tags" in document.fields else None,
        "description": document.description or None,
        "metadata": dict(document.metadata) or None,
    }
    return {"content": document.content} | {name: value for name, value in named.items() if value is not None}


def _given(fields: dict[str, Any]) -> Json:
    """What the options say."""
    metadata = {}
    for text in fields.get("given", ()):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint="--set")
        metadata[key] = value
    named = {name: fields[name] for name in ("title", "status", "description") if fields[name] is not None}
    named |= {"tags": list(fields["tags"])} if fields["tags"] else {}
    return named | ({"metadata": metadata} if metadata else {})


def _unset(keys: Sequence[str]) -> Json:
    """The fields to remove; what has a field of its own in the API is emptied."""
    for key in keys:
        if key in ("id", "status"):
            raise click.BadParameter(f"an item keeps its {key}", param_hint="--unset")
    emptied = {key: _EMPTIED[key] for key in keys if key in _EMPTIED}
    metadata = {key: None for key in keys if key not in _EMPTIED}
    return emptied | ({"metadata": metadata} if metadata else {})


def _merged(first: Json, over: Json) -> Json:
    """Both, `over` before `first`, also within the metadata."""
    metadata = first.get("metadata", {}) | over.get("metadata", {})
    return first | over | ({"metadata": metadata} if metadata else {})
