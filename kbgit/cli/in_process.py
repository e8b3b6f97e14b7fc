"""The home, opened in this process while no server runs. Importing this brings the index's and the models' libraries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kbgit.access import Principal
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import Admission, BaseKey, BaseStatus
from kbgit.cli import terminal
from kbgit.cli.homes import owner_of
from kbgit.cli.http_client import Json
from kbgit.errors import EmbeddingFailure, HomeProblem, KbgitError
from kbgit.home import Home
from kbgit.importing import BaseOptions
from kbgit.indexer import Progress
from kbgit.item import ItemStatus
from kbgit.library import Draft, SearchRequest
from kbgit.mcp.calls import Agent, Calls
from kbgit.mcp.contract import contract
from kbgit.memory import MemoryKind
from kbgit.revision import Via
from kbgit.web.health import Health

_ITEM_VERBS = {
    "publish": ItemStatus.PUBLISHED,
    "unpublish": ItemStatus.DRAFT,
    "archive": ItemStatus.ARCHIVED,
    "restore": ItemStatus.PUBLISHED,
}
_BASE_VERBS = {"archive": BaseStatus.ARCHIVED, "restore": BaseStatus.ACTIVE}


class HomeClient:
    """A library in this process, asked by the owner of the home."""

    def __init__(self, runtime: Runtime, progress: terminal.ProgressLine) -> None:
        self.origin = f"the home {runtime.home.path}, opened by this command"
        self._runtime = runtime
        self._progress = progress
        owner = owner_of(runtime.home, runtime.accounts)
        self._caller = runtime.accounts.principal(owner)
        self._operator = Principal(owner, operator=True)
        self._agent = Agent(self._caller, contract().profile_of(self._caller))
        self._calls = Calls(runtime.home.settings, runtime.library, runtime.memory, runtime.recall)

    def __enter__(self) -> HomeClient:
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.wipe()
        self._runtime.stop()

    def bring_up_to_date(self, *, embed: bool) -> None:
        """Publish and index what the branches show. What is wrong with one base is said, and stops no other."""
        for key in self._runtime.home.base_keys():
            try:
                self._runtime.indexer.synchronise(key)
            except KbgitError as error:
                self._progress.wipe()
                terminal.note(f"{key} is answered as it was: {error.message}")
        if embed:
            self._embed()
        self._progress.wipe()

    def bring_to_head(self, keys: Sequence[BaseKey], *, full: bool) -> dict[BaseKey, str]:
        """Publish, index and embed these bases; `full` derives catalogue and index anew, texts keep their vectors.

        Returns what is wrong with which: one bad base stops no other.
        """
        problems: dict[BaseKey, str] = {}
        for key in keys:
            try:
                (self._runtime.indexer.rebuild if full else self._runtime.indexer.synchronise)(key)
            except KbgitError as error:
                problems[key] = error.message
        self._embed()
        self._progress.wipe()
        return problems

    def _embed(self) -> None:
        """Give every passage its vector. Says so where the model cannot be used."""
        try:
            while self._runtime.indexer.embed_some():
                pass
        except EmbeddingFailure as error:
            self._runtime.indexer.embedding_problem = error.message
            self._progress.wipe()
            terminal.note(f"passages are left without vectors: {error.message}")

    def search(self, body: Json) -> Json:
        """As the API's."""
        request = SearchRequest.from_json(body, self._runtime.home.settings)
        return self._runtime.library.search(request, self._caller).as_json()

    def read(self, item_id: str, revision: str | None, base: str | None) -> Json:
        """As the API's."""
        return self._runtime.library.read(item_id, self._caller, revision=revision, base=base).as_json()

    def resolve(self, reference: str, base: str | None) -> Json:
        """As the API's."""
        return self._runtime.library.resolve(reference, self._caller, base=base).as_json()

    def revisions(self, item_id: str, base: str | None, cursor: str | None, limit: int) -> Json:
        """As the API's."""
        page = self._runtime.library.revisions(item_id, self._caller, base=base, cursor=cursor, limit=limit)
        return page.as_json()

    def diff(self, item_id: str, old: str, new: str, base: str | None) -> Json:
        """As the API's."""
        return self._runtime.library.diff(item_id, self._caller, old=old, new=new, base=base).as_json()

    def bases(self) -> Json:
        """As the API's."""
        return {"bases": [view.as_json() for view in self._runtime.library.bases(self._caller)]}

    def base(self, key: BaseKey) -> Json:
        """As the API's."""
        return self._runtime.library.base(str(key), self._caller).as_json()

    def status(self) -> Json:
        """As the API's."""
        return self._runtime.library.status(self._caller).as_json()

    def health(self) -> Json:
        """As the API's, of a server that would run now."""
        return Health(self._runtime).as_json()

    # What agents ask

    def verify(self, body: Json) -> Json:
        """As the API's."""
        return self._calls.verify_citations(body, self._agent)

    def changes(self, body: Json) -> Json:
        """As the API's."""
        return self._calls.knowledge_changes(body, self._agent)

    def recall(self, body: Json) -> Json:
        """As the API's."""
        return self._calls.recall_context(body, self._agent)

    def remember(self, body: Json) -> Json:
        """As the API's."""
        return self._calls.remember(body, self._agent)

    def records(self, asked: Mapping[str, str | None], limit: int) -> Json:
        """As the API's."""
        kind = asked.get("kind")
        page = self._runtime.memory.records(
            self._caller,
            space=asked.get("space"),
            project=asked.get("project"),
            kind=MemoryKind(kind) if kind else None,
            query=asked.get("query") or "",
            cursor=asked.get("cursor"),
            limit=limit,
        )
        return page.as_json()

    def forget(self, record_id: str) -> Json:
        """As the API's."""
        return self._calls.forget({"id": record_id}, self._agent)

    def export_memory(self, space: str | None, project: str | None, form: str) -> str:
        """As the API's."""
        export = self._runtime.memory.export(self._caller, space=space, project=project)
        return export.as_markdown() if form == "markdown" else json.dumps(export.as_json(), ensure_ascii=False)

    # Items

    def items(self, key: BaseKey, status: str | None, prefix: str, cursor: str | None, limit: int) -> Json:
        """As the API's."""
        page = self._runtime.library.items(
            str(key), self._caller, status=status, prefix=prefix, cursor=cursor, limit=limit
        )
        return page.as_json()

    def create_item(self, key: BaseKey, body: Json) -> Json:
        """As the API's."""
        return self._runtime.writing.create(
            str(key), self._caller, _draft(body), locator=body.get("locator"), item_id=body.get("id"), via=Via.API
        ).as_json()

    def update_item(self, item_id: str, base: str | None, expected: str, body: Json) -> Json:
        """As the API's."""
        return self._runtime.writing.update(
            *(item_id, self._caller, _draft(body)),
            base=base,
            expected_revision=expected,
            via=Via.API,
            message=body.get("message"),
        ).as_json()

    def move_item(self, item_id: str, base: str | None, verb: str, expected: str | None) -> Json:
        """As the API's."""
        return self._runtime.writing.set_status(
            item_id, self._caller, _ITEM_VERBS[verb], base=base, expected_revision=expected, via=Via.API
        ).as_json()

    def delete_item(self, item_id: str, base: str | None, expected: str | None) -> Json:
        """As the API's."""
        return self._runtime.writing.delete(
            item_id, self._caller, base=base, expected_revision=expected, via=Via.API
        ).as_json()

    # Files, and documents, which wait for a server to extract them

    most_import_bytes = 16 << 20

    def import_files(self, key: BaseKey, files: Sequence[tuple[str, bytes]], options: Json) -> Json:
        """As the API's."""
        return self._runtime.filing.import_files(
            *(str(key), self._caller, files),
            folder=options.get("folder", ""),
            status=ItemStatus(options.get("status", ItemStatus.DRAFT)),
            replace=options.get("replace", False),
            dry_run=options.get("dry_run", False),
        ).as_json()

    def file_types(self) -> Json:
        """As the API's."""
        return self._runtime.documents.file_types()

    def upload_document(self, key: BaseKey, file: Path, name: str, folder: str, *, replace: bool) -> Json:
        """Not without a server. Raises `HomeProblem`."""
        raise HomeProblem("documents are extracted by a server: start `kbgit serve`, then import them again")

    def documents(self, base: str | None, state: str | None, cursor: str | None, limit: int) -> Json:
        """As the API's."""
        page = self._runtime.documents.documents(self._caller, base=base, state=state, cursor=cursor, limit=limit)
        return page.as_json()

    def document(self, document_id: str) -> Json:
        """As the API's."""
        return self._runtime.documents.document(document_id, self._caller).as_json()

    def move_document(self, document_id: str, verb: str) -> Json:
        """As the API's."""
        documents = self._runtime.documents
        move = {"cancel": documents.cancel, "retry": documents.retry}[verb]
        return move(document_id, self._caller).as_json()

    # Bases, administered by the operator of the home

    def create_base(self, key: BaseKey, settings: Json) -> Json:
        """As the API's."""
        self._runtime.bases.create(key, self._operator, _options(settings))
        return self._administered(key)

    def update_base(self, key: BaseKey, settings: Json) -> Json:
        """As the API's, then the base."""
        self._runtime.bases.update(str(key), self._operator, _options(settings), Via.API)
        return self._administered(key)

    def move_base(self, key: BaseKey, verb: str) -> Json:
        """As the API's, then the base."""
        self._runtime.bases.set_status(str(key), self._operator, _BASE_VERBS[verb], Via.API)
        return self._administered(key)

    def delete_base(self, key: BaseKey, name: str, *, dry_run: bool) -> Json:
        """As the API's."""
        return self._runtime.bases.purge(str(key), self._operator, typed_name=name, dry_run=dry_run).as_json()

    def export_base(self, key: BaseKey) -> Iterator[bytes]:
        """As the API's."""
        return self._runtime.bases.export(str(key), self._operator)

    def _administered(self, key: BaseKey) -> Json:
        return self._runtime.library.base(str(key), self._operator).as_json()


def _draft(body: Json) -> Draft:
    return Draft(
        title=body.get("title"),
        content=body.get("content"),
        status=ItemStatus(body["status"]) if "status" in body else None,
        tags=body.get("tags"),
        description=body.get("description"),
        metadata=body.get("metadata", {}),
    )


def _options(settings: Json) -> BaseOptions:
    return BaseOptions(
        name=settings.get("name"),
        description=settings.get("description"),
        default_status=ItemStatus(settings["default_status"]) if "default_status" in settings else None,
        admission=Admission(settings["admission"]) if "admission" in settings else None,
        subdir=settings.get("subdir"),
    )


def open_home(home: Home, api_key: str | None) -> HomeClient:
    """Open a home, showing progress on a terminal. Raises `HomeLocked` while another process owns its index."""
    line = terminal.ProgressLine()

    def show(step: Progress) -> None:
        line.count(f"{step.what} ({step.base})", step.done, step.total)

    runtime = open_runtime(home, progress=show, api_key=api_key)
    try:
        return HomeClient(runtime, line)
    except BaseException:
        runtime.stop()
        raise
