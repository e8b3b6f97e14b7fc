"""`kbgit item`: the group, and the commands that need no text."""

from __future__ import annotations

from typing import ClassVar

import click

from kbgit.cli import render
from kbgit.cli.base_names import key_named
from kbgit.cli.client import Client, reach
from kbgit.cli.http_client import Json
from kbgit.cli.lazy import Entry, LazyGroup
from kbgit.cli.options import base_option, expect_option, json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.paging import MOST, first
from kbgit.cli.session import Session
from kbgit.errors import ItemDeleted
from kbgit.item import ItemStatus


class ItemCommands(LazyGroup):
    """The commands of `kbgit item`."""

    entries: ClassVar[dict[str, Entry]] = {
        "create": Entry("kbgit.cli.item_text:create", "Create an item."),
        "edit": Entry("kbgit.cli.item_text:edit", "Change an item's text or front matter."),
        "publish": Entry("kbgit.cli.item:publish", "Publish a draft."),
        "unpublish": Entry("kbgit.cli.item:unpublish", "Make a published item a draft again."),
        "archive": Entry("kbgit.cli.item:archive", "Take an item out of discovery."),
        "restore": Entry("kbgit.cli.item:restore", "Bring an archived item back."),
        "delete": Entry("kbgit.cli.item:delete", "Remove an item's file."),
        "list": Entry("kbgit.cli.item:list_items", "List the items of a base."),
    }


@click.group(cls=ItemCommands, short_help="Create, change, publish and list items.")
def item() -> None:
    """Items are the documents of a base. What these commands change is one commit each, through the gate of a push.

    Nothing is overwritten: a change starts from a revision, and is refused with the difference where the item has
    moved on.

    \b
    Examples:
      kbgit item create notes --file heron.md --title "Heron"
      kbgit item publish heron
      kbgit item list notes --status draft
    """


@click.command("list", short_help="List the items of a base.")
@click.argument("base")
@click.option("--status", type=click.Choice([status.value for status in ItemStatus]), help="Only items of this status.")
@click.option("--prefix", default="", metavar="PATH", help="Only items whose locator begins so.")
@click.option("--limit", "-n", type=click.IntRange(1), default=200, show_default=True, help="Most items to list.")
@library_options
@json_option
@pass_session
def list_items(session: Session, base: str, status: str | None, prefix: str, limit: int, as_json: bool) -> None:
    """List the items of a base by id: status, revision, locator and title. Readers see the published ones.

    \b
    Examples:
      kbgit item list runbooks
      kbgit item list team:platform/runbooks --status draft --prefix deploy/ --json
    """
    with reach(session) as client:
        key = key_named(client, base)
        found = first(lambda cursor, most: client.items(key, status, prefix, cursor, most), "items", limit)
    answer(found, render.items(found), as_json=as_json)


@click.command(short_help="Publish a draft.")
@click.argument("item_id", metavar="ITEM")
@expect_option
@base_option
@library_options
@json_option
@pass_session
def publish(session: Session, item_id: str, expect: str | None, base: str | None, as_json: bool) -> None:
    """Publish a draft: from now on it is found and served.

    \b
    Examples:
      kbgit item publish item_runbook_deploy
      kbgit item publish notes/heron --base team:platform/notes
    """
    _move(session, "publish", item_id, expect, base, as_json=as_json)


@click.command(short_help="Make a published item a draft again.")
@click.argument("item_id", metavar="ITEM")
@expect_option
@base_option
@library_options
@json_option
@pass_session
def unpublish(session: Session, item_id: str, expect: str | None, base: str | None, as_json: bool) -> None:
    """Make a published item a draft again. Citations of what was published keep resolving.

    \b
    Examples:
      kbgit item unpublish item_runbook_deploy
    """
    _move(session, "unpublish", item_id, expect, base, as_json=as_json)


@click.command(short_help="Take an item out of discovery.")
@click.argument("item_id", metavar="ITEM")
@expect_option
@base_option
@library_options
@json_option
@pass_session
def archive(session: Session, item_id: str, expect: str | None, base: str | None, as_json: bool) -> None:
    """Take an item out of search and unpinned reads. Pinned citations keep resolving.

    \b
    Examples:
      kbgit item archive item_runbook_deploy
    """
    _move(session, "archive", item_id, expect, base, as_json=as_json)


@click.command(short_help="Bring an archived item back.")
@click.argument("item_id", metavar="ITEM")
@expect_option
@base_option
@library_options
@json_option
@pass_session
def restore(session: Session, item_id: str, expect: str | None, base: str | None, as_json: bool) -> None:
    """Bring an archived item back: it is published again, as it was.

    \b
    Examples:
      kbgit item restore item_runbook_deploy
    """
    _move(session, "restore", item_id, expect, base, as_json=as_json)


@click.command(short_help="Remove an item's file.")
@click.argument("item_id", metavar="ITEM")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@expect_option
@base_option
@library_options
@json_option
@pass_session
def delete(session: Session, item_id: str, dry_run: bool, expect: str | None, base: str | None, as_json: bool) -> None:
    """Remove an item's file from its base; it needs base:admin.

    The history stays, as it does in Git: pinned citations keep resolving, and a later push can bring the file back.
    Only `kbgit base delete` destroys text.

    \b
    Examples:
      kbgit item delete item_runbook_deploy --dry-run
      kbgit item delete item_runbook_deploy
    """
    with reach(session) as client:
        if dry_run:
            found = {**current(client, item_id, base), "type": "knowledge_delete_preview"}
        else:
            found = client.delete_item(item_id, base, expect)
    answer(found, render.deleted(found, dry_run=dry_run), as_json=as_json)


def current(client: Client, item_id: str, base: str | None) -> Json:
    """An item as it is now, whatever its status and that of its base. Raises `ItemNotFound`, `ItemDeleted`."""
    page = client.revisions(item_id, base, None, MOST)
    for row in page["revisions"]:
        if row["is_current"] and not row["removed"]:
            return client.read(item_id, row["knowledge_revision_id"], base)
    raise ItemDeleted(f"the file of {item_id[:200]!r} was removed; pinned citations still resolve")


def _move(session: Session, verb: str, item_id: str, expect: str | None, base: str | None, *, as_json: bool) -> None:
    with reach(session) as client:
        found = client.move_item(item_id, base, verb, expect)
    answer(found, render.written(found), as_json=as_json)
