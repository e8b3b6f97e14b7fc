"""Naming bases: by slug where that says which, by space/slug otherwise. Naming spaces: by key, or as in addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from kbgit.access import PERSONAL, TEAM, personal_space
from kbgit.base import BaseKey
from kbgit.cli.client import Client
from kbgit.errors import BaseNotFound, Conflict, InvalidRequest
from kbgit.home import Home


class SpaceKey(click.ParamType[str]):
    """`team:platform` or `personal:ada`; shorter, as in the addresses of repositories, `platform` or `~ada`."""

    name = "space"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as in click
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """The key in full. Raises `InvalidName`."""
        return space_key(value)


def space_key(text: str) -> str:
    """The key of the space that `text` names. Raises `InvalidName`."""
    if ":" not in text:
        text = PERSONAL + text[1:] if text.startswith("~") else TEAM + text
    return BaseKey(text, "any").space


def full_key(name: str) -> BaseKey:
    """The key that `name`, space/slug, spells. Raises `InvalidName`."""
    space, _, slug = name.rpartition("/")
    return BaseKey(space_key(space), slug)


def new_base_key(name: str, space: str | None, user: Callable[[], str]) -> BaseKey:
    """The key of a base to be made: `name` is a slug, or space/slug; without a space it is in the user's personal one.

    Raises `InvalidName`, `InvalidRequest` for two spaces.
    """
    if "/" not in name:
        return BaseKey(space or personal_space(user()), name)
    key = full_key(name)
    if space not in (None, key.space):
        raise InvalidRequest(f"the base is to be in {key.space} and in {space}; name one space")
    return key


def base_key(home: Home, name: str) -> BaseKey:
    """The base of a home that `name` names. Raises `BaseNotFound`, `Conflict`, `InvalidName`."""
    return chosen_key(home.base_keys(), name)


def chosen_key(keys: Iterable[BaseKey], name: str) -> BaseKey:
    """The key among `keys` that `name` names. Raises as `base_key`."""
    if "/" in name:
        wanted = full_key(name)
        found = [key for key in keys if key == wanted]
    else:
        found = [key for key in keys if key.slug == name]
    if not found:
        raise BaseNotFound(f"there is no base {name[:200]!r}", {"base": name[:200]})
    if len(found) > 1:
        several = ", ".join(sorted(map(str, found)))
        raise Conflict(f"{name!r} names several bases; write one of {several}", {"bases": sorted(map(str, found))})
    return found[0]


def key_named(client: Client, name: str) -> BaseKey:
    """The base of a library that `name` names. Raises as `base_key`; whether space/slug is there shows when it is used."""
    if "/" in name:
        return full_key(name)
    return chosen_key([BaseKey.parse(row["key"]) for row in client.bases()["bases"]], name)
