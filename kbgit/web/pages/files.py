"""Scripts, styles and pictures of the pages: those that are in the package when it is loaded, and no others.

Each address carries the hash of its file, so a browser may keep it for ever and never has an old one. Scripts that others
import are the exception: a browser runs a module once for each address, so they have one, and are asked for again.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

from flask import Blueprint, Response, request

from kbgit.errors import NotFound

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_KEPT = "public, max-age=31536000, immutable"
_ASKED_AGAIN = "no-cache"

files = Blueprint("page_files", __name__)


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    hash: str
    content_type: str


def _load() -> dict[str, _File]:
    found = {}
    for entry in sorted((resources.files("kbgit.web") / "static").iterdir(), key=lambda one: one.name):
        suffix = "." + entry.name.rpartition(".")[2]
        if entry.is_file() and suffix in _TYPES:
            content = entry.read_bytes()
            found[entry.name] = _File(content, hashlib.sha256(content).hexdigest()[:16], _TYPES[suffix])
    return found


_FILES = _load()


_IMPORTED = frozenset(
    found
    for name, file in _FILES.items()
    if name.endswith(".js")
    for found in re.findall(r'from "\./([\w.-]+)"', file.content.decode())
)


def static_address(name: str) -> str:
    """The address of a file. Raises `KeyError` for one that there is not, which is a mistake in a template."""
    found = _FILES[name]
    return f"/static/{name}" if name in _IMPORTED else f"/static/{name}?v={found.hash}"


@files.get("/static/<name>")
def serve(name: str) -> Response:
    """One file, for anybody."""
    found = _FILES.get(name)
    if found is None:
        raise NotFound("there is nothing at this address")
    response = Response(found.content, content_type=found.content_type)
    response.set_etag(found.hash)
    # What is asked for again is not sent again: its ETag says that it is the same.
    response.headers["Cache-Control"] = _KEPT if request.args.get("v") == found.hash else _ASKED_AGAIN
    response.make_conditional(request)
    return response
