"""`kbgit base create` and `kbgit base import`."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from kbgit.base import BaseKey, slug_from
from kbgit.cli import terminal
from kbgit.cli.base import made_json, new_key
from kbgit.cli.base_names import SpaceKey, new_base_key
from kbgit.cli.base_settings import admission_option, base_options, description_option, status_option, title_option
from kbgit.cli.client import Client, running_server, server_client
from kbgit.cli.homes import home_of
from kbgit.cli.http_client import HttpClient, Json
from kbgit.cli.options import home_option, json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.errors import BaseNotFound, InvalidName, InvalidRequest, KbgitError
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer, is_repository

_POLL_SECONDS = 0.2
_NOT_INDEXED = "a server that runs is indexing it; without one, `kbgit serve` or the next `kbgit search` does"

space_option = click.option(
    "--space", type=SpaceKey(), metavar="KEY", help="The space it is in.  [default: the owner's personal space]"
)


@click.command(short_help="Create an empty base.")
@click.argument("name")
@space_option
@title_option
@description_option
@status_option
@admission_option
@library_options
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
    options = base_options(title, description, default_status, admission)
    if session.server is not None:
        found = _create_there(session, session.server, name, space, options)
    else:
        home = home_of(session)
        with closing(home.accounts()) as accounts, closing(home.catalogue()) as catalogue:
            key, owner = new_key(home, accounts, name, space)
            made = Importer(home, catalogue, owner).create(key, options)
            accounts.record(owner, "base_created", {"base": str(key)})
        found = made_json("base_created", key, home, head=made.head)
    answer(found, [f"created {found['base']}", "Next:", f"  git clone {found['repository']}"], as_json=as_json)


def _create_there(session: Session, url: str, name: str, space: str | None, options: BaseOptions) -> Json:
    """A base of another machine's server. Its repository is an address there."""
    client = HttpClient(url, session.token, is_local=False)
    key = new_base_key(name, space, lambda: str(client.me()["user"]))
    made = client.create_base(key, options.given)
    repository = f"{url}/git/{key.relative_path}.git"
    found = {"type": "base_created", "base": str(key), "slug": key.slug, "space": key.space, "repository": repository}
    return {**found, "head": made["freshness"]["published"]}


@click.command("import", short_help="Make a base of a directory or a Git repository.")
@click.argument("name", required=False)
@click.option("--from", "source", required=True, metavar="SOURCE", help="A directory, or a repository's path or URL.")
@click.option("--subdir", metavar="PATH", help="Only what is below this directory of it is items.")
@click.option("--branch", metavar="NAME", help="The branch of a repository.  [default: its default branch]")
@space_option
@description_option
@status_option
@admission_option
@click.option("--restore", is_flag=True, help="It is an export: who published what, and when, comes back too.")
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
    restore: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Make a base of what is there, called NAME (default: made from the source's name).

    Of a Git repository (a path, a bundle, a URL) the whole history of one branch comes, with every SHA. Of a
    directory its files become the first commit. With --restore the source is a bundle that `kbgit base export` wrote,
    and the base comes back as it was: its revisions with their numbers, pushers and times. What the bundle says was
    published is taken at its word, so restore only what you trust.

    While a server runs, the command waits until that has indexed the base; vectors, for semantic search, follow in the
    background.

    \b
    Examples:
      kbgit base import --from ~/src/handbook
      kbgit base import runbooks --from https://example.org/runbooks.git --branch main --default-status published
      kbgit base import docs --from ~/src/app --subdir docs --space team:platform --admission lenient
      kbgit base import runbooks --from runbooks.bundle --restore --space team:platform
    """
    home = home_of(session)
    options = base_options(None, description, default_status, admission, subdir)
    with closing(home.accounts()) as accounts, closing(home.catalogue()) as catalogue:
        key, owner = new_key(home, accounts, name or _name_of(source), space)
        importer = Importer(home, catalogue, owner, lambda text: terminal.tell(terminal.line(text)))
        if is_repository(source):
            receipt = importer.from_repository(key, _address(source), options, branch, with_log=restore)
        elif branch is not None or restore:
            lacks = "history to restore" if restore else "branch"
            raise InvalidRequest(f"{source} is no Git repository, so it has no {lacks}")
        else:
            receipt = importer.from_directory(key, Path(source), options)
        accounts.record(owner, "base_restored_from_export" if restore else "base_imported", {"base": str(key)})
    found = made_json("base_imported", key, home, **receipt.as_json(), indexed=not no_wait and _await_index(home, key))
    lines = [*receipt.lines(), "" if found["indexed"] else _NOT_INDEXED]
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
    except BaseNotFound:
        terminal.note(f"the owner of the home is not in {key.space}, so the command does not see when it is indexed")
        return False
    except KbgitError as error:
        terminal.note(f"{key} is imported, but whether it is indexed cannot be seen: {error.message}")
        return False
    finally:
        progress.wipe()
    return True


def _is_indexed(base: dict[str, Any]) -> bool:
    """Whether a base is indexed at its head; one with an alarm is not waited for."""
    freshness = base["freshness"]
    return freshness["published"] == freshness["indexed"] or bool(freshness.get("alarm"))
