"""The life of a base."""

from __future__ import annotations

from kbgit import errors as e
from kbgit.base import Admission, BaseStatus
from kbgit.web.openapi.operations import BASE_IN_PATH, OF_BASES, OF_WRITING, operation, parameter
from kbgit.web.openapi.shapes import TEXT, TRUTH, Json, closed, described, listed, nullable, ref, whole, words

_SETTINGS: Json = {
    "name": nullable(TEXT),
    "description": nullable(TEXT),
    "default_status": described(nullable(ref("ItemStatus")), "Of items that name none. Default: draft."),
    "admission": described(
        nullable(words(Admission)), "Whether an item with a problem refuses its push. Default: strict."
    ),
}

SCHEMAS: Json = {
    "BaseStatus": words(BaseStatus),
    "Problem": closed({"path": TEXT, "line": whole(), "code": TEXT, "what": TEXT, "mend": TEXT}),
    "Base": closed(
        {
            "slug": TEXT,
            "name": TEXT,
            "status": ref("BaseStatus"),
            "space": TEXT,
            "key": TEXT,
            "description": TEXT,
            "items": {"type": "object", "additionalProperties": whole(), "description": "How many of each status."},
            "freshness": ref("Freshness"),
        },
        {
            "admission": words(Admission),
            "default_status": ref("ItemStatus"),
            "alarm": TEXT,
            "problems": listed(ref("Problem")),
        },
    ),
    "BaseList": closed({"bases": listed(ref("Base"))}),
    "NewBase": closed(
        {
            "space": described(TEXT, "In full (`team:platform`, `personal:ada`), or as in Git's addresses."),
            "slug": described(TEXT, "Its name in addresses: a-z, 0-9, dot, underscore and dash."),
        },
        _SETTINGS,
    ),
    "BaseChange": closed({}, _SETTINGS),
    "Nothing": closed({}),
    "Purge": closed(
        {
            "type": {"type": "string", "enum": ["base_purged", "base_purge_preview"]},
            "key": TEXT,
            "items": whole(),
            "commits": whole(),
            "passages": whole(),
            "bytes": whole(),
        }
    ),
    "Bundle": described({"type": "string", "format": "binary"}, "A Git bundle: `git clone <file>` unpacks it."),
}

_BASE = "/api/v1/bases/{space}/{slug}"
_VERBS = {
    "archive": "Suspend search and unpinned reads of all of a base's items; nothing of their content changes.",
    "restore": "Bring an archived base back.",
}

PATHS: Json = {
    "/api/v1/bases": {
        "get": operation("listBases", "The bases that the caller may see.", "BaseList"),
        "post": operation(
            "createBase",
            "A new base.",
            "Base",
            body="NewBase",
            status=201,
            errors=(*OF_BASES, e.SpaceNotFound, e.AlreadyExists, *OF_WRITING),
        ),
    },
    _BASE: {
        "get": operation("showBase", "One base.", "Base", parameters=BASE_IN_PATH, errors=OF_BASES),
        "patch": operation(
            "changeBase",
            "Change what the body names of a base's settings.",
            "Receipt",
            parameters=BASE_IN_PATH,
            body="BaseChange",
            errors=(*OF_BASES, *OF_WRITING),
        ),
        "delete": operation(
            "deleteBase",
            "Destroy a base for good: its repository with all history, and everything derived from it. Its text is then "
            "nowhere in the data directory.",
            "Purge",
            parameters=[
                *BASE_IN_PATH,
                parameter("name", "The base's slug, typed in full; a dry run does not need it.", TEXT),
                parameter("dry_run", "Only say what it would take.", {**TRUTH, "default": False}),
            ],
            errors=OF_BASES,
        ),
    },
    **{
        f"{_BASE}/{verb}": {
            "post": operation(
                f"{verb}Base",
                summary,
                "Receipt",
                parameters=BASE_IN_PATH,
                body="Nothing",
                body_required=False,
                errors=(*OF_BASES, *OF_WRITING),
            )
        }
        for verb, summary in _VERBS.items()
    },
    f"{_BASE}/bundle": {
        "get": operation(
            "exportBase",
            "A base with its history and its publication log.",
            "Bundle",
            parameters=BASE_IN_PATH,
            errors=(*OF_BASES, e.TimedOut),
            content_type="application/x-git-bundle",
        )
    },
}
