"""Naming bases: by slug where that says which, by space/slug otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from kbgit.base import BaseKey
from kbgit.errors import BaseNotFound, Conflict
from kbgit.home import Home


def base_key(home: Home, name: str) -> BaseKey:
    """The base of a home that `name` names. Raises `BaseNotFound`, `Conflict`, `InvalidName`."""
    return chosen_key(home.base_keys(), name)


def chosen_key(keys: Iterable[BaseKey], name: str) -> BaseKey:
    """The key among `keys` that `name` names. Raises as `base_key`."""
    if "/" in name:
        wanted = BaseKey.parse(name)
        found = [key for key in keys if key == wanted]
    else:
        found = [key for key in keys if key.slug == name]
    if not found:
        raise BaseNotFound(f"there is no base {name[:200]!r}", {"base": name[:200]})
    if len(found) > 1:
        several = ", ".join(sorted(map(str, found)))
        raise Conflict(f"{name!r} names several bases; write one of {several}", {"bases": sorted(map(str, found))})
    return found[0]
