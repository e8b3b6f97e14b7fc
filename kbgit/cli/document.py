"""`kbgit document`: what became of uploaded documents."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kbgit.cli import terminal
from kbgit.cli.base_names import key_named
from kbgit.cli.client import reach
from kbgit.cli.http_client import Json
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.paging import first
from kbgit.cli.session import Session
from kbgit.cli.terminal import line
from kbgit.documents.contract import State

_BRIEF = 60


@click.group(short_help="List, cancel and retry uploaded documents.")
def document() -> None:
    """Documents are PDF and office files on their way to being items: uploaded, and extracted by the server.

    \b
    Examples:
      kbgit document list --base runbooks
      kbgit document retry doc_5f1c9a0e6b2d47830c1e2f3a
    """


@document.command("list", short_help="List documents, newest first.")
@click.option("--base", metavar="NAME", help="Only documents of this base: a slug, or space/slug.")
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only documents in this state.")
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="Most documents to list.")
@library_options
@json_option
@pass_session
def list_documents(session: Session, base: str | None, state: str | None, limit: int, as_json: bool) -> None:
    """List the documents of bases whose items you may write, newest first: id, state, base, name and what went wrong.

    \b
    Examples:
      kbgit document list
      kbgit document list --base team:platform/runbooks --state failed --json
    """
    with reach(session) as client:
        key = str(key_named(client, base)) if base is not None else None
        found = first(lambda cursor, most: client.documents(key, state, cursor, most), "documents", limit)
    answer(found, _table(found), as_json=as_json)


@document.command(short_help="Show one document.")
@click.argument("document_id", metavar="ID")
@library_options
@json_option
@pass_session
def show(session: Session, document_id: str, as_json: bool) -> None:
    """Show where a document stands: its state, why it failed, what could not be kept, and its item once it is ready.

    \b
    Examples:
      kbgit document show doc_5f1c9a0e6b2d47830c1e2f3a
    """
    with reach(session) as client:
        found = client.document(document_id)
    answer(found, _lines(found), as_json=as_json)


@document.command(short_help="Let nothing come of a document.")
@click.argument("document_id", metavar="ID")
@library_options
@json_option
@pass_session
def cancel(session: Session, document_id: str, as_json: bool) -> None:
    """Take a document out of the queue, or end its extraction; the file of a failed one is removed.

    One that is ready is an item: archive or delete that instead.

    \b
    Examples:
      kbgit document cancel doc_5f1c9a0e6b2d47830c1e2f3a
    """
    _move(session, document_id, "cancel", as_json=as_json)


@document.command(short_help="Try a failed document again.")
@click.argument("document_id", metavar="ID")
@library_options
@json_option
@pass_session
def retry(session: Session, document_id: str, as_json: bool) -> None:
    """Queue a failed document again, from the file that was uploaded. It is extracted while the server runs.

    \b
    Examples:
      kbgit document retry doc_5f1c9a0e6b2d47830c1e2f3a
    """
    _move(session, document_id, "retry", as_json=as_json)


def _move(session: Session, document_id: str, verb: str, *, as_json: bool) -> None:
    with reach(session) as client:
        found = client.move_document(document_id, verb)
    answer(found, _lines(found), as_json=as_json)


def _table(found: Json) -> Iterator[str]:
    rows = [
        [
            *(row["id"], row["updated_at"], _state(row), row["base"]),
            terminal.cut(line(row["name"]), _BRIEF),
            line(row["detail"] or row["knowledge_item_id"] or ""),
        ]
        for row in found["documents"]
    ]
    if not rows:
        yield "no such document"
        return
    yield from terminal.table(rows, ("document", "updated", "state", "base", "name", "what became of it"))
    if found["cursor"] is not None:
        yield click.style("there are more: --limit shows them", dim=True)


def _state(row: Json) -> str:
    return f"{row['state']}: {row['reason']}" if row["reason"] else str(row["state"])


def _lines(row: Json) -> Iterator[str]:
    yield f"{line(row['name'])}: {_state(row)}"
    if row["detail"]:
        yield f"  {line(row['detail'])}"
    for note in row["notes"]:
        yield f"  {line(note)}"
    yield f"  {row['id']}, {row['size']:,} bytes, uploaded by {line(row['uploaded_by'])}"
    yield f"  in {row['base']} at {line(row['locator'])}"
    if row["reference"]:
        yield f"  {line(row['reference'])}"
