"""What is promised, what is prepared for, and the tests that hold it, as a page.

    python -m tests.reliability [--results JUNIT.XML] > docs/reliability.md

The rows are `tests/reliability.toml`; results come from a report that pytest wrote with --junitxml.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "reliability.md"
PROMISES = 33
UNKNOWN = "–"
_HEAD = """\
# Reliability

What kbgit promises, which faults it is prepared for, and the tests that hold each. The tables are made from
`tests/reliability.toml` by `python -m tests.reliability --results JUNIT.XML`. A test fails when a row has neither a test nor
a reason, names a test that does not exist, or when this page is not what that command writes. The last column tells of the
run that the page was made from.

The suite does a little of everything; the long runs have their own commands, which end with 1 if anything failed:

- `python -m benchmarks.faults --kills 500`: SIGKILL in every step of push, hook, catalogue, index, embedding, rebuild,
  deletion and start, each followed by a comparison with a rebuild from Git; then every damage to every derived file.
- `python -m benchmarks.fuzz --queries 50000`: hostile queries in every mode, and requests that schemathesis makes of the
  described interface in every role.

Tests that need a full or a read-only file system mount one, which only root may; elsewhere they are skipped.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A promise or a kind of fault; `tests` are `file::function` below the directory of tests."""

    group: str
    name: str
    says: str
    tests: tuple[str, ...]
    reason: str


def rows() -> list[Row]:
    """Every row, in the order of the page."""
    told = tomllib.loads((TESTS / "reliability.toml").read_text("utf-8"))
    found = [_row("Promises", str(one["number"]), one) for one in told["promise"]]
    return found + [_row(one["group"], one["slug"], one) for one in told["kind"]]


def _row(group: str, name: str, told: Mapping[str, object]) -> Row:
    tests = told["tests"]
    assert isinstance(tests, list)
    return Row(group, name, str(told["says"]), tuple(tests), str(told.get("reason", "")))


def exists(test: str) -> bool:
    """Whether there is such a function in such a file."""
    name, _, function = test.partition("::")
    return function in _functions(TESTS / name)


@cache
def _functions(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )  # tests are functions of a module


def results(report: Path) -> dict[str, str]:
    """What became of each test function in a report: `passed`, `failed`, or how many of its cases were skipped."""
    outcomes: defaultdict[str, list[str]] = defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").removeprefix("tests.").replace(".", "/") + ".py"
        function = case.get("name", "").partition("[")[0]
        children = {child.tag for child in case}
        outcome = "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
        outcomes[f"{file}::{function}"].append(outcome)
    return {test: _summary(found) for test, found in outcomes.items()}


def _summary(outcomes: list[str]) -> str:
    if "failed" in outcomes:
        return "failed"
    skipped = outcomes.count("skipped")
    return "passed" if not skipped else "skipped" if skipped == len(outcomes) else f"passed, {skipped} skipped"


def page(found: Mapping[str, str]) -> str:
    """The whole page, with the results `found` by test."""
    return "".join(_lines(found))


def _lines(found: Mapping[str, str]) -> Iterator[str]:
    yield _HEAD
    group = ""
    for row in rows():
        if row.group != group:
            group = row.group
            first = "n" if group == "Promises" else "kind"
            yield f"\n## {group}\n\n| {first} | what holds | tests | result |\n|---|---|---|---|\n"
        tests = "<br>".join(f"`{test}`" for test in row.tests) or row.reason
        outcome = "<br>".join(found.get(test, UNKNOWN) for test in row.tests) or "no test"
        yield f"| {row.name} | {row.says} | {tests} | {outcome} |\n"


def without_results(text: str) -> str:
    """A page in which every result is unknown."""
    return re.sub(r" \| (?!what|result|---)([^|]*) \|$", lambda _: " | |", text, flags=re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, help="a report that pytest wrote with --junitxml")
    arguments = parser.parse_args()
    sys.stdout.write(page(results(arguments.results) if arguments.results else {}))


if __name__ == "__main__":
    main()
