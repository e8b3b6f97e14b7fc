"""The main job on 17,963 real pages: import, search in process and over HTTP, freshness after a push, memory, idling.

    KBGIT_CORPORA=DIR python -m benchmarks.tldr [--home DIR] [--vectors] [--pushes 20] [--idle 60]

Beside kbgit's lexical search stands SQLite FTS5 with the same OR queries over the same passages in the same run (and tantivy,
where it is installed). --vectors waits until every passage has its vector (many minutes on two cores) and measures hybrid
search too. --home keeps the home, so that a second run finds its vectors.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from benchmarks.corpora import corpora_directory, unpack_tldr
from benchmarks.serving import Client, children, make_home, memory_mb, results_of, server
from kbgit.access import Principal, personal_space
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer
from kbgit.indexer import passages_of
from kbgit.item import ItemStatus
from kbgit.library import SearchRequest
from kbgit.ranking import Mode

try:
    import tantivy as engine
except ImportError:
    engine = None

KEY = BaseKey(personal_space("ada"), "tldr")
OPERATOR = Principal("ada", operator=True)


def row(what: str, milliseconds: Sequence[float], target: str = "") -> None:
    """Print a line of the table: median, 95th percentile, worst."""
    ordered = sorted(milliseconds)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    print(f"{what:<46}{statistics.median(ordered):>9.2f}{p95:>9.2f}{ordered[-1]:>9.2f}   {target}", flush=True)


def timed(step: Callable[[], object]) -> float:
    """Milliseconds that `step` takes."""
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1000


def three_word_queries(texts: Sequence[str], count: int, seed: int = 11) -> list[str]:
    """Three words each, drawn from the pages, so that every query has matches."""
    chance = random.Random(seed)
    queries: list[str] = []
    while len(queries) < count:
        words = sorted(set(re.findall(r"[^\W\d_]{3,}", chance.choice(texts))))
        if len(words) >= 3:
            queries.append(" ".join(chance.sample(words, 3)))
    return queries


def import_all(home: Home, pages: Path) -> Runtime:
    """Import, admit, catalogue, and index lexically; print how long each took."""
    start = time.perf_counter()
    catalogue = home.catalogue()
    options = BaseOptions(default_status=ItemStatus.PUBLISHED)
    Importer(home, catalogue, "ada").from_directory(KEY, pages, options)
    catalogue.close()
    catalogued = time.perf_counter()
    runtime = open_runtime(home)
    opened = time.perf_counter()
    runtime.indexer.synchronise(KEY)
    indexed = time.perf_counter()
    print(
        f"import, admission, catalogue {catalogued - start:.1f} s, lexical index {indexed - opened:.1f} s,"
        f" together {catalogued - start + indexed - opened:.1f} s (target: under 40 s)"
    )
    return runtime


def compare_lexical(runtime: Runtime) -> list[str]:
    """Warm lexical queries in process, beside FTS5 and tantivy; returns the queries."""
    rows = runtime.catalogue.items(str(KEY), statuses=["published"])
    blobs = dict(runtime.indexer.repository(KEY).blobs({item.blob for item in rows}))
    texts = [passage.embedding_text for item in rows for passage in passages_of(item, blobs[item.blob])]
    queries = three_word_queries(texts, 400)
    rivals = [fts5(texts), *tantivy(texts)]
    mine: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name, _ in rivals}
    # Each engine in turn, first to warm up: interleaved, each would find the processor's caches full of the other's.
    for times in ([], mine):
        for query in queries:
            request = SearchRequest(query=query, mode=Mode.LEXICAL)
            times.append(timed(lambda request=request: runtime.library.search(request, OPERATOR)))  # type: ignore[misc]
    for name, ask in rivals:
        for times in ([], theirs[name]):
            times += [timed(lambda ask=ask, query=query: ask(query)) for query in queries]  # type: ignore[misc]
    row("lexical, three words, in process", mine)
    for name, times in theirs.items():
        row(f"  {name}, the same OR query", times)
        print(f"  ratio of medians, kbgit / {name}: {statistics.median(mine) / statistics.median(times):.2f}")
    return queries


def fts5(texts: Sequence[str]) -> tuple[str, Callable[[str], object]]:
    """SQLite's own full-text index over the same passages."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE passages USING fts5(text, tokenize='unicode61 remove_diacritics 2')")
    database.executemany("INSERT INTO passages VALUES (?)", ((text,) for text in texts))

    def ask(query: str) -> object:
        words = " OR ".join(f'"{word}"' for word in query.split())
        sql = "SELECT text, bm25(passages) FROM passages WHERE passages MATCH ? ORDER BY rank LIMIT 10"
        return database.execute(sql, (words,)).fetchall()

    return "SQLite FTS5", ask


