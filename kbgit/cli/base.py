"""`kbgit base`: the group, and the commands that ask a library."""

from __future__ import annotations

from typing import Any, ClassVar

import click

from kbgit.accounts import Accounts
from kbgit.base import BaseKey
from kbgit.cli import render
from kbgit.cli.base_names import key_named, new_base_key
from kbgit.cli.client import reach
from kbgit.cli.homes import owner_of
from kbgit.cli.lazy import Entry, LazyGroup
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.home import Home


class BaseCommands(LazyGroup):
    """The commands of `kbgit base`."""

    entries: ClassVar[dict[str, Entry]] = {
        "create": Entry("kbgit.cli.base_new:create", "Create an empty base."),
        "import": Entry("kbgit.cli.base_new:import_base", "Make a base of a directory or a Git repository."),
        "list": Entry("kbgit.cli.base:list_bases", "List the bases."),
        "show": Entry("kbgit.cli.base:show", "Show a base: counts, freshness, problems."),
        "update": Entry("kbgit.cli.base_life:update", "Change the settings of a base."),
        "archive": Entry("kbgit.cli.base_life:archive", "Suspend search and unpinned reads of a base."),
        "restore": Entry("kbgit.cli.base_life:restore", "Bring an archived base back."),
        "export": Entry("kbgit.cli.base_life:export", "Write a base into a Git bundle."),
        "delete": Entry("kbgit.cli.base_life:delete", "Destroy a base and all that was made of it."),
        "accept-rewrite": Entry("kbgit.cli.base_rewrite:accept_rewrite", "Publish a history that was rewritten."),
    }


@click.group(cls=BaseCommands, short_help="Create, change, export and delete bases.")
def base() -> None:
    """Bases are named collections of items. Each is a Git repository of its own, in a space.

    A base is named by its slug, or by space/slug where the slug alone would not say which. A space is named by its
    key, team:platform or personal:ada, or in short platform or ~ada.

    \b
    Examples:
      kbgit base import --from ~/src/handbook
      kbgit base list
      kbgit base show team:platform/runbooks
    """


@click.command("list", short_help="List the bases.")
@library_options
@json_option
@pass_session
def list_bases(session: Session, as_json: bool) -> None:
    """List the bases, with their counts and whether their index is up to date.

    \b
    Examples:
      kbgit base list
      kbgit base list --json
    """
    with reach(session) as client:
        found = client.bases()
    answer(found, render.bases(found), as_json=as_json)


@click.command(short_help="Show a base: counts, freshness, problems.")
@click.argument("name")
@library_options
@json_option
@pass_session
def show(session: Session, name: str, as_json: bool) -> None:
    """Show a base: its settings, how many items are in which state, freshness, and the problems of its files.

    \b
    Examples:
      kbgit base show runbooks
      kbgit base show team:platform/runbooks --json
    """
    with reach(session) as client:
        found = client.base(key_named(client, name))
    answer(found, render.base(found), as_json=as_json)


def new_key(home: Home, accounts: Accounts, name: str, space: str | None) -> tuple[BaseKey, str]:
    """The key of a base to be made, and the owner of the home, on whose behalf. Raises `InvalidName`, `SpaceNotFound`.

    `name` is a slug, or space/slug; without a space it is the owner's personal one.
    """
    owner = owner_of(home, accounts)
    key = new_base_key(name, space, lambda: owner)
    accounts.require_space(key.space)
    return key, owner


def made_json(kind: str, key: BaseKey, home: Home, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """How an answer names a base that was made."""
    path = key.repository_path(home.repositories)
    return {"type": kind, "base": str(key), "slug": key.slug, "space": key.space, "repository": str(path), **more}
