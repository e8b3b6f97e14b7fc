"""A search request: every field of `POST /api/v1/knowledge/search`, checked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

from kbgit.config import Settings
from kbgit.errors import InvalidRequest
from kbgit.ranking import Mode
from kbgit.store.repository import is_sha

_MOST_VALUES = 100
_LONGEST_VALUE = 1024
_MOST_OFFSET = 1000
_SURROGATE = re.compile("[\ud800-\udfff]")
_Word = TypeVar("_Word", bound=StrEnum)


class Content(StrEnum):
    """What a result carries of its item."""

    PASSAGE = "passage"
    FULL = "full"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What to search, where, and how to rank. Defaults are the API's."""

    query: str
    exclude: tuple[str, ...] = ()
    mode: Mode = Mode.HYBRID
    alpha: float = 0.5
    k: int = 60
    limit: int = 10
    offset: int = 0
    bases: tuple[str, ...] = ()
    spaces: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    locator: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    min_score: float = 0.0
    content: Content = Content.PASSAGE
    wait_for: str | None = None
    wait_seconds: float | None = None
    explain: bool = False

    @classmethod
    def from_json(cls, body: object, settings: Settings) -> SearchRequest:
        """Read a request body. Raises `InvalidRequest`, naming the field and what it takes."""
        if not isinstance(body, Mapping):
            raise InvalidRequest("the body must be a JSON object with at least a `query`")
        known = {row.name for row in fields(cls)}
        unknown = sorted(str(name) for name in body if name not in known)
        if unknown:
            raise InvalidRequest(
                f"unknown field {unknown[0][:100]!r}", {"field": unknown[0][:100], "known": sorted(known)}
            )
        read = _Reader(body)
        if "query" not in body:
            raise _wrong("query", "is missing")
        return cls(
            query=read.text("query", "", settings.query_max_chars),
            exclude=read.texts("exclude"),
            mode=read.word("mode", Mode.HYBRID),
            alpha=read.number("alpha", 0.5, 0.0, 1.0),
            k=read.whole("k", 60, 1, 100_000),
            limit=read.whole("limit", 10, 1, 100),
            offset=read.whole("offset", 0, 0, _MOST_OFFSET),
            bases=read.texts("bases"),
            spaces=read.texts("spaces"),
            tags=read.texts("tags"),
            locator=read.text("locator", ""),
            metadata=read.pairs("metadata"),
            min_score=read.number("min_score", 0.0, 0.0, 1.0),
            content=read.word("content", Content.PASSAGE),
            wait_for=read.commit("wait_for"),
            wait_seconds=read.optional_number("wait_seconds", 0.0, settings.wait_for_max_seconds),
            explain=read.truth("explain", False),
        )


def _wrong(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"field `{name}` {why}", {"field": name})


class _Reader:
    """Typed reading of a JSON object's fields; absent and null fields have their default."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    def _value(self, name: str) -> object:
        return self._body.get(name)

    def text(self, name: str, default: str, longest: int = _LONGEST_VALUE) -> str:
        value = self._value(name)
        if value is None and name != "query":
            return default
        if not isinstance(value, str):
            raise _wrong(name, "must be a text")
        if len(value) > longest:
            raise _wrong(name, f"has {len(value)} characters; at most {longest} are allowed")
        return _SURROGATE.sub("\ufffd", value)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._value(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            raise _wrong(name, "must be a list of texts")
        if len(values) > _MOST_VALUES or any(len(one) > _LONGEST_VALUE for one in values):
            raise _wrong(name, f"takes at most {_MOST_VALUES} values of at most {_LONGEST_VALUE} characters")
        return tuple(_SURROGATE.sub("\ufffd", one) for one in values)

    def pairs(self, name: str) -> dict[str, str]:
        value = self._value(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or len(value) > _MOST_VALUES:
            raise _wrong(name, 'must be an object of texts: {"owner": "platform"}')
        found = {}
        for key, single in value.items():
            if isinstance(single, bool | int | float) or not isinstance(single, str):
                raise _wrong(name, f"compares texts as they are typed: write {str(key)[:100]!r} as a text")
            found[_SURROGATE.sub("\ufffd", str(key))] = _SURROGATE.sub("\ufffd", single)
        return found

    def number(self, name: str, default: float, least: float, most: float) -> float:
        found = self.optional_number(name, least, most)
        return default if found is None else found

    def optional_number(self, name: str, least: float, most: float) -> float | None:
        value = self._value(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise _wrong(name, "must be a number")
        if not least <= value <= most:
            raise _wrong(name, f"must be from {least:g} to {most:g}")
        return float(value)

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        value = self._value(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _wrong(name, f"must be a whole number from {least} to {most}")
        return value

    def truth(self, name: str, default: bool) -> bool:
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise _wrong(name, "must be true or false")
        return value

    def word(self, name: str, default: _Word) -> _Word:
        value = self._value(name)
        if value is None:
            return default
        try:
            return type(default)(str(value))
        except ValueError:
            known = ", ".join(word.value for word in type(default))
            raise _wrong(name, f"must be one of {known}") from None

    def commit(self, name: str) -> str | None:
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, str) or not is_sha(value):
            raise _wrong(name, "must be a full, lower-case commit SHA")
        return value
