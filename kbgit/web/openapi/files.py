"""Text and code files made into items."""

from __future__ import annotations

from kbgit.library.filing import LONGEST_NAME, MOST_FILES, Outcome
from kbgit.web.openapi.operations import BASE_IN_PATH, OF_BASES, OF_WRITING, operation
from kbgit.web.openapi.shapes import (
    ANYTHING,
    REFERENCE,
    SHA,
    TEXT,
    TEXTS,
    TRUTH,
    Json,
    closed,
    described,
    listed,
    nullable,
    ref,
    whole,
    words,
)

SCHEMAS: Json = {
    "FilesToImport": closed(
        {
            "files": listed(
                closed(
                    {
                        "name": described(
                            {**TEXT, "minLength": 1, "maxLength": LONGEST_NAME},
                            "Its path, relative, with slashes; the suffix says its kind.",
                        ),
                        "content": described({**TEXT, "contentEncoding": "base64"}, "Its bytes, in base64."),
                    }
                ),
                MOST_FILES,
            ),
        },
        {
            "folder": described(nullable(TEXT), "Where in the base they go; by default its top, or its subdir."),
            "status": described(
                nullable(ref("ItemStatus")), "Of new items: a draft by default. Markdown that says its own keeps that."
            ),
            "replace": described(
                nullable(TRUTH), "Overwrite items that were edited since, or that no import put there."
            ),
            "dry_run": described(nullable(TRUTH), "Only say what would be done."),
        },
    ),
    "ImportedFile": closed(
        {
            "name": TEXT,
            "outcome": words(Outcome),
            "locator": TEXT,
            "knowledge_item_id": nullable(TEXT),
            "reference": nullable(REFERENCE),
            "status": nullable(ref("ItemStatus")),
            "notes": described(TEXTS, "What a reader of the original should know: that it was converted, say."),
            "error": nullable(closed({"code": TEXT, "message": TEXT, "details": ANYTHING})),
        }
    ),
    "FilesImported": closed(
        {
            "type": {"const": "knowledge_files_imported"},
            "base": TEXT,
            "head": nullable(SHA),
            "dry_run": TRUTH,
            "counts": closed({outcome.value: whole() for outcome in Outcome}),
            "files": listed(ref("ImportedFile")),
        }
    ),
}

PATHS: Json = {
    "/api/v1/bases/{space}/{slug}/files": {
        "post": operation(
            "importFiles",
            "Make items of text and code files, all in one commit; a file that is refused says why and stops no other. "
            "The same files again change nothing.",
            "FilesImported",
            parameters=BASE_IN_PATH,
            body="FilesToImport",
            errors=(*OF_BASES, *OF_WRITING),
        )
    }
}
