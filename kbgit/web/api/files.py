"""Text and code files made into items: all of one request in one commit."""

from __future__ import annotations

import base64
import binascii

from flask import Response

from kbgit.errors import InvalidRequest
from kbgit.item import ItemStatus
from kbgit.library.filing import LONGEST_NAME, MOST_FILES
from kbgit.web.answers import answer
from kbgit.web.api.blueprints import knowledge_blueprint, signed_in
from kbgit.web.fields import Fields, json_object, wrong
from kbgit.web.incoming import base_key, parameters, runtime

files = knowledge_blueprint("files")
_LONGEST_CONTENT = 1 << 30  # the limit of a request is below it


@files.post("/bases/<space>/<slug>/files")
def import_files(space: str, slug: str) -> Response:
    """Make items of text and code files; each file's outcome is told by itself."""
    parameters()
    body = json_object("folder", "status", "replace", "dry_run", required=("files",))
    given = [(file.required_text("name"), _content(file)) for file in _files(body)]
    result = runtime().filing.import_files(
        base_key(space, slug),
        signed_in(),
        given,
        folder=body.text("folder") or "",
        status=body.word("status", ItemStatus) or ItemStatus.DRAFT,
        replace=body.truth("replace", False),
        dry_run=body.truth("dry_run", False),
    )
    return answer(result)


def _files(body: Fields) -> list[Fields]:
    found = body.objects("files", MOST_FILES, required=("name", "content"))
    for file in found:
        if not 0 < len(file.required_text("name")) <= LONGEST_NAME:
            raise wrong("files", f"has a name that is empty or longer than {LONGEST_NAME} characters")
    return found


def _content(file: Fields) -> bytes:
    """The bytes of a file, in base64."""
    try:
        content = file.text("content", _LONGEST_CONTENT)
        if content is not None:
            return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        pass
    name = file.required_text("name")[:200]
    raise InvalidRequest(f"the content of {name!r} is not in base64", {"field": "files"})
