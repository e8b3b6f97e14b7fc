"""The lexical index alone, beside SQLite FTS5 and tantivy: the same passages, the same OR queries, in the same run.

    python -m benchmarks.lexical DIRECTORY [--queries 300]

DIRECTORY holds Markdown files; each is one passage. A query is three words of one random passage, joined by OR; the time is
that of ranking all passages and reading the ten best with their text. `warm` means that each query ran once before.
tantivy takes part where it is installed (`pip install kbgit[benchmarks]`).
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from kbgit.index.bm25 import Bm25, Searched
from kbgit.index.contract import IndexedPassage
from kbgit.index.lexical import LexicalIndex
from kbgit.index.postings import PostingsCache
from kbgit.index.query import parse_query

try:
    import tantivy
except ImportError:
    tantivy = None

TOP = 10
WORD = re.compile(r"[a-zäöüéèàâêîôûçß]{3,}")


class Engine(Protocol):
    """Something that indexes passages and answers with the texts of the best."""

    name: str

    def index(self, passages: Sequence[IndexedPassage]) -> None:
        """Make `passages` searchable, durably."""
        ...

    def search(self, words: Sequence[str]) -> list[str]:
        """The texts of the ten best passages for any of `words`."""
        ...


class Kbgit:
    """kbgit's lexical half: Whoosh's postings under the vectorised scorer."""

    name = "kbgit"

    def __init__(self, directory: Path) -> None:
        self._index = LexicalIndex(directory)
        self._scorer = Bm25(PostingsCache(256 << 20))

    def index(self, passages: Sequence[IndexedPassage]) -> None:
        """See `Engine`."""
        self._index.apply((), passages, "0" * 40)

    def search(self, words: Sequence[str]) -> list[str]:
        """See `Engine`."""
        scores = self._scorer.score(parse_query(" ".join(words)), [Searched("base", self._index.snapshot())])
        best = np.argpartition(-scores.lexical, TOP)[:TOP]
        best = best[np.argsort(-scores.lexical[best])]
        return [scores.passage(int(at)).text for at in best if scores.lexical[at] > 0]


class Fts5:
    """SQLite FTS5 with its Unicode tokeniser, accents off."""

    name = "SQLite FTS5"

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._database = sqlite3.connect(directory / "fts5.db")
        self._database.execute(
            "CREATE VIRTUAL TABLE p USING fts5(title, text, tokenize='unicode61 remove_diacritics 2')"
        )

    def index(self, passages: Sequence[IndexedPassage]) -> None:
        """See `Engine`."""
        with self._database:
            self._database.executemany("INSERT INTO p VALUES (?, ?)", ((one.title, one.text) for one in passages))

    def search(self, words: Sequence[str]) -> list[str]:
        """See `Engine`."""
        match = " OR ".join(f'"{word}"' for word in words)
        rows = self._database.execute("SELECT text FROM p WHERE p MATCH ? ORDER BY rank LIMIT ?", (match, TOP))
        return [text for (text,) in rows]


class Tantivy:
    """tantivy through its Python binding."""

    name = "tantivy"

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        schema = (
            tantivy.SchemaBuilder().add_text_field("title", stored=True).add_text_field("text", stored=True).build()
        )
        self._index = tantivy.Index(schema, path=str(directory))

    def index(self, passages: Sequence[IndexedPassage]) -> None:
        """See `Engine`."""
        writer = self._index.writer()
        for one in passages:
            writer.add_document(tantivy.Document(title=one.title, text=one.text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def search(self, words: Sequence[str]) -> list[str]:
        """See `Engine`."""
        query = self._index.parse_query(" OR ".join(words), ["title", "text"])
        searcher = self._index.searcher()
        return [searcher.doc(address)["text"][0] for _, address in searcher.search(query, TOP).hits]


def read_passages(directory: Path) -> list[IndexedPassage]:
    """One passage per Markdown file under `directory`."""
    passages = []
    for path in sorted(directory.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines() or [""]
        title = lines[0].lstrip("# ")
        locator = path.relative_to(directory).as_posix()
        passages.append(IndexedPassage("base", locator, "0" * 40, 0, title, (title,), (1, len(lines)), text, locator))
    return passages


def make_queries(passages: Sequence[IndexedPassage], count: int) -> list[list[str]]:
    """Three different words each of random passages, the same ones on every run."""
    chance = random.Random(7)
    queries: list[list[str]] = []
    while len(queries) < count:
        words = sorted(set(WORD.findall(chance.choice(passages).text.lower())))
        if len(words) >= 3:
            queries.append(chance.sample(words, 3))
    return queries


def seconds(step: Callable[[], object]) -> float:
    """How long `step` takes."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def megabytes(directory: Path) -> float:
    """The size of the files under `directory`."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    arguments = argparse.ArgumentParser(description="Lexical search beside SQLite FTS5 and tantivy.")
    arguments.add_argument("directory", type=Path, help="Markdown files, each one passage")
    arguments.add_argument("--queries", type=int, default=300)
    options = arguments.parse_args()
    passages = read_passages(options.directory)
    if len(passages) <= TOP:
        arguments.error(f"{options.directory} holds {len(passages)} Markdown files; more than {TOP} are needed")
    queries = make_queries(passages, options.queries)
    print(f"{len(passages)} passages, {len(queries)} queries of three words, milliseconds")
    print(f"{'':<14}{'index s':>9}{'MB':>8}{'cold':>9}{'warm':>9}{'95 %':>9}{'worst':>9}   warm, ours ÷ theirs")
    ours = 0.0
    with tempfile.TemporaryDirectory() as home:
        makers: list[Callable[[Path], Engine]] = [Kbgit, Fts5, *([Tantivy] if tantivy else [])]
        for number, make in enumerate(makers):
            directory = Path(home) / str(number)
            engine = make(directory)
            indexing = seconds(lambda: engine.index(passages))  # noqa: B023  # called at once
            cold = [seconds(lambda: engine.search(words)) * 1e3 for words in queries]  # noqa: B023
            warm = sorted(seconds(lambda: engine.search(words)) * 1e3 for _ in range(3) for words in queries)  # noqa: B023
            median = statistics.median(warm)
            ours = ours or median
            print(
                f"{engine.name:<14}{indexing:>9.1f}{megabytes(directory):>8.1f}{statistics.median(cold):>9.2f}{median:>9.2f}"
                f"{warm[int(len(warm) * 0.95)]:>9.2f}{warm[-1]:>9.2f}   {ours / median:.2f}"
            )
    if tantivy is None:
        print("tantivy is not installed: left out")


if __name__ == "__main__":
    main()
