"""Typed reading of a JSON body. Strictly, as `incoming`: a field that is unknown or of another kind is refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from flask import request

from kbgit.errors import InvalidRequest
from kbgit.store.repository import is_sha
from kbgit.web.incoming import json_body

LONGEST_TEXT = 1 << 24  # of an item; what is less is for admission to judge
_LONGEST = 4096
_MOST_VALUES = 200
_SURROGATE = re.compile("[\ud800-\udfff]")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:[Zz]|[+-]\d\d:\d\d)")
Word = TypeVar("Word", bound=StrEnum)


def json_object(*known: str, required: tuple[str, ...] = ()) -> Fields:
    """The request's JSON object, which may have these fields. Raises `InvalidRequest`, `UnsupportedMediaType`."""
    body = json_body()
    if not isinstance(body, dict):
        raise InvalidRequest("the body must be a JSON object")
    allowed = sorted((*known, *required))
    for name in body:
        if name not in allowed:
            raise InvalidRequest(f"unknown field {name[:100]!r}", {"field": name[:100], "known": allowed})
    for name in required:
        if body.get(name) is None:
            raise wrong(name, "is missing")
    return Fields(body)


def optional_json_object(*known: str) -> Fields:
    """The same of a request that may come without a body."""
    return json_object(*known) if request.get_data() else Fields({})


def wrong(name: str, why: str) -> InvalidRequest:
    """The error for a field that is not what it must be."""
    return InvalidRequest(f"field `{name}` {why}", {"field": name})


class Fields:
    """The fields of a JSON object; one that is null counts as absent."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    def text(self, name: str, longest: int = _LONGEST) -> str | None:
        """A text of at most `longest` characters."""
        value = self._body.get(name)
        return None if value is None else _text(name, value, longest)

    def line(self, name: str) -> str | None:
        """A text that lists and terminals can show as it is."""
        value = self.text(name, 200)
        if value is not None and not value.isprintable():
            raise wrong(name, "must be one line of printable characters")
        return value

    def required_text(self, name: str) -> str:
        """A text that `json_object` found to be there."""
        return _text(name, self._body[name], _LONGEST)

    def texts(self, name: str) -> list[str] | None:
        """A list of texts."""
        value = self._body.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > _MOST_VALUES:
            raise wrong(name, f"must be a list of at most {_MOST_VALUES} texts")
        return [_text(name, one, _LONGEST) for one in value]

    def objects(self, name: str, most: int, *, required: tuple[str, ...]) -> list[Fields]:
        """A list of objects, each with exactly the fields `required`."""
        value = self._body.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise wrong(name, f"must be a list of at most {most} objects")
        for one in value:
            if not isinstance(one, dict) or set(one) != set(required):
                raise wrong(name, f"must hold objects with {' and '.join(f'`{field}`' for field in required)} each")
        return [Fields(one) for one in value]

    def truth(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._body.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong(name, "must be true or false")
        return value

    def word(self, name: str, kind: type[Word]) -> Word | None:
        """One of the words of `kind`."""
        return None if self._body.get(name) is None else self.required_word(name, kind)

    def required_word(self, name: str, kind: type[Word]) -> Word:
        """The same, of a field that `json_object` found to be there."""
        return _word(name, self._body[name], kind)

    def words(self, name: str, kind: type[Word]) -> list[Word]:
        """A list of such words."""
        return [_word(name, one, kind) for one in self.texts(name) or ()]

    def commit(self, name: str) -> str | None:
        """A full commit SHA."""
        value = self.text(name)
        if value is not None and not is_sha(value):
            raise wrong(name, "must be a full, lower-case commit SHA")
        return value

    def moment(self, name: str) -> int | None:
        """A time as RFC 3339 writes it, in seconds since the epoch."""
        value = self.text(name)
        if value is None:
            return None
        try:
            if _RFC3339.fullmatch(value):
                return int(datetime.fromisoformat(value.upper()).timestamp())
        except (ValueError, OverflowError):  # a day or an hour that there is not
            pass
        raise wrong(name, "must be a time such as 2027-01-31T12:00:00Z")

    def metadata(self, name: str) -> dict[str, str | list[str] | None]:
        """Front matter fields: texts, lists of texts, or null to remove one."""
        value = self._body.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or len(value) > _MOST_VALUES:
            raise wrong(name, f"must be an object of at most {_MOST_VALUES} fields")
        found: dict[str, str | list[str] | None] = {}
        for key, one in value.items():
            _text(name, key, _LONGEST)
            if isinstance(one, list):
                found[key] = [_text(name, part, _LONGEST) for part in one]
            else:
                found[key] = None if one is None else _text(name, one, _LONGEST)
        return found


def _text(name: str, value: object, longest: int) -> str:
    if not isinstance(value, str):
        raise wrong(name, "must be of texts, as they are to be written" if name == "metadata" else "must be a text")
    if len(value) > longest:
        raise wrong(name, f"has {len(value)} characters; at most {longest} are allowed")
    if _SURROGATE.search(value):
        raise wrong(name, "has half a surrogate pair, which no file can hold")
    return value


def _word(name: str, value: object, kind: type[Word]) -> Word:
    try:
        return kind(_text(name, value, _LONGEST))
    except ValueError:
        raise wrong(name, f"must be one of {', '.join(word.value for word in kind)}") from None
