"""The two ways to a library: a server over HTTP, or the home in this process. Both answer with the JSON of the API."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from typing import IO, Any, Protocol, Self

from kbgit.base import BaseKey
from kbgit.cli.errors import ServerUnreachable
from kbgit.cli.homes import home_of
from kbgit.cli.lazy import load
from kbgit.cli.session import Session
from kbgit.errors import HomeLocked, HomeProblem, KbgitError
from kbgit.home import Home

Json = dict[str, Any]

SERVER_FILE = "server.json"
_ANSWER_SECONDS = 90.0  # a search may wait for a commit
_HEALTH_SECONDS = 3.0
_LOCK_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.1


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

    def bases(self) -> Json:
        """The bases the caller may see."""
        ...

    def base(self, key: BaseKey) -> Json:
        """One base."""
        ...

    def status(self) -> Json:
        """How things stand."""
        ...


class HttpClient:
    """A kbgit server. `is_local` says that it runs on this machine, so that no proxy may come between."""

    def __init__(self, url: str, token: str, *, is_local: bool) -> None:
        self.origin = f"the server at {url}"
        self._url = url
        self._token = token
        self._opener = _opener(is_local=is_local)

    def search(self, body: Json) -> Json:
        """POST /api/v1/knowledge/search."""
        return self._ask("/api/v1/knowledge/search", {}, body)

    def read(self, item_id: str, revision: str | None, base: str | None) -> Json:
        """GET /api/v1/knowledge/item."""
        return self._ask("/api/v1/knowledge/item", {"id": item_id, "revision": revision, "base": base})

    def resolve(self, reference: str, base: str | None) -> Json:
        """GET /api/v1/knowledge/resolve."""
        return self._ask("/api/v1/knowledge/resolve", {"reference": reference, "base": base})

    def revisions(self, item_id: str, base: str | None, cursor: str | None, limit: int) -> Json:
        """GET /api/v1/knowledge/item/revisions."""
        asked = {"id": item_id, "base": base, "cursor": cursor, "limit": str(limit)}
        return self._ask("/api/v1/knowledge/item/revisions", asked)

    def diff(self, item_id: str, old: str, new: str, base: str | None) -> Json:
        """GET /api/v1/knowledge/item/diff."""
        return self._ask("/api/v1/knowledge/item/diff", {"id": item_id, "from": old, "to": new, "base": base})

    def bases(self) -> Json:
        """GET /api/v1/bases."""
        return self._ask("/api/v1/bases", {})

    def base(self, key: BaseKey) -> Json:
        """GET /api/v1/bases/<space>/<slug>."""
        return self._ask(f"/api/v1/bases/{urllib.parse.quote(key.space, safe='')}/{key.slug}", {})

    def status(self) -> Json:
        """GET /api/v1/status."""
        return self._ask("/api/v1/status", {})

    def _ask(self, path: str, parameters: dict[str, str | None], body: Json | None = None) -> Json:
        query = urllib.parse.urlencode({name: value for name, value in parameters.items() if value is not None})
        request = urllib.request.Request(
            f"{self._url}{path}?{query}" if query else f"{self._url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Accept": "application/json"},
        )
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=_ANSWER_SECONDS) as answer:
                found = _json_object(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise ServerUnreachable(f"{self.origin} does not answer: {reason}") from None
        if found is None:
            raise ServerUnreachable(f"{self.origin} answers, but not as a kbgit server does")
        return found

    def _refusal(self, answer: urllib.error.HTTPError) -> KbgitError:
        """The error that the server answered with; its class is found by its code."""
        told = (_json_object(answer) or {}).get("error")
        if not isinstance(told, dict) or not isinstance(told.get("code"), str):
            return ServerUnreachable(f"{self.origin} answers {answer.code} {answer.reason}, not as a kbgit server does")
        code, message, details = told["code"], str(told.get("message", "")), told.get("details")
        kind = _kinds().get(code)
        if kind is None:
            kind = type("ServerError", (KbgitError,), {"code": code, "http_status": answer.code})
        # Past the constructor: some kinds take what they were made from, and here is only what they became.
        error: KbgitError = kind.__new__(kind)
        KbgitError.__init__(error, message, details if isinstance(details, dict) else {})
        return error


def _kinds() -> dict[str, type[KbgitError]]:
    """Every kind of error by its code."""
    found: dict[str, type[KbgitError]] = {}
    pending: list[type[KbgitError]] = [KbgitError]
    while pending:
        kind = pending.pop()
        found.setdefault(kind.code, kind)
        pending += kind.__subclasses__()
    return found


def _json_object(answer: IO[bytes]) -> Json | None:
    try:
        found = json.loads(answer.read())
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to whatever address it names."""

    def redirect_request(self, *_: object) -> None:
        return None


def _opener(*, is_local: bool) -> urllib.request.OpenerDirector:
    proxies = [urllib.request.ProxyHandler({})] if is_local else []
    return urllib.request.build_opener(_NoRedirects, *proxies)


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
        with _opener(is_local=True).open(f"{found.url}/healthz", timeout=_HEALTH_SECONDS):
            return found
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None


def server_client(home: Home, server: RunningServer) -> HttpClient:
    """The home's own server, asked with the owner's token. Raises `HomeProblem`."""
    try:
        token = home.owner_token_file.read_text("utf-8").strip()
    except OSError as error:
        raise HomeProblem(
            f"{home.owner_token_file} cannot be read ({error.strerror}), and {server.url} wants a token; "
            "write one of the owner there (`kbgit token create` makes one)"
        ) from None
    return HttpClient(server.url, token, is_local=True)


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
    """The home's server or, while none runs, the home opened in this process.

    Another short command, or a server that starts just now, may own the index for a moment: that is waited for. Raises
    `HomeLocked` when it takes longer.
    """
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        server = running_server(home)
        if server is not None:
            return server
        try:
            # Not imported above, because this brings the index's and the models' libraries: a second that commands
            # which ask a server do not spend.
            opened: OpenedHome = load("kbgit.cli.in_process:open_home")(home, session.embedder_api_key)
            return opened
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
