"""Where the real corpora are, and how they become bases."""

from __future__ import annotations

import json
import os
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "KBGIT_CORPORA"


def corpora_directory() -> Path:
    """The directory that KBGIT_CORPORA names. Ends the program, saying so, where it names none."""
    named = os.environ.get(VARIABLE)
    if not named or not Path(named).is_dir():
        print(f"skipped: set {VARIABLE} to the directory of the corpora (docs/benchmarks.md says which)")
        sys.exit(0)
    return Path(named)


@dataclass(frozen=True)
class Query:
    """A question, and the gain of each passage that answers it."""

    text: str
    gains: dict[str, float]


def read_lines(path: Path) -> Iterator[dict[str, object]]:
    """The objects of a JSON Lines file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def queries(collection: Path) -> list[Query]:
    """A test collection's queries."""
    found = []
    for row in read_lines(collection / "queries.jsonl"):
        gains = row["rel"]
        assert isinstance(gains, dict)
        found.append(Query(str(row["text"]), {str(passage): float(gain) for passage, gain in gains.items()}))
    return found


def write_collection(collection: Path, directory: Path) -> dict[str, str]:
    """Write each passage of a test collection as an item. Returns item id → passage id.

    Files and ids are numbers, so that nothing is found by its name.
    """
    directory.mkdir(parents=True)
    names = {}
    for number, row in enumerate(read_lines(collection / "corpus.jsonl")):
        item = f"{number:05}"
        names[item] = str(row["id"])
        (directory / f"{item}.md").write_text(f"---\nid: '{item}'\nstatus: published\n---\n{row['text']}\n", "utf-8")
    return names


def unpack_tldr(corpora: Path, directory: Path) -> Path:
    """The 17,963 command pages, as a directory of Markdown files."""
    directory.mkdir(parents=True, exist_ok=True)
    with tarfile.open(corpora / "tldr-six-languages.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory
