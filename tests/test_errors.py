"""The error tree: what its docstring draws is what there is."""

from __future__ import annotations

import inspect
import json
import re

import pytest

from kbgit import errors
from kbgit.errors import DocumentProblem, KbgitError

_LINE = re.compile(r"(?P<bars>[ │├└─]*)(?P<name>[A-Z]\w+)(?: +(?P<code>[a-z_]+) +(?P<status>\d{3}))?")


def classes() -> list[type[KbgitError]]:
    return [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, KbgitError)]


def drawn() -> dict[str, tuple[str | None, str | None, str | None]]:
    """Class name → (parent, code, status), as the module's docstring draws them."""
    found: dict[str, tuple[str | None, str | None, str | None]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = _LINE.match(line.removeprefix("    "))
        if match is None or not line.startswith("    "):
            continue
        depth = len(match["bars"]) // 4
        above[depth:] = [match["name"]]
        found[match["name"]] = (above[depth - 1] if depth else None, match["code"], match["status"])
    return found


def test_the_tree_drawn_in_the_docstring_is_the_class_tree() -> None:
    there = {
        kind.__name__: (
            None if kind is KbgitError else kind.__mro__[1].__name__,
            None if kind is KbgitError else kind.code,
            None if kind is KbgitError else str(kind.http_status),
        )
        for kind in classes()
    }
    assert drawn() == there


def test_every_code_is_unique() -> None:
    codes = [kind.code for kind in classes()]
    assert len(set(codes)) == len(codes)


def test_every_error_says_in_its_docstring_what_it_means() -> None:
    assert not [kind for kind in classes() if not (kind.__doc__ or "").strip()]


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_error_has_the_one_json_shape(kind: type[KbgitError]) -> None:
    error = kind("what happened")
    shape = json.loads(json.dumps(error.as_json()))
    assert set(shape) == {"error"}
    assert set(shape["error"]) == {"code", "message", "details"}
    assert shape["error"]["code"] == kind.code
    assert shape["error"]["message"] == str(error) == "what happened"


def test_a_document_problem_says_line_and_mend_in_words_and_in_details() -> None:
    problem = DocumentProblem("a colon", line=3, column=7, mend="quote it")
    assert problem.message == "a colon, quote it"
    assert problem.details == {"line": 3, "column": 7, "mend": "quote it"}
