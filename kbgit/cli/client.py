"""The two ways to a library: a server over HTTP, or the home in this process. Both answer with the JSON of the API."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Protocol, Self, TypeVar

from kbgit.base import BaseKey
from kbgit.cli.homes import home_of
from kbgit.cli.http_client import HttpClient, Json, opener
from kbgit.cli.lazy import load
from kbgit.cli.session import Session
from kbgit.errors import HomeLocked, HomeProblem
from kbgit.home import SERVER_FILE, Home

_HEALTH_SECONDS = 10.0  # a server that is this late is taken for none
_LOCK_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.1
_Opened = TypeVar("_Opened")


class Client(Protocol):
    """A library, as one caller sees it. Answers are the API's; failures are `KbgitError`s of the API's codes."""

    origin: str
    """What answers, in words."""

    def search(self, body: Json) -> Json:
        """A page of results."""
        ...

    def read(self, item_id: str, revision: str | None, base: str | None) -> Json:
        """An item."""
        ...

    def resolve(self, reference: str, base: str | None) -> Json:
        """What a citation cites."""
        ...

    def revisions(self, item_id: str, base: str | None, cursor: str | None, limit: int) -> Json:
        """A page of an item's history."""
        ...

    def diff(self, item_id: str, old: str, new: str, base: str | None) -> Json:
        """What changed between two revisions."""
        ...

    def verify(self, body: Json) -> Json:
        """A verdict on each citation."""
        ...

    def changes(self, body: Json) -> Json:
        """A page of what changed."""
        ...

    def recall(self, body: Json) -> Json:
        """What is remembered about a question, and what knowledge says beside it."""
        ...

    def remember(self, body: Json) -> Json:
        """A new record of memory."""
        ...

    def records(self, asked: Mapping[str, str | None], limit: int) -> Json:
        """A page of records; `asked` may hold `space`, `project`, `kind`, `query` and `cursor`."""
        ...

    def forget(self, record_id: str) -> Json:
        """Remove a record."""
        ...

    def export_memory(self, space: str | None, project: str | None, form: str) -> str:
        """Everything that is remembered, as text in the form `json` or `markdown`."""
        ...

    def bases(self) -> Json:
        """The bases the caller may see."""
        ...

    def base(self, key: BaseKey) -> Json:
        """One base."""
        ...

    def status(self) -> Json:
        """How things stand."""
        ...

    def health(self) -> Json:
        """Ready, or degraded and why."""
        ...

    def items(self, key: BaseKey, status: str | None, prefix: str, cursor: str | None, limit: int) -> Json:
        """A page of a base's items."""
        ...

    def create_item(self, key: BaseKey, body: Json) -> Json:
        """A new item of a base."""
        ...

    def update_item(self, item_id: str, base: str | None, expected: str, body: Json) -> Json:
        """Change what `body` names of an item that is at revision `expected`."""
        ...

    def move_item(self, item_id: str, base: str | None, verb: str, expected: str | None) -> Json:
        """`publish`, `unpublish`, `archive` or `restore` an item."""
        ...

    def delete_item(self, item_id: str, base: str | None, expected: str | None) -> Json:
        """Remove an item's file."""
        ...

    def import_files(self, key: BaseKey, files: Sequence[tuple[str, bytes]], options: Json) -> Json:
        """Make items of files, (name, content) each; `options` may hold `folder`, `status`, `replace` and `dry_run`."""
        ...

    def file_types(self) -> Json:
        """Which files can come in, and how large they may be."""
        ...

    most_import_bytes: int
    """What the files of one such call should hold together."""

    def upload_document(self, key: BaseKey, file: Path, name: str, folder: str, *, replace: bool) -> Json:
        """Send a document, which the server extracts. Raises `HomeProblem` where there is no server."""
        ...

    def documents(self, base: str | None, state: str | None, cursor: str | None, limit: int) -> Json:
        """A page of documents."""
        ...

    def document(self, document_id: str) -> Json:
        """One document."""
        ...

    def move_document(self, document_id: str, verb: str) -> Json:
        """`cancel` or `retry` a document."""
        ...

    def create_base(self, key: BaseKey, settings: Json) -> Json:
        """A new base."""
        ...

    def update_base(self, key: BaseKey, settings: Json) -> Json:
        """Change settings of a base. Returns the base as it is then."""
        ...

    def move_base(self, key: BaseKey, verb: str) -> Json:
        """`archive` or `restore` a base. Returns it as it is then."""
        ...

    def delete_base(self, key: BaseKey, name: str, *, dry_run: bool) -> Json:
        """Destroy a base, whose slug is `name`; as a dry run, say what that would take."""
        ...

    def export_base(self, key: BaseKey) -> Iterator[bytes]:
        """A base as a Git bundle, in pieces."""
        ...


