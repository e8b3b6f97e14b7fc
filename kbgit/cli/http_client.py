"""A kbgit server, asked over HTTP. What it answers is handed on as it is; its refusals become the errors they were."""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any

from kbgit.base import BaseKey
from kbgit.cli.errors import ServerUnreachable
from kbgit.cli.paging import first
from kbgit.errors import KbgitError, Unauthenticated

Json = dict[str, Any]
Parameters = Mapping[str, str | None]

_ANSWER_SECONDS = 90.0  # a search may wait for a commit
_CHUNK = 1 << 16
_KNOWLEDGE = "/api/v1/knowledge"
_MEMORY = "/api/v1/memory"
_DOCUMENTS = "/api/v1/documents"


class HttpClient:
    """A kbgit server. `is_local` says that it runs on this machine, so that no proxy may come between."""

    def __init__(self, url: str, token: str, *, is_local: bool) -> None:
        self.origin = f"the server at {url}"
        self._url = url
        self._authorization = authorization(token)
        self._opener = opener(is_local=is_local)

    # Reading

    def search(self, body: Json) -> Json:
        """POST /api/v1/knowledge/search."""
        return self._ask("POST", f"{_KNOWLEDGE}/search", body=body)

    def read(self, item_id: str, revision: str | None, base: str | None) -> Json:
        """GET /api/v1/knowledge/item."""
        return self._ask("GET", f"{_KNOWLEDGE}/item", {"id": item_id, "revision": revision, "base": base})

    def resolve(self, reference: str, base: str | None) -> Json:
        """GET /api/v1/knowledge/resolve."""
        return self._ask("GET", f"{_KNOWLEDGE}/resolve", {"reference": reference, "base": base})

    def revisions(self, item_id: str, base: str | None, cursor: str | None, limit: int) -> Json:
        """GET /api/v1/knowledge/item/revisions."""
        asked = {"id": item_id, "base": base, "cursor": cursor, "limit": str(limit)}
        return self._ask("GET", f"{_KNOWLEDGE}/item/revisions", asked)

    def diff(self, item_id: str, old: str, new: str, base: str | None) -> Json:
        """GET /api/v1/knowledge/item/diff."""
        return self._ask("GET", f"{_KNOWLEDGE}/item/diff", {"id": item_id, "from": old, "to": new, "base": base})

    def bases(self) -> Json:
        """GET /api/v1/bases."""
        return self._ask("GET", "/api/v1/bases")

    def base(self, key: BaseKey) -> Json:
        """GET /api/v1/bases/<space>/<slug>."""
        return self._ask("GET", _base(key))

    def status(self) -> Json:
        """GET /api/v1/status."""
        return self._ask("GET", "/api/v1/status")

    def health(self) -> Json:
        """GET /healthz."""
        return self._ask("GET", "/healthz")

    # What agents ask

    def verify(self, body: Json) -> Json:
        """POST /api/v1/citations/verify."""
        return self._ask("POST", "/api/v1/citations/verify", body=body)

    def changes(self, body: Json) -> Json:
        """POST /api/v1/knowledge/changes."""
        return self._ask("POST", f"{_KNOWLEDGE}/changes", body=body)

    def recall(self, body: Json) -> Json:
        """POST /api/v1/recall."""
        return self._ask("POST", "/api/v1/recall", body=body)

    def remember(self, body: Json) -> Json:
        """POST /api/v1/memory."""
        return self._ask("POST", _MEMORY, body=body)

    def records(self, asked: Parameters, limit: int) -> Json:
        """GET /api/v1/memory."""
        return self._ask("GET", _MEMORY, {**asked, "limit": str(limit)})

    def forget(self, record_id: str) -> Json:
        """DELETE /api/v1/memory/<id>."""
        return self._ask("DELETE", f"{_MEMORY}/{_quoted(record_id)}")

    def export_memory(self, space: str | None, project: str | None, form: str) -> str:
        """GET /api/v1/memory/export."""
        asked = {"space": space, "project": project, "format": form}
        with self._answer("GET", f"{_MEMORY}/export", asked, None) as answer:
            return answer.read().decode("utf-8", "replace")

    # Items

    def items(self, key: BaseKey, status: str | None, prefix: str, cursor: str | None, limit: int) -> Json:
        """GET /api/v1/bases/<space>/<slug>/items."""
        asked = {"status": status, "prefix": prefix or None, "cursor": cursor, "limit": str(limit)}
        return self._ask("GET", f"{_base(key)}/items", asked)

    def create_item(self, key: BaseKey, body: Json) -> Json:
        """POST /api/v1/bases/<space>/<slug>/items."""
        return self._ask("POST", f"{_base(key)}/items", body=body)

    def update_item(self, item_id: str, base: str | None, expected: str, body: Json) -> Json:
        """PATCH /api/v1/knowledge/item."""
        body = {**body, "expected_revision": expected}
        return self._ask("PATCH", f"{_KNOWLEDGE}/item", {"id": item_id, "base": base}, body)

    def move_item(self, item_id: str, base: str | None, verb: str, expected: str | None) -> Json:
        """POST /api/v1/knowledge/item/<verb>."""
        body = {"expected_revision": expected} if expected else {}
        return self._ask("POST", f"{_KNOWLEDGE}/item/{verb}", {"id": item_id, "base": base}, body)

    def delete_item(self, item_id: str, base: str | None, expected: str | None) -> Json:
        """DELETE /api/v1/knowledge/item."""
        asked = {"id": item_id, "base": base, "expected_revision": expected}
        return self._ask("DELETE", f"{_KNOWLEDGE}/item", asked)

    # Files and documents

    most_import_bytes = 1 << 20  # in base64 and JSON it stays below the usual limit of a request

    def import_files(self, key: BaseKey, files: Sequence[tuple[str, bytes]], options: Json) -> Json:
        """POST /api/v1/bases/<space>/<slug>/files."""
        listed = [{"name": name, "content": base64.b64encode(content).decode()} for name, content in files]
        return self._ask("POST", f"{_base(key)}/files", body={"files": listed, **options})

    def file_types(self) -> Json:
        """GET /api/v1/file-types."""
        return self._ask("GET", "/api/v1/file-types")

    def upload_document(self, key: BaseKey, file: Path, name: str, folder: str, *, replace: bool) -> Json:
        """POST /api/v1/bases/<space>/<slug>/documents."""
        asked = {"name": name, "folder": folder or None, "replace": "true" if replace else None}
        with file.open("rb") as content:
            return self._ask("POST", f"{_base(key)}/documents", asked, content)

    def documents(self, base: str | None, state: str | None, cursor: str | None, limit: int) -> Json:
        """GET /api/v1/documents."""
        return self._ask("GET", _DOCUMENTS, {"base": base, "state": state, "cursor": cursor, "limit": str(limit)})

    def document(self, document_id: str) -> Json:
        """GET /api/v1/documents/<id>."""
        return self._ask("GET", f"{_DOCUMENTS}/{_quoted(document_id)}")

    def move_document(self, document_id: str, verb: str) -> Json:
        """POST /api/v1/documents/<id>/<verb>."""
        return self._ask("POST", f"{_DOCUMENTS}/{_quoted(document_id)}/{verb}")

    # Bases

    def create_base(self, key: BaseKey, settings: Json) -> Json:
        """POST /api/v1/bases."""
        return self._ask("POST", "/api/v1/bases", body={"space": key.space, "slug": key.slug, **settings})

    def update_base(self, key: BaseKey, settings: Json) -> Json:
        """PATCH /api/v1/bases/<space>/<slug>, then the base."""
        self._ask("PATCH", _base(key), body=settings)
        return self.base(key)

    def move_base(self, key: BaseKey, verb: str) -> Json:
        """POST /api/v1/bases/<space>/<slug>/<verb>, then the base."""
        self._ask("POST", f"{_base(key)}/{verb}", body={})
        return self.base(key)

    def delete_base(self, key: BaseKey, name: str, *, dry_run: bool) -> Json:
        """DELETE /api/v1/bases/<space>/<slug>."""
        return self._ask("DELETE", _base(key), {"name": name or None, "dry_run": "true" if dry_run else None})

    def export_base(self, key: BaseKey) -> Iterator[bytes]:
        """GET /api/v1/bases/<space>/<slug>/bundle."""
        with self._answer("GET", f"{_base(key)}/bundle", {}, None) as answer:
            while piece := answer.read(_CHUNK):
                yield piece

    # Accounts

    def me(self) -> Json:
        """GET /api/v1/me."""
        return self._ask("GET", "/api/v1/me")

    def users(self) -> Json:
        """GET /api/v1/users."""
        return self._every("users", "/api/v1/users")

    def add_user(self, name: str, *, administrator: bool) -> Json:
        """POST /api/v1/users."""
        return self._ask("POST", "/api/v1/users", body={"name": name, "administrator": administrator})

    def remove_user(self, name: str) -> Json:
        """DELETE /api/v1/users/<name>."""
        return self._ask("DELETE", f"/api/v1/users/{_quoted(name)}")

    def spaces(self) -> Json:
        """GET /api/v1/spaces."""
        return self._every("spaces", "/api/v1/spaces")

    def create_team(self, name: str, owner: str | None) -> Json:
        """POST /api/v1/spaces."""
        return self._ask("POST", "/api/v1/spaces", body={"name": name} | ({"owner": owner} if owner else {}))

    def members(self, space: str) -> Json:
        """GET /api/v1/spaces/<space>/members."""
        return self._every("members", f"/api/v1/spaces/{_quoted(space)}/members")

    def set_member(self, space: str, user: str, role: str) -> Json:
        """PUT /api/v1/spaces/<space>/members/<user>."""
        return self._ask("PUT", f"/api/v1/spaces/{_quoted(space)}/members/{_quoted(user)}", body={"role": role})

    def remove_member(self, space: str, user: str) -> Json:
        """DELETE /api/v1/spaces/<space>/members/<user>."""
        return self._ask("DELETE", f"/api/v1/spaces/{_quoted(space)}/members/{_quoted(user)}")

    def tokens(self, user: str | None) -> Json:
        """GET /api/v1/tokens."""
        return self._every("tokens", "/api/v1/tokens", {"user": user})

    def create_token(self, body: Json) -> Json:
        """POST /api/v1/tokens."""
        return self._ask("POST", "/api/v1/tokens", body=body)

    def revoke_token(self, token_id: str) -> Json:
        """DELETE /api/v1/tokens/<id>."""
        return self._ask("DELETE", f"/api/v1/tokens/{_quoted(token_id)}")

    def audit(self, space: str | None, cursor: str | None, limit: int) -> Json:
        """GET /api/v1/audit."""
        return self._ask("GET", "/api/v1/audit", {"space": space, "cursor": cursor, "limit": str(limit)})

    def explain(self, user: str, action: str, space: str, base: str | None) -> Json:
        """GET /api/v1/access."""
        return self._ask("GET", "/api/v1/access", {"user": user, "action": action, "space": space, "base": base})

    # The one way to the server

    def _ask(
        self, method: str, path: str, parameters: Parameters | None = None, body: Json | IO[bytes] | None = None
    ) -> Json:
        with self._answer(method, path, parameters or {}, body) as answer:
            found = _json_object(answer)
        if found is None:
            raise ServerUnreachable(f"{self.origin} answers, but not as a kbgit server does")
        return found

    def _every(self, name: str, path: str, parameters: Parameters | None = None) -> Json:
        """The whole of a list that comes in pages."""

        def page(cursor: str | None, most: int) -> Json:
            return self._ask("GET", path, {**(parameters or {}), "limit": str(most), "cursor": cursor})

        return {name: first(page, name)[name]}

    @contextmanager
    def _answer(
        self, method: str, path: str, parameters: Parameters, body: Json | IO[bytes] | None
    ) -> Iterator[HTTPResponse]:
        """The server's answer, to be read within the context: whatever happens on the way is translated."""
        query = urllib.parse.urlencode({name: value for name, value in parameters.items() if value is not None})
        request = urllib.request.Request(
            f"{self._url}{path}?{query}" if query else f"{self._url}{path}",
            data=json.dumps(body).encode() if isinstance(body, dict) else body,
            headers={"Authorization": self._authorization, "Accept": "application/json"},
            method=method,
        )
        if isinstance(body, dict):
            request.add_header("Content-Type", "application/json")
        elif body is not None:
            request.add_header("Content-Type", "application/octet-stream")
            request.add_header("Content-Length", str(os.fstat(body.fileno()).st_size))
        try:
            with self._opener.open(request, timeout=_ANSWER_SECONDS) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise ServerUnreachable(f"{self.origin} does not answer: {reason}") from None

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


def authorization(token: str) -> str:
    """The header that carries a token. Raises `Unauthenticated` for a text that a header cannot hold."""
    if not token.isascii() or not token.isprintable():
        raise Unauthenticated("the token holds characters that no token has: it was not copied as it is")
    return f"Bearer {token}"


def opener(*, is_local: bool) -> urllib.request.OpenerDirector:
    """How servers are asked: never redirected, and on this machine never through a proxy."""
    proxies = [urllib.request.ProxyHandler({})] if is_local else []
    return urllib.request.build_opener(_NoRedirects, *proxies)


def _base(key: BaseKey) -> str:
    return f"/api/v1/bases/{_quoted(key.space)}/{_quoted(key.slug)}"


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
