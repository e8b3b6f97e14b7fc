"""`kbgit import`: files and directories become items of a base."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from kbgit.base import BaseKey
from kbgit.cli import terminal
from kbgit.cli.base_names import key_named
from kbgit.cli.client import Client, reach
from kbgit.cli.errors import NO
from kbgit.cli.files_found import Found, FoundFile, find
from kbgit.cli.http_client import Json
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.cli.terminal import line
from kbgit.documents.contract import State
from kbgit.errors import KbgitError, TooLarge
from kbgit.importing.text.kinds import suffix_of
from kbgit.item import ItemStatus

_MOST_AT_ONCE = 500
_MOST_LINES = 20
_POLL_SECONDS = 0.3
_OUTCOMES = ("created", "updated", "unchanged", "refused")


@click.command("import", short_help="Make items of files and directories.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--base", required=True, metavar="NAME", help="The base they go to: a slug, or space/slug.")
@click.option("--folder", default="", metavar="PATH", help="Where in the base they go.  [default: its top]")
@click.option("--publish", is_flag=True, help="New items are published at once.  [default: they are drafts]")
@click.option("--replace", is_flag=True, help="Overwrite items that were edited since, or that no import put there.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--include", multiple=True, metavar="GLOB", help="Only files whose path or name fits, such as '*.md'.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="No files whose path or name fits.")
@library_options
@json_option
@pass_session
def import_files(
    session: Session,
    files: Sequence[Path],
    base: str,
    folder: str,
    publish: bool,
    replace: bool,
    dry_run: bool,
    include: Sequence[str],
    exclude: Sequence[str],
    as_json: bool,
) -> None:
    """Make items of FILES: text and code become Markdown, documents (PDF, Office) are extracted by the server.

    A directory comes with its name and its structure; hidden files, links and tools' own directories are left out. The
    same files again change nothing. A file that changed changes its item, unless somebody has edited that since. Exit
    code 1 says that a file was refused; the others are imported all the same.

    \b
    Examples:
      kbgit import notes.txt deploy.py --base runbooks
      kbgit import ~/src/app --base docs --folder app --include '*.md' --include '*.py' --publish
      kbgit import report.pdf --base team:platform/reports --dry-run
    """
    found = find(files, include, exclude)
    options: Json = {"folder": folder, "replace": replace, "dry_run": dry_run}
    options["status"] = (ItemStatus.PUBLISHED if publish else ItemStatus.DRAFT).value
    with reach(session) as client:
        run = _Run(client, key_named(client, base), options)
        run.texts(found.texts)
        run.documents(found.documents)
    if publish and found.documents:
        terminal.note("documents come as drafts, to be looked at before they are published")
    told = run.told(found)
    answer(told, _lines(told), as_json=as_json)
    if told["counts"]["refused"]:
        raise click.exceptions.Exit(NO)


class _Run:
    """One import: what is sent, and what became of it."""

    def __init__(self, client: Client, key: BaseKey, options: Json) -> None:
        self._client = client
        self._key = key
        self._options = options
        self._rows: list[Json] = []
        self._head: str | None = None
        self._asked = False
        self._progress = terminal.ProgressLine()

    def texts(self, files: Sequence[FoundFile]) -> None:
        """Import text and code, in as few commits as fit into the requests."""
        limits = {kind["suffix"]: int(kind["max_bytes"]) for kind in self._client.file_types()["texts"]}
        batch: list[tuple[str, bytes]] = []
        size = done = 0
        for file in files:
            try:
                content = _content(file, limits)
            except (KbgitError, OSError) as error:
                self._refuse(file.name, error)
                continue
            if batch and (size + len(content) > self._client.most_import_bytes or len(batch) == _MOST_AT_ONCE):
                self._send(batch)
                done += len(batch)
                self._progress.count("files", done, len(files))
                batch, size = [], 0
            batch.append((file.name, content))
            size += len(content)
        if batch or not self._asked:  # asked even for nothing: whether the base is there, and may be written
            self._send(batch)
        self._progress.wipe()

    def _send(self, batch: list[tuple[str, bytes]]) -> None:
        self._asked = True
        try:
            told = self._client.import_files(self._key, batch, self._options)
        except TooLarge as error:  # a server with another limit than is usual
            half = len(batch) // 2
            if half:
                self._send(batch[:half])
                self._send(batch[half:])
            else:
                self._refuse(batch[0][0], error)
            return
        self._rows += told["files"]
        self._head = told["head"]

    def documents(self, files: Sequence[FoundFile]) -> None:
        """Upload documents, then wait until each is an item or has failed."""
        waiting: dict[str, None] = {}
        for number, file in enumerate(files):
            self._progress.count("documents sent", number, len(files))
            if self._options["dry_run"]:
                self._rows.append(_row(file.name, "created", notes=["would be uploaded and extracted"]))
                continue
            folder, replace = self._options["folder"], self._options["replace"]
            try:
                told = self._client.upload_document(self._key, file.path, file.name, folder, replace=replace)
            except (KbgitError, OSError) as error:
                self._refuse(file.name, error)
                continue
            if State(told["state"]).is_final:
                self._rows.append(_of_document(told, "unchanged"))
            else:
                waiting[told["id"]] = None
        self._follow(list(waiting))
        self._progress.wipe()

    def _follow(self, document_ids: Sequence[str]) -> None:
        """Wait for one after the other: they are extracted in this order, and a question about all of them at every look
        would be more than a server answers."""
        for number, document_id in enumerate(document_ids):
            while True:
                self._progress.count("documents extracted", number, len(document_ids))
                told = self._client.document(document_id)
                if State(told["state"]).is_final:
                    break
                time.sleep(_POLL_SECONDS)
            self._rows.append(_of_document(told, "created"))

    def _refuse(self, name: str, error: KbgitError | OSError) -> None:
        if isinstance(error, OSError):
            told = {"code": "unreadable", "message": error.strerror or str(error), "details": {}}
        else:
            told = error.as_json()["error"]
        self._rows.append(_row(name, "refused", error=told))

    def told(self, found: Found) -> Json:
        """The whole answer."""
        return {
            "type": "knowledge_files_imported",
            "base": str(self._key),
            "head": self._head,
            "dry_run": self._options["dry_run"],
            "counts": {outcome: sum(row["outcome"] == outcome for row in self._rows) for outcome in _OUTCOMES},
            "files": self._rows,
            "skipped": [{"name": name, "why": why} for name, why in found.skipped],
            "unsupported": found.unsupported,
        }


def _content(file: FoundFile, limits: dict[str, int]) -> bytes:
    """The file's bytes. Raises `TooLarge` before anything is read or sent, and for a kind that the server knows not."""
    size, most = file.path.stat().st_size, limits.get(suffix_of(file.name), 0)
    if size > most:
        raise TooLarge(f"{size:,} bytes; a file of its kind has at most {most:,}, so split it", {"limit": most})
    return file.path.read_bytes()