class Administration(Protocol):
    """The accounts of a home, as one caller sees them."""

    def me(self) -> Json:
        """Who the caller is."""
        ...

    def users(self) -> Json:
        """Every user."""
        ...

    def add_user(self, name: str, *, administrator: bool) -> Json:
        """A new user."""
        ...

    def remove_user(self, name: str) -> Json:
        """Close a user's account."""
        ...

    def spaces(self) -> Json:
        """The spaces that the caller may know."""
        ...

    def create_team(self, name: str, owner: str | None) -> Json:
        """A new team space."""
        ...

    def members(self, space: str) -> Json:
        """Who is in a space."""
        ...

    def set_member(self, space: str, user: str, role: str) -> Json:
        """Give a user a role."""
        ...

    def remove_member(self, space: str, user: str) -> Json:
        """Take a user out of a team."""
        ...

    def tokens(self, user: str | None) -> Json:
        """Tokens, never their text."""
        ...

    def create_token(self, body: Json) -> Json:
        """A new token, and its text."""
        ...

    def revoke_token(self, token_id: str) -> Json:
        """End a token."""
        ...

    def audit(self, space: str | None, cursor: str | None, limit: int) -> Json:
        """A page of the audit log."""
        ...

    def explain(self, user: str, action: str, space: str, base: str | None) -> Json:
        """Whether a user may do something, and the rule that says so."""
        ...


# Which of the two


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The server of a home, as it says in the home."""

    url: str
    pid: int


def running_server(home: Home) -> RunningServer | None:
    """The home's server, if one answers; a file that a dead server left behind is none."""
    try:
        told = json.loads((home.path / SERVER_FILE).read_text("utf-8"))
        found = RunningServer(str(told["url"]), int(told["pid"]))
        with opener(is_local=True).open(f"{found.url}/healthz", timeout=_HEALTH_SECONDS):
            return found
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None


def server_client(home: Home, server: RunningServer) -> HttpClient:
    """The home's own server, asked with the owner's token. Raises `HomeProblem`."""
    return HttpClient(server.url, owner_token(home, server), is_local=True)


def owner_token(home: Home, server: RunningServer) -> str:
    """The token with which commands ask the home's own server. Raises `HomeProblem` where it cannot be read."""
    try:
        return home.owner_token_file.read_text("utf-8").strip()
    except OSError as error:
        raise HomeProblem(
            f"{home.owner_token_file} cannot be read ({error.strerror}), and {server.url} wants a token; "
            "write one of the owner there (`kbgit token create` makes one)"
        ) from None


class OpenedHome(Client, Protocol):
    """A home in this process; see `kbgit.cli.in_process`. Leaving its context closes it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def bring_up_to_date(self, *, embed: bool) -> None:
        """Publish and index what the branches of all bases show; `embed` makes the vectors too."""
        ...

    def bring_to_head(self, keys: Sequence[BaseKey], *, full: bool) -> dict[BaseKey, str]:
        """Publish, index and embed these bases, with `full` all anew. Returns what is wrong with which."""
        ...


def server_or_home(session: Session, home: Home) -> RunningServer | OpenedHome:
    """The home's server or, while none runs, the home opened in this process. Raises `HomeLocked`."""

    def opened() -> OpenedHome:
        # Not imported above, because this brings the index's and the models' libraries: a second that commands which ask
        # a server do not spend.
        found: OpenedHome = load("kbgit.cli.in_process:open_home")(home, session.embedder_api_key)
        return found

    return server_or(home, opened)


def server_or(home: Home, opened: Callable[[], _Opened]) -> RunningServer | _Opened:
    """The home's server or, while none runs, what `opened` makes of the home in this process.

    Another short command, or a server that starts just now, may own the index for a moment: that is waited for. Raises
    `HomeLocked` when it takes longer.
    """
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        server = running_server(home)
        if server is not None:
            return server
        try:
            return opened()
        except HomeLocked:
            if time.monotonic() > give_up:
                raise
            time.sleep(_LOCK_POLL_SECONDS)


@contextmanager
def reach(session: Session, *, embed: bool = False) -> Iterator[Client]:
    """A library: that of --server; else that of the home, by its server or, while none runs, in this process.

    In this process every base is brought up to date first; `embed` waits for the vectors too.
    """
    if session.server is not None:
        yield HttpClient(session.server, session.token, is_local=False)
        return
    home = home_of(session)
    reached = server_or_home(session, home)
    if isinstance(reached, RunningServer):
        yield server_client(home, reached)
        return
    with reached as client:
        client.bring_up_to_date(embed=embed)
        yield client


class OpenedAccounts(Administration, Protocol):
    """The accounts of a home in this process; see `kbgit.cli.operator`. Leaving its context closes them."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


@contextmanager
def administer(session: Session) -> Iterator[Administration]:
    """The accounts of --server, as the holder of its token; else those of the home, as its operator.

    Accounts have no owning process, so whoever holds the home opens them beside its server, and what changes counts
    from the server's next request on.
    """
    if session.server is not None:
        yield HttpClient(session.server, session.token, is_local=False)
        return
    opened: OpenedAccounts = load("kbgit.cli.operator:open_accounts")(home_of(session))
    with opened as accounts:
        yield accounts