def tantivy(texts: Sequence[str]) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Tantivy, where it is installed."""
    if engine is None:
        print("  (tantivy is not installed: pip install kbgit[benchmarks])")
        return
    builder = engine.SchemaBuilder()
    builder.add_text_field("text", stored=True)
    index = engine.Index(builder.build())
    writer = index.writer(64_000_000, 1)
    for text in texts:
        writer.add_document(engine.Document(text=text))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def ask(query: str) -> object:
        hits = searcher.search(index.parse_query(query, ["text"]), 10).hits
        return [searcher.doc(address)["text"] for _, address in hits]

    yield "tantivy", ask


def embed_all(runtime: Runtime) -> None:
    """Wait for every vector; print the rate."""
    state = runtime.index.state(str(KEY))
    start, before = time.perf_counter(), state.vectors
    while runtime.indexer.embed_some():
        state = runtime.index.state(str(KEY))
        print(f"\r  {state.vectors:,} of {state.passages:,} passages embedded ", end="", file=sys.stderr)
    taken = time.perf_counter() - start
    print(f"vectors: {state.vectors:,}, of which {state.vectors - before:,} computed or loaded now in {taken:.0f} s")


def in_process(runtime: Runtime, queries: Sequence[str]) -> None:
    """Hybrid queries in process, each with its own embedding."""
    times = [
        timed(lambda query=query: runtime.library.search(SearchRequest(query=query), OPERATOR))  # type: ignore[misc]
        for query in queries
    ]
    row("hybrid, query embedded, in process", times[50:], "p95 under 20")


def over_http(client: Client, queries: Sequence[str], *, with_vectors: bool) -> None:
    """Searches and pinned reads over HTTP."""
    for query in queries[:50]:
        client.search(query, mode="lexical")
    times = [timed(lambda query=query: client.search(query, mode="lexical")) for query in queries]  # type: ignore[misc]
    row("lexical, three words, over HTTP", times, "median under 8, p95 under 25")
    if with_vectors:
        fresh = [f"{query} {number}" for number, query in enumerate(queries)]
        times = [timed(lambda query=query: client.search(query)) for query in fresh]  # type: ignore[misc]
        row("hybrid, query embedded, over HTTP", times[20:], "p95 under 35")
    pins = [
        str(result["reference"])
        for query in queries[:200]
        for result in results_of(client.search(query, mode="lexical", limit=1))
    ]
    paths = [f"/api/v1/knowledge/resolve?reference={quote(pin, safe='')}" for pin in pins]
    row("pinned read over HTTP", [timed(lambda path=path: client.ask(path)) for path in paths], "median under 10")  # type: ignore[misc]


def pushes(client: Client, home: Home, work: Path, count: int, *, with_vectors: bool) -> None:
    """One changed item at a time: from the return of `git push` to found."""
    git = ["git", "-C", str(work), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", "clone", "--quiet", KEY.repository_path(home.repositories), work], check=True)
    items = sorted(work.glob("pages/*/*.md"))
    pushing, lexical, semantic, stale = [], [], [], 0
    for number in range(count):
        word, old_word = f"freshword{number + 10}x", f"freshword{number + 9}x"
        item = items[0]
        item.write_text(re.sub(r"freshword\d+x\n", "", item.read_text()) + f"{word}\n")
        subprocess.run([*git, "commit", "--quiet", "--all", "--message", word], check=True)
        pushing.append(timed(lambda: subprocess.run([*git, "push", "--quiet"], check=True, capture_output=True)))
        returned = time.perf_counter()
        stale += len(results_of(client.search(f'"{old_word}"', mode="lexical")))
        while not results_of(client.search(word, mode="lexical")):
            pass
        lexical.append((time.perf_counter() - returned) * 1000)
        while with_vectors and not is_embedded(client):
            time.sleep(0.01)
        semantic.append((time.perf_counter() - returned) * 1000)
    row("git push over a local path, hooks included", pushing)
    row("from the push's return to found lexically", lexical, "p95 under 500")
    if with_vectors:
        row("from the push's return to its vectors", semantic, "under 2000")
    print(f"answers with replaced text right after a push: {stale} (target: 0)")


def is_embedded(client: Client) -> bool:
    """Whether every passage has its vector."""
    return bool(client.ask("/api/v1/status")["fresh"])


def archiving(client: Client) -> None:
    """How long it takes until an archived base is in no answer, and until a restored one is."""
    address = f"/api/v1/bases/~ada/{KEY.slug}"
    for verb, is_expected in (("archive", False), ("restore", True)):
        start = time.perf_counter()
        client.ask(f"{address}/{verb}", {})
        found = bool(results_of(client.search("list", mode="lexical")))
        taken = time.perf_counter() - start
        assert found is is_expected
        print(f"{verb} a base of 17,963 items, and the next query: {taken * 1000:.0f} ms (target: under 200)")


def processor_seconds(pid: int) -> float:
    """Processor time that a server has used, and the processes beside it."""
    ticks = 0
    for one in (pid, *children(pid)):
        with suppress(OSError):  # a Git that is done
            row = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += int(row[11]) + int(row[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--pushes", type=int, default=20)
    parser.add_argument("--idle", type=float, default=60.0)
    arguments = parser.parse_args()
    corpora = corpora_directory()
    with tempfile.TemporaryDirectory() as scratch:
        path = arguments.home or Path(scratch, "home")
        is_new = not (path / "kbgit.yaml").exists()
        if is_new:
            make_home(path)
        home = Home.at(path)
        runtime = import_all(home, unpack_tldr(corpora, Path(scratch, "tldr"))) if is_new else open_runtime(home)
        print(f"{'milliseconds':<46}{'median':>9}{'p95':>9}{'worst':>9}")
        runtime.indexer.synchronise(KEY)
        queries = compare_lexical(runtime)
        if arguments.vectors:
            embed_all(runtime)
            in_process(runtime, queries)
        runtime.stop()
        with server(path) as (process, url):
            client = Client(url, (path / "owner-token").read_text().strip())
            over_http(client, queries, with_vectors=arguments.vectors)
            pushes(client, home, Path(scratch, "work"), arguments.pushes, with_vectors=arguments.vectors)
            archiving(client)
            server_mb, beside_mb = memory_mb(process.pid)
            print(
                f"resident memory of the server: {server_mb:.0f} MB (target: under 1200), beside it {beside_mb:.0f} MB"
            )
            if arguments.vectors:
                before = processor_seconds(process.pid)
                time.sleep(arguments.idle)
                used = processor_seconds(process.pid) - before
                print(f"idle for {arguments.idle:.0f} s: {used:.2f} s of processor time")


if __name__ == "__main__":
    main()
