"""`kbgit access`."""

from __future__ import annotations

import click

from kbgit.access import Action
from kbgit.cli.base_names import space_key
from kbgit.cli.client import administer
from kbgit.cli.errors import NO
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session

ACTIONS = {
    "read": Action.READ_PUBLISHED,
    "read-drafts": Action.READ_DRAFTS,
    "fetch": Action.FETCH,
    "write": Action.WRITE_ITEMS,
    "delete": Action.DELETE_ITEMS,
    "administer": Action.ADMINISTER_BASE,
    "members": Action.MANAGE_MEMBERS,
    "memory-read": Action.READ_MEMORY,
    "memory-write": Action.WRITE_MEMORY,
}


@click.group(short_help="Say why something is allowed or not.")
def access() -> None:
    """Every access is decided in one place, by a rule that has words.

    \b
    Examples:
      kbgit access explain tom write team:platform
    """


@access.command(short_help="Say whether a user may do something, and by which rule.")
@click.argument("user")
@click.argument("action", type=click.Choice(list(ACTIONS)))
@click.argument("where", metavar="SPACE[/BASE]")
@library_options
@json_option
@pass_session
def explain(session: Session, user: str, action: str, where: str, as_json: bool) -> None:
    """Say whether USER may do ACTION in a space or base, and the rule that decides; exit code 1 if not.

    It answers for a token with every scope: one with fewer, or one that is limited to other bases, may do less.

    \b
    Examples:
      kbgit access explain tom write team:platform
      kbgit access explain mia read personal:tom/notes --json
    """
    named, _, base = where.partition("/")
    space = space_key(named)
    with administer(session) as accounts:
        told = accounts.explain(user, ACTIONS[action].value, space, base or None)
    found = {
        "type": "access",
        "user": user,
        "action": action,
        "space": space,
        "base": base or None,
        "allowed": told["allowed"],
        "rule": told["rule"],
    }
    answer(found, [f"{'yes' if told['allowed'] else 'no'}: {told['rule']}"], as_json=as_json)
    if not told["allowed"]:
        raise click.exceptions.Exit(NO)
