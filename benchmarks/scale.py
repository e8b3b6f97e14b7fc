"""How kbgit grows: the same home with 1,000, 10,000 and 100,000 items in 50 bases.

    python -m benchmarks.scale [--sizes 1000 10000 100000] [--bases 50] [--plot docs/scale.svg]

Items are generated (80 words, two sections). Vectors come from the hashing embedder, 384 numbers like the default model's:
what embedding costs is in the other programs, here it is the index that is measured. SQLite FTS5 holds the same items.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import quote

from benchmarks.fts5 import fts5_times
from benchmarks.generated import Author
from benchmarks.serving import Client, make_home, memory_mb, results_of, server
from kbgit.access import personal_space
from kbgit.assemble import open_runtime
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer

QUERIES = 200
PUSHES = 10
EMBEDDER = "hashing"


@dataclass
class Measured:
    """One size. Seconds, milliseconds and MB as the names say."""

    items: int = 0
    import_s: float = 0.0
    index_s: float = 0.0
    vectors_s: float = 0.0
    disk_mb: float = 0.0
    start_s: float = 0.0
    first_query_ms: float = 0.0
    memory_mb: float = 0.0
    beside_mb: float = 0.0
    lexical_ms: float = 0.0
    lexical_p95_ms: float = 0.0
    hybrid_ms: float = 0.0
    hybrid_p95_ms: float = 0.0
    one_base_ms: float = 0.0
    push_ms: float = 0.0
    fresh_ms: float = 0.0
    fts5_ms: float = 0.0


HEADS = {
    "items": "items",
    "import_s": "import, admission, catalogue, s",
    "index_s": "lexical index, s",
    "vectors_s": "vectors stored, s",
    "disk_mb": "size of the home, MB",
    "start_s": "server start until it answers, s",
    "first_query_ms": "first search after the start, ms",
    "memory_mb": "resident memory of the server after all queries, MB",
    "beside_mb": "resident memory of the processes beside it, MB",
    "lexical_ms": "lexical search over HTTP, median, ms",
    "lexical_p95_ms": "lexical search over HTTP, 95 %, ms",
    "hybrid_ms": "hybrid search over HTTP, median, ms",
    "hybrid_p95_ms": "hybrid search over HTTP, 95 %, ms",
    "one_base_ms": "hybrid search of one base, median, ms",
    "push_ms": "push of one item, median, ms",
    "fresh_ms": "from the push's return to found, median, ms",
    "fts5_ms": "SQLite FTS5 in process, the same words, median, ms",
}


def keys(count: int) -> list[BaseKey]:
    """The bases."""
    return [BaseKey(personal_space("ada"), f"base-{number}") for number in range(count)]


def measure(items: int, bases: int, scratch: Path) -> Measured:
    """Everything about one size."""
    found = Measured(items)
    path = scratch / "home"
    make_home(path)
    home = Home.at(path, {"embedder": EMBEDDER})
    texts = fill(home, scratch, items, bases, found)
    queries = list(Author(5).queries(QUERIES))
    found.fts5_ms = statistics.median(fts5_times(texts, queries))
    started = time.perf_counter()
    with server(path, embedder=EMBEDDER) as (process, url):
        found.start_s = time.perf_counter() - started
        client = Client(url, home.owner_token_file.read_text().strip())
        found.first_query_ms = timed(client, queries[0])
        for mode in ("lexical", "hybrid"):  # to warm up
            for query in queries[:20]:
                timed(client, query, mode=mode)
        lexical = [timed(client, query, mode="lexical") for query in queries]
        hybrid = [timed(client, query) for query in queries]
        found.lexical_ms, found.lexical_p95_ms = statistics.median(lexical), p95(lexical)
        found.hybrid_ms, found.hybrid_p95_ms = statistics.median(hybrid), p95(hybrid)
        chance = random.Random(3)
        one = [timed(client, query, bases=[f"base-{chance.randrange(bases)}"]) for query in queries]
        found.one_base_ms = statistics.median(one)
        push(found, client, url, home, scratch, bases)
        found.memory_mb, found.beside_mb = memory_mb(process.pid)
    return found


def fill(home: Home, scratch: Path, items: int, bases: int, found: Measured) -> list[str]:
    """Write, import and index all items; gives their texts."""
    author, texts = Author(items), []
    catalogue = home.catalogue()
    for number, key in enumerate(keys(bases)):
        source = scratch / key.slug
        source.mkdir()
        for place in range(items // bases):
            text = author.item(f"{key.slug}-{place}", mark=f"unique{number}x{place}")
            texts.append(text)
            (source / f"{place}.md").write_text(text)
        started = time.perf_counter()
        Importer(home, catalogue, "ada").from_directory(key, source, BaseOptions())
        found.import_s += time.perf_counter() - started
    catalogue.close()
    runtime = open_runtime(home)
    started = time.perf_counter()
    for key in keys(bases):
        runtime.indexer.synchronise(key)
    found.index_s = time.perf_counter() - started
    started = time.perf_counter()
    while runtime.indexer.embed_some():
        pass
    found.vectors_s = time.perf_counter() - started
    runtime.stop()
    found.disk_mb = sum(file.stat().st_size for file in home.path.rglob("*") if file.is_file()) / (1 << 20)
    return texts


def push(found: Measured, client: Client, url: str, home: Home, scratch: Path, bases: int) -> None:
    """Push single changes to random bases; how long each takes, and until it is found."""
    token, author, chance = home.owner_token_file.read_text().strip(), Author(1), random.Random(8)
    pushes, fresh = [], []
    for turn in range(PUSHES):
        slug = f"base-{chance.randrange(bases)}"
        work = scratch / f"work-{turn}"
        address = url.replace("://", f"://x:{token}@") + f"/git/~ada/{slug}.git"
        git(["clone", "--quiet", address, str(work)])
        mark = f"fresh{turn}zz"
        (work / "0.md").write_text(author.item(f"{slug}-0", mark=mark))
        git(
            [
                "-C",
                str(work),
                "-c",
                "user.name=w",
                "-c",
                "user.email=w@x",
                "commit",
                "--quiet",
                "--all",
                "--message",
                "x",
            ]
        )
        started = time.perf_counter()
        git(["-C", str(work), "push", "--quiet", "origin", "main"])
        pushed = time.perf_counter()
        while not results_of(client.search(mark, mode="lexical", limit=1)):
            time.sleep(0.01)
        pushes.append((pushed - started) * 1000)
        fresh.append((time.perf_counter() - pushed) * 1000)
    found.push_ms, found.fresh_ms = statistics.median(pushes), statistics.median(fresh)
    client.ask(f"/api/v1/knowledge/item?id={quote('base-0-0')}")


def git(arguments: Sequence[str]) -> None:
    """Run Git."""
    subprocess.run(["git", *arguments], check=True, capture_output=True)


def timed(client: Client, query: str, **more: object) -> float:
    """Milliseconds of one search."""
    started = time.perf_counter()
    client.search(query, **more)
    return (time.perf_counter() - started) * 1000


def p95(times: Sequence[float]) -> float:
    """The value below which 95 of 100 lie."""
    return sorted(times)[int(len(times) * 0.95)]


def table(rows: Sequence[Measured]) -> str:
    """Markdown: a line for each figure, a column for each size."""
    lines = ["| | " + " | ".join(f"{row.items:,}" for row in rows) + " |", "|---" * (len(rows) + 1) + "|"]
    for name in (field.name for field in fields(Measured) if field.name != "items"):
        values = [getattr(row, name) for row in rows]
        lines.append(f"| {HEADS[name]} | " + " | ".join(f"{value:,.1f}" for value in values) + " |")
    return "\n".join(lines)


PLOTTED = ("lexical_ms", "hybrid_ms", "one_base_ms", "fresh_ms", "first_query_ms", "fts5_ms")
_COLOURS = ("#1b6ca8", "#c0392b", "#7d3c98", "#1e8449", "#b9770e", "#707b7c")


def plot(rows: Sequence[Measured]) -> str:
    """An SVG of milliseconds against items, both logarithmic."""
    width, height, left, bottom = 720, 420, 60, 50
    log = [[max(getattr(row, name), 0.01) for row in rows] for name in PLOTTED]
    low, high = min(map(min, log)), max(map(max, log))

    def x(items: int) -> float:
        return left + (width - left - 240) * _log(items / rows[0].items) / max(
            _log(rows[-1].items / rows[0].items), 1e-9
        )

    def y(value: float) -> float:
        return height - bottom - (height - bottom - 30) * _log(value / low) / max(_log(high / low), 1e-9)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="18">milliseconds against items, both logarithmic</text>',
    ]
    for row in rows:
        parts.append(f'<text x="{x(row.items):.0f}" y="{height - 20}" text-anchor="middle">{row.items:,}</text>')
    for power in range(-2, 6):
        if low <= 10**power <= high:
            at = y(10**power)
            parts.append(f'<line x1="{left}" x2="{width - 240}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for order, (name, values, colour) in enumerate(zip(PLOTTED, log, _COLOURS, strict=True)):
        points = " ".join(f"{x(row.items):.1f},{y(value):.1f}" for row, value in zip(rows, values, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = HEADS[name].removesuffix(", ms")
        parts.append(f'<text x="{width - 228}" y="{60 + 22 * order}" fill="{colour}">{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _log(value: float) -> float:
    return math.log10(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--bases", type=int, default=50)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    rows = []
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as scratch:
            rows.append(measure(size, arguments.bases, Path(scratch)))
            print(rows[-1], flush=True)
    print(table(rows))
    if arguments.plot:
        arguments.plot.write_text(plot(rows))


if __name__ == "__main__":
    main()