def _row(name: str, outcome: str, **more: Any) -> Json:  # noqa: ANN401
    empty: Json = {
        "locator": "",
        "knowledge_item_id": None,
        "reference": None,
        "status": None,
        "notes": [],
        "error": None,
    }
    return {"name": name, "outcome": outcome, **empty, **more}


def _of_document(told: Json, outcome: str) -> Json:
    if told["state"] != State.READY:
        message = told["detail"] or f"it was {told['state']}"
        error = {"code": told["reason"] or told["state"], "message": message, "details": {"document": told["id"]}}
        return _row(told["name"], "refused", locator=told["locator"], error=error)
    kept = {name: told[name] for name in ("locator", "knowledge_item_id", "reference", "notes")}
    return _row(told["name"], outcome, **kept)


# For people


def _lines(told: Json) -> Iterator[str]:
    """What went wrong and what is to be known, file by file; then the counts."""
    rows = told["files"]
    yield from _cut([_refusal(row) for row in rows if row["outcome"] == "refused"])
    yield from _cut([f"{line(row['name'])}: {line('; '.join(row['notes']))}" for row in rows if row["notes"]])
    yield from _cut([f"{line(row['name'])}: left out, {row['why']}" for row in told["skipped"]])
    changed = [row for row in rows if row["outcome"] in ("created", "updated") and row["reference"]]
    yield from _cut([click.style(line(row["reference"]), fg="cyan") for row in changed])
    counts = [[outcome, f"{told['counts'][outcome]:,}"] for outcome in _OUTCOMES]
    counts += [[f"no text kbgit knows ({line(suffix)})", f"{many:,}"] for suffix, many in told["unsupported"].items()]
    yield from terminal.table(counts, ("would be" if told["dry_run"] else "done", "files"))
    if any(row["status"] == "draft" for row in changed):
        yield click.style(
            "drafts are not found by readers until they are published: `kbgit item publish ITEM`", dim=True
        )


def _refusal(row: Json) -> str:
    where = row["error"]["details"].get("line")
    return f"{line(row['name'])}{f':{where}' if where else ''}: {line(row['error']['message'])}"


def _cut(lines: list[str]) -> Iterator[str]:
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"… and {len(lines) - _MOST_LINES:,} more like this; --json lists all"
