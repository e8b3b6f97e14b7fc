"""Retrieval quality: nDCG@10 per test collection and mode, through the real index and library.

    KBGIT_CORPORA=DIR python -m benchmarks.quality [--sets xquad-en …] [--embedder e5-small] [--home DIR]

With --home the home is kept and used again, so that nothing is embedded twice.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.corpora import Query, corpora_directory, queries, write_collection
from kbgit.access import Principal
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer
from kbgit.library import SearchRequest
from kbgit.ranking import Mode

DEPTH = 10
# nDCG@10 of plain BM25, of the vectors alone and of their best known fusion (docs/benchmarks.md says how they were made).
REFERENCE: Mapping[str, tuple[float, float, float]] = {
    "xquad-en": (95.9, 97.0, 98.5),
    "xquad-de": (91.5, 95.6, 97.6),
    "xquad-zh": (96.3, 95.2, 97.7),
    "xquad-de2en": (40.1, 91.1, 91.6),
    "cmrc-zh": (97.6, 97.0, 99.2),
    "jsquad-ja": (94.3, 90.1, 95.1),
    "man-en": (82.2, 87.8, 88.2),
    "man-fr": (75.4, 65.0, 79.8),
}
MODES = (Mode.LEXICAL, Mode.SEMANTIC, Mode.RRF, Mode.HYBRID)


def ndcg(found: Sequence[str], gains: Mapping[str, float]) -> float:
    """Normalised discounted cumulative gain of a ranking at `DEPTH` (Järvelin and Kekäläinen 2002)."""
    gained = sum(gains.get(name, 0.0) / math.log2(rank + 2) for rank, name in enumerate(found[:DEPTH]))
    best = sorted(gains.values(), reverse=True)[:DEPTH]
    ideal = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(best))
    return gained / ideal if ideal else 0.0


def index(runtime: Runtime, collection: Path, scratch: Path) -> tuple[BaseKey, dict[str, str]]:
    """A base of the collection's passages, indexed and embedded."""
    key = BaseKey("personal:ada", collection.name)
    directory = scratch / collection.name
    names = write_collection(collection, directory)
    if str(key) not in {str(base) for base in runtime.home.base_keys()}:
        Importer(runtime.home, runtime.catalogue, "ada").from_directory(key, directory, BaseOptions())
    runtime.indexer.synchronise(key)
    while runtime.indexer.embed_some():
        pass
    return key, names


def measure(runtime: Runtime, key: BaseKey, names: Mapping[str, str], asked: Sequence[Query], mode: Mode) -> float:
    """Mean nDCG@10 in percent."""
    caller = Principal("ada", operator=True)
    total = 0.0
    for query in asked:
        request = SearchRequest(query=query.text, mode=mode, limit=DEPTH, bases=(str(key),))
        answer = runtime.library.search(request, caller)
        total += ndcg([names[result.item_id] for result in answer.results], query.gains)
    return 100.0 * total / len(asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(REFERENCE))
    parser.add_argument("--embedder", default="e5-small")
    parser.add_argument("--home", type=Path)
    arguments = parser.parse_args()
    corpora = corpora_directory()
    with tempfile.TemporaryDirectory() as scratch:
        path = arguments.home or Path(scratch, "home")
        if not (path / "kbgit.yaml").exists():
            Home.create(path)
        runtime = open_runtime(Home.at(path, {"embedder": arguments.embedder}))
        print(f"{'set':<14}{'queries':>8}" + "".join(f"{mode.value:>10}" for mode in MODES) + f"{'reference':>22}")
        sums: dict[Mode, float] = dict.fromkeys(MODES, 0.0)
        start = time.perf_counter()
        for name in arguments.sets:
            collection = corpora / "retrieval" / name
            key, names = index(runtime, collection, Path(scratch))
            asked = queries(collection)
            scores = {mode: measure(runtime, key, names, asked, mode) for mode in MODES}
            for mode, score in scores.items():
                sums[mode] += score
            row = "".join(f"{score:>10.1f}" for score in scores.values())
            reference = " / ".join(f"{value:.1f}" for value in REFERENCE.get(name, ()))
            print(f"{name:<14}{len(asked):>8}{row}{reference:>22}", flush=True)
        means = "".join(f"{sums[mode] / len(arguments.sets):>10.1f}" for mode in MODES)
        columns = zip(*(REFERENCE[name] for name in arguments.sets if name in REFERENCE), strict=True)
        reference = " / ".join(f"{sum(column) / len(column):.1f}" for column in columns)
        print(f"{'mean':<14}{'':>8}{means}{reference:>22}   ({time.perf_counter() - start:.0f} s)")
        runtime.stop()


if __name__ == "__main__":
    main()
