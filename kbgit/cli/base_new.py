"""`kbgit base create` and `kbgit base import`."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from kbgit.base import Admission, BaseKey, slug_from
from kbgit.cli import terminal
from kbgit.cli.base import made_json, new_key
from kbgit.cli.client import Client, running_server, server_client
from kbgit.cli.homes import home_of
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.errors import InvalidName, InvalidRequest, KbgitError
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer, is_repository
from kbgit.item import ItemStatus

_POLL_SECONDS = 0.2

space_option = click.option("--space", metavar="KEY", help="The space it is in.  [default: the owner's personal space]")
description_option = click.option("--description", metavar="TEXT", help="What it is about, in a line.")
status_option = click.option(
    "--default-status",
    type=click.Choice([status.value for status in ItemStatus]),
    help="The status of items that name none.  [default: draft]",
)
admission_option = click.option(
    "--admission",
    type=click.Choice([admission.value for admission in Admission]),
    help="strict refuses a push with a bad item, lenient publishes the others.  [default: strict]",
)


def _options(
    name: str | None, description: str | None, status: str | None, admission: str | None, subdir: str | None = None
) -> BaseOptions:
    return BaseOptions(
        name=name,
        description=description,
        default_status=ItemStatus(status) if status else None,
        admission=Admission(admission) if admission else None,
        subdir=subdir,
    )


@click.command(short_help="Create an empty base.")
@click.argument("name")
@space_option
@click.option("--title", metavar="TEXT", help="Its name for people.  [default: NAME]")
@description_option
@status_option
@admission_option
@home_option
@json_option
@pass_session
def create(
    session: Session,
    name: str,
    space: str | None,
    title: str | None,
    description: str | None,
    default_status: str | None,
    admission: str | None,
    as_json: bool,
) -> None:
    """Create a base called NAME (a-z, 0-9, dot, underscore, dash), to clone and to push to.

    What the options say becomes its base.yaml, in its first commit; without options it stays empty.

    \b
    Examples:
      kbgit base create notes
      kbgit base create runbooks --space team:platform --title "Runbooks" --default-status published
    """
    home = home_of(session)
    key, owner = new_key(home, name, space)
    with closing(home.catalogue()) as catalogue:
        made = Importer(home, catalogue, owner).create(key, _options(title, description, default_status, admission))
    found = made_json("base_created", key, home, head=made.head)
    lines = [f"created {key}", "Next:", f"  git clone {found['repository']}"]
    answer(found, lines, as_json=as_json)


@click.command("import", short_help="Make a base of a directory or a Git repository.")
@click.argument("name", required=False)
@click.option("--from", "source", required=True, metavar="SOURCE", help="A directory, or a repository's path or URL.")
@click.option("--subdir", metavar="PATH", help="Only what is below this directory of it is items.")
@click.option("--branch", metavar="NAME", help="The branch of a repository.  [default: its default branch]")
@space_option
@description_option
@status_option
@admission_option
@click.option("--no-wait", is_flag=True, help="Do not wait until a running server has indexed it.")
@home_option
@json_option
@pass_session
def import_base(
    session: Session,
    name: str | None,
    source: str,
    subdir: str | None,
    branch: str | None,
    space: str | None,
    description: str | None,
    default_status: str | None,
    admission: str | None,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Make a base of what is there, called NAME (default: made from the source's name).

    Of a Git repository (a path, a bundle, a URL) the whole history of one branch comes, with every SHA. Of a
    directory its files become the first commit. While a server runs, the command waits until that has indexed the
    base; vectors, for semantic search, follow in the background.

    \b
    Examples:
      kbgit base import --from ~/src/handbook
      kbgit base import runbooks --from https://example.org/runbooks.git --branch main --default-status published
      kbgit base import docs --from ~/src/app --subdir docs --space team:platform --admission lenient
    """
    home = home_of(session)
    key, owner = new_key(home, name or _name_of(source), space)
    options = _options(None, description, default_status, admission, subdir)
    with closing(home.catalogue()) as catalogue:
        importer = Importer(home, catalogue, owner, lambda text: terminal.tell(terminal.line(text)))
        if is_repository(source):
            receipt = importer.from_repository(key, _address(source), options, branch)
        elif branch is not None:
            raise InvalidRequest(f"{source} is no Git repository, so it has no branch")
        else:
            receipt = importer.from_directory(key, Path(source), options)
    found = made_json("base_imported", key, home, **receipt.as_json(), indexed=not no_wait and _await_index(home, key))
    lines = [*receipt.lines(), "" if found["indexed"] else "indexed by the next `kbgit search`, or by `kbgit serve`"]
    answer(found, filter(None, lines), as_json=as_json)


def _name_of(source: str) -> str:
    last = Path(source.rstrip("/")).expanduser().resolve().name if "://" not in source else source.rstrip("/")
    plain = last.rpartition("/")[2].removesuffix(".git").removesuffix(".bundle")
    try:
        return slug_from(plain)
    except InvalidName:
        raise InvalidName(
            f"no name for a base can be made from {plain[:100]!r}; write one: kbgit base import NAME --from …"
        ) from None


def _address(source: str) -> str:
    """Git runs in the new repository, so a path is made absolute."""
    return source if "://" in source else str(Path(source).expanduser().resolve())


def _await_index(home: Home, key: BaseKey) -> bool:
    """Wait until a running server has indexed the base. False when none runs, or it does not let us see that."""
    server = running_server(home)
    if server is None:
        return False
    client: Client = server_client(home, server)
    progress = terminal.ProgressLine()
    try:
        while not _is_indexed(found := client.base(key)):
            progress.tell(f"the server is indexing: {found['freshness']['passages']:,} passages")
            time.sleep(_POLL_SECONDS)
    except KbgitError as error:
        terminal.note(f"{key} is imported, but whether it is indexed cannot be seen: {error.message}")
        return False
    finally:
        progress.wipe()
    return True


def _is_indexed(base: dict[str, Any]) -> bool:
    """Whether a base is indexed at its head; one that is archived or raises an alarm is not waited for."""
    freshness = base["freshness"]
    return freshness["published"] == freshness["indexed"] or bool(base.get("alarm"))
