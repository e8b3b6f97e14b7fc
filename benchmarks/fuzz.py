"""Hostile queries in every mode, and schemathesis on the described interface in every role, against a real server.

    python -m benchmarks.fuzz [--queries 50000] [--examples 25] [--seed 1]

No answer may be a 5xx, over its bounds or other than described; a query that is asked twice is answered alike. Ends with 1
if one is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path

from tests.faults.nursery import Nursery, url_of
from tests.faults.site import Site
from tests.fuzz.asking import ask_all
from tests.fuzz.hostile import queries
from tests.fuzz.interface import ROLES, make_home, try_all

_ANY_RATE = {"rate_per_minute": 0}


def ask(nursery: Nursery, scratch: Path, number: int, seed: int) -> list[str]:
    """Ask hostile queries; what was wrong."""
    site = Site(scratch / "queries", nursery, **_ANY_RATE)
    try:
        assert site.start(), site.log()
        site.settle()
        began = time.perf_counter()
        found = ask_all(site.url, site.token, islice(queries(seed), number))
        print(
            f"{number:,} queries in {time.perf_counter() - began:.0f} s: answers by status {found.statuses}, wrong"
            f" {len(found.wrong)}; p50 {found.quantile(0.5) * 1000:.1f} ms, p99 {found.quantile(0.99) * 1000:.1f} ms,"
            f" slowest {max(found.seconds) * 1000:.0f} ms; longest answer {found.longest:,} bytes"
        )
        return found.wrong
    finally:
        site.close()


def describe(nursery: Nursery, scratch: Path, examples: int, seed: int) -> list[str]:
    """Make requests of every operation in every role; what was wrong."""
    home = scratch / "interface" / "home"
    home.parent.mkdir()
    tokens = make_home(home)
    child = nursery.child(home, "serve", home.parent / "control", **_ANY_RATE)
    wrong = []
    try:
        url = url_of(home, child)
        assert url is not None
        for role in ROLES:
            found = try_all(url, tokens[role], examples, seed)
            by_class = Counter(f"{status // 100}xx" for status in found.statuses.elements())
            print(f"{role}: {found.statuses.total():,} requests, {dict(by_class)}, wrong {len(found.wrong)}")
            wrong += [f"{role}: {one}" for one in found.wrong]
    finally:
        child.kill()
        child.close()
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--examples", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    nursery = Nursery()
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        wrong = ask(nursery, scratch, arguments.queries, arguments.seed)
        wrong += describe(nursery, scratch, arguments.examples, arguments.seed)
    nursery.close()
    for line in wrong[:50]:
        print(f"  {line[:2000]}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
