"""`kbgit base accept-rewrite`."""

from __future__ import annotations

import sys
from contextlib import closing

import click

from kbgit.base import BaseKey
from kbgit.cli.base import made_json
from kbgit.cli.base_names import base_key
from kbgit.cli.homes import home_of, owner_of
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.errors import Conflict
from kbgit.publish import accept_rewrite as publish_rewrite


@click.command("accept-rewrite", short_help="Publish a history that was rewritten.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@home_option
@json_option
@pass_session
def accept_rewrite(session: Session, name: str, yes: bool, as_json: bool) -> None:
    """Publish the present branch of a base whose published history was rewritten behind kbgit's back.

    Pushes cannot rewrite published history, but somebody with the repository in their hands can; then the base stays
    as it was published, with an alarm, until an operator puts the branch back or accepts it with this command. What
    was published before stays in the publication log, so its citations still resolve.

    \b
    Examples:
      kbgit base accept-rewrite runbooks
      kbgit base accept-rewrite team:platform/runbooks --yes
    """
    home = home_of(session)
    key = base_key(home, name)
    repository = home.repository(key)
    with closing(home.accounts()) as accounts, closing(home.catalogue()) as catalogue:
        owner = owner_of(home, accounts)
        catalogue.add_base(key)
        log = repository.log_entries()
        published, head = log[-1].parents[-1] if log else None, repository.head()
        if head is None:
            raise Conflict(f"the published branch of {key} is gone; put it back first, at any commit")
        if published is None or repository.is_ancestor(published, head):
            raise Conflict(f"the history of {key} is not rewritten; there is nothing to accept")
        if not yes:
            _ask(key, published, head)
        accepted = publish_rewrite(repository, catalogue, catalogue.base(str(key)), owner, home.limits)
    found = made_json("rewrite_accepted", key, home, before=published, head=accepted.head)
    answer(found, [f"{key} is published at {accepted.head}; before it was {published}"], as_json=as_json)


def _ask(key: BaseKey, before: str, head: str) -> None:
    """Have the name typed in full. Raises `click.Abort` for any other."""
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is there to ask; --yes accepts without asking")
    click.echo(f"{key} is published at {before}; its branch is now {head}, which does not contain that.", err=True)
    if click.prompt(f"Type {key.slug} to publish it", err=True) not in (key.slug, str(key)):
        raise click.Abort
