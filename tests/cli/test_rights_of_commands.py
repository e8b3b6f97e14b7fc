"""Who may do what at the command line: every command that asks a server, for every role, against `access.decide`.

One table has a row for each command. What goes through a server is called by everybody; the others work on files of whoever
calls them and have a row that says so. `tests/test_rights.py` does the same for the routes below.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import click
import pytest

from kbgit.access import ACTION_SCOPE, HOME, Action, Principal, Role, Scope, Target, decide
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey
from kbgit.cli.program import program
from kbgit.home import Home
from kbgit.importing import BaseOptions
from kbgit.item import ItemStatus
from kbgit.library import Draft
from kbgit.memory import NewRecord
from kbgit.revision import Via
from kbgit.web.server import application
from tests.cli.running import Kbgit, write
from tests.web.serving import SERVER_ENVIRONMENT, running

NOWHERE = "0" * 40
ROLES = {"olivia": Role.OWNER, "adam": Role.ADMIN, "mia": Role.MEMBER, "victor": Role.VIEWER, "sam": None, "root": None}
"""Users, and their roles in the team `crew`; sam owns another team, root administers the home."""
CREW = Target("team:crew")
ACTIVE = Target("team:crew", "team:crew/active")
OPERATOR = Principal("olivia", operator=True)
DONE, NOTHING, FORBIDDEN = "0", "1", "1 forbidden"
"""What a command ends with: its exit code, and the code of the error if there is one."""


@dataclass(frozen=True)
class Caller:
    """Somebody with a token. The base `doomed-<number>` and the record are there for them to destroy."""

    name: str
    number: int
    token: str
    principal: Principal
    record: str


@dataclass(frozen=True)
class World:
    """A served home, the words that fill arguments, and who calls."""

    elsewhere: Kbgit
    words: dict[str, str]
    callers: list[Caller]

    def ends(self, command: str, token: str, **words: object) -> tuple[str, str]:
        """(how the command ends, what it prints), as called on a machine that has no home."""
        arguments = [
            word.format(**self.words, **words) for word in shlex.split(f"{command} {TABLE[command].arguments}")
        ]
        result = self.elsewhere.run(*arguments, "--json", code=None, KBGIT_TOKEN=token)
        told: dict[str, Any] = json.loads(result.stdout)
        code = told["error"]["code"] if "error" in told else ""
        return f"{result.exit_code} {code}".strip(), result.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    scratch = tmp_path_factory.mktemp("rights")
    Home.create(scratch / "home")
    runtime = open_runtime(Home.at(scratch / "home", {"embedder": "none", "watch": "off"}))
    try:
        callers = list(people(runtime))
        page = published(runtime)
        words = {
            "page": page,
            "zero": NOWHERE,
            "file": str(write(scratch, {"owl.md": "# Owl\n\nIt hunts.\n"}) / "owl.md"),
            "bundle": str(scratch / "active.bundle"),
            "spare": runtime.accounts.add_token("root", "spare", {Scope.KNOWLEDGE_READ}, "test")[0].id,
        }
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            yield World(Kbgit(scratch / "no-home", {"KBGIT_SERVER": url}), words, callers)
    finally:
        runtime.stop()


def people(runtime: Runtime) -> Iterator[Caller]:
    """Each user with a token for everything; owner, viewer and administrator with tokens that lack one scope each."""
    accounts = runtime.accounts
    for user in ROLES:
        accounts.add_user(user, "test", administrator=user == "root")
    accounts.add_team("crew", "olivia", "test")
    accounts.add_team("others", "sam", "test")
    for user, role in ROLES.items():
        if role is not None:
            accounts.set_member("team:crew", user, role, "test")
    everything = frozenset(Scope)
    given = [(user, everything) for user in ROLES]
    given += [(user, everything - {scope}) for user in ("olivia", "victor", "root") for scope in Scope]
    for number, (user, scopes) in enumerate(given):
        name = " ".join([user, *(f"without {scope}" for scope in everything - scopes)])
        text = accounts.add_token(user, f"token {number}", scopes, "test")[1]
        runtime.bases.create(BaseKey("team:crew", f"doomed-{number}"), OPERATOR, BaseOptions())
        record = runtime.memory.remember(NewRecord("p", f"Owls, {number}.", space="team:crew"), OPERATOR)
        yield Caller(name, number, text, accounts.authenticate(text), record.id)


def published(runtime: Runtime) -> str:
    """Fill two bases; gives the revision of the item `active-page`."""
    for slug in ("active", "shelf"):
        runtime.bases.create(BaseKey("team:crew", slug), OPERATOR, BaseOptions(name=slug))
    revisions = []
    for name in ("edited", "page"):
        draft = Draft(title=name, content=f"The heron on {name}.\n", status=ItemStatus.PUBLISHED)
        written = runtime.writing.create(
            "team:crew/active", OPERATOR, draft, locator=f"{name}.md", item_id=f"active-{name}", via=Via.API
        )
        assert written.citation is not None
        revisions.append(str(written.citation.revision))
    runtime.indexer.sweep()
    return revisions[-1]


# What is due to a caller


@dataclass(frozen=True)
class Row:
    """A command's arguments, and the rule that gives how it is due to end; what is allowed ends with `done`.

    Where `done` is an error, it is one that only those who may come to: of a revision that is none, a name that is taken.
    `shows` is in the answer exactly for those who may read the base.
    """

    rule: Callable[[Row, Principal], str]
    arguments: str = ""
    needs: Action = Action.READ_PUBLISHED
    done: str = DONE
    hidden: str = "1 base_not_found"
    shows: str | None = None


def of_base(row: Row, caller: Principal) -> str:
    """A base is there for whoever may read it; then comes the right itself."""
    if Scope.KNOWLEDGE_READ not in caller.scopes:
        return FORBIDDEN
    if not decide(caller, Action.READ_PUBLISHED, ACTIVE):
        return row.hidden
    return row.done if decide(caller, row.needs, ACTIVE) else FORBIDDEN


def of_all_bases(row: Row, caller: Principal) -> str:
    """Everybody who may read asks; each gets what is theirs."""
    return row.done if Scope.KNOWLEDGE_READ in caller.scopes else FORBIDDEN


def of_a_find(row: Row, caller: Principal) -> str:
    """As `of_all_bases`, where the exit code says whether something was found."""
    if Scope.KNOWLEDGE_READ not in caller.scopes:
        return FORBIDDEN
    return row.done if decide(caller, Action.READ_PUBLISHED, ACTIVE) else NOTHING


def of_recall(row: Row, caller: Principal) -> str:
    """Without the scope for knowledge only memory is asked, which says nothing of herons."""
    return row.done if decide(caller, Action.READ_PUBLISHED, ACTIVE) else NOTHING


def is_home_matter(caller: Principal) -> bool:
    return bool(decide(caller, Action.ADMINISTER_HOME, HOME))


def of_members(row: Row, caller: Principal) -> str:
    """A team is there for its members and for administrators of the home."""
    may = any(decide(caller, action, CREW) for action in (Action.READ_PUBLISHED, Action.MANAGE_MEMBERS))
    if may or is_home_matter(caller):
        return row.done
    return "1 space_not_found" if Scope.KNOWLEDGE_READ in caller.scopes else FORBIDDEN


def of_managers(row: Row, caller: Principal) -> str:
    found = of_members(row, caller)
    may = is_home_matter(caller) or decide(caller, Action.MANAGE_MEMBERS, CREW)
    return FORBIDDEN if found == row.done and not may else found


def of_own_spaces(row: Row, caller: Principal) -> str:
    """It shows who is in each of the caller's spaces, so all of these must be theirs to see."""
    actions = (Action.READ_PUBLISHED, Action.MANAGE_MEMBERS)
    may = all(any(decide(caller, action, Target(space)) for action in actions) for space in caller.roles)
    return row.done if may else FORBIDDEN


def of_log(row: Row, caller: Principal) -> str:
    may = is_home_matter(caller) or decide(caller, Action.MANAGE_MEMBERS, CREW)
    return row.done if may else "1 space_not_found"


def of_home(row: Row, caller: Principal) -> str:
    return row.done if is_home_matter(caller) else FORBIDDEN


def of_token_making(row: Row, caller: Principal) -> str:
    """A token gives no more than the one that makes it."""
    return row.done if Scope.ITEM_WRITE in caller.scopes else FORBIDDEN


def of_token_of_root(row: Row, caller: Principal) -> str:
    return row.done if caller.user == "root" or is_home_matter(caller) else "1 not_found"


def of_memory(row: Row, caller: Principal) -> str:
    """Memory needs a token for it, then a role in the space."""
    if ACTION_SCOPE[row.needs] not in caller.scopes:
        return FORBIDDEN
    if decide(caller, row.needs, CREW):
        return row.done
    may_read = decide(replace(caller, scopes=frozenset(Scope)), Action.READ_MEMORY, CREW)
    return FORBIDDEN if may_read else "1 space_not_found"


def of_a_record(row: Row, caller: Principal) -> str:
    """A record of olivia's is there for whoever may read memory; she forgets it, and who manages the team."""
    if Scope.MEMORY_READ not in caller.scopes:
        return FORBIDDEN
    if not decide(caller, Action.READ_MEMORY, CREW):
        return "1 not_found"
    manages = decide(replace(caller, scopes=frozenset(Scope)), Action.MANAGE_MEMBERS, CREW)
    return row.done if manages and decide(caller, Action.WRITE_MEMORY, CREW) else FORBIDDEN


def anybody(row: Row, _: Principal) -> str:
    return row.done


# The table

_UNSEEN: dict[str, Any] = {"hidden": "1 item_not_found"}
_ADMIN: dict[str, Any] = {"needs": Action.ADMINISTER_BASE}
_MOVE = Row(
    of_base,
    "active-page --base team:crew/active --expect {zero}",
    needs=Action.WRITE_ITEMS,
    done="1 stale_revision",
)
_LISTED: dict[str, Any] = {"shows": '"team:crew/active"'}
_CITED = "knowledge:active-page@{page}"

TABLE: dict[str, Row] = {
    "base create": Row(of_base, "team:crew/made-{number}", hidden="1 space_not_found", **_ADMIN),
    "base list": Row(of_all_bases, **_LISTED),
    "base show": Row(of_base, "team:crew/active"),
    "base update": Row(of_base, "team:crew/active --title 'Base {number}'", **_ADMIN),
    "base archive": Row(of_base, "team:crew/shelf", **_ADMIN),
    "base restore": Row(of_base, "team:crew/shelf", **_ADMIN),
    "base export": Row(of_base, "team:crew/active {bundle} --force", **_ADMIN),
    "base delete": Row(of_base, "team:crew/doomed-{number} --name doomed-{number}", **_ADMIN),
    "item create": Row(of_base, "team:crew/active --file {file} --title 'Owl {number}'", needs=Action.WRITE_ITEMS),
    "import": Row(of_base, "{file} --base team:crew/active --dry-run", needs=Action.WRITE_ITEMS),
    "item edit": Row(
        of_base, "active-edited --base team:crew/active --title 'Page {number}'", needs=Action.WRITE_ITEMS
    ),
    "item publish": _MOVE,
    "item unpublish": _MOVE,
    "item archive": _MOVE,
    "item restore": _MOVE,
    "item delete": replace(_MOVE, needs=Action.DELETE_ITEMS),
    "item list": Row(of_base, "team:crew/active"),
    "document list": Row(of_base, "--base team:crew/active", needs=Action.WRITE_ITEMS),
    "document show": Row(of_all_bases, "doc_unknown", done="1 not_found"),
    "document cancel": Row(of_all_bases, "doc_unknown", done="1 not_found"),
    "document retry": Row(of_all_bases, "doc_unknown", done="1 not_found"),
    "space create": Row(of_home, "crew", done="1 already_exists"),
    "space list": Row(of_own_spaces),
    "space show": Row(of_members, "team:crew"),
    "space member list": Row(of_members, "team:crew"),
    "space member set": Row(of_managers, "team:crew mia member"),
    "space member remove": Row(of_managers, "team:crew nobody", done="1 not_found"),
    "user create": Row(of_home, "sam", done="1 already_exists"),
    "user list": Row(of_home),
    "user remove": Row(of_home, "mia --dry-run"),
    "token create": Row(of_token_making, "--scope item:write"),
    "token list": Row(anybody),
    "token revoke": Row(of_token_of_root, "{spare}"),
    # Everybody may ask about themselves, so it is asked about one who manages the team anyway.
    "access explain": Row(of_managers, "adam read team:crew/active"),
    "audit": Row(of_log, "--space team:crew"),
    "search": Row(of_a_find, "heron", shows='"active-page"'),
    "read": Row(of_base, "active-page", shows="The heron", **_UNSEEN),
    "history": Row(of_base, "active-page", **_UNSEEN),
    "diff": Row(of_base, "active-page {page} {page}", **_UNSEEN),
    "resolve": Row(of_base, _CITED, shows="The heron", **_UNSEEN),
    "verify": Row(of_a_find, _CITED, shows='"exact"'),
    "changes": Row(of_all_bases, "--since-time 2001-01-01T00:00:00Z", shows='"active-page"'),
    "recall-context": Row(of_recall, "--query heron --include-knowledge true", shows='"active-page"'),
    "memory export": Row(of_memory, "--space team:crew", needs=Action.READ_MEMORY),
    "memory forget": Row(of_a_record, "{record}"),
    "memory list": Row(of_memory, "--space team:crew", needs=Action.READ_MEMORY),
    "memory remember": Row(of_memory, "Owls --project p --space team:crew", needs=Action.WRITE_MEMORY),
    "status": Row(anybody, **_LISTED),
}
LOCAL = {
    "init": "makes a home, of which whoever makes it is the operator",
    "serve": "runs in a home, for its operator",
    "base import": "makes a repository in a home, for its operator",
    "base accept-rewrite": "takes the repository itself in hand, for its operator",
    "reindex": "works on the index of a home, for its operator",
    "doctor": "reads and mends the files of a home, for its operator",
    "backup": "reads the files of a home, for its operator",
    "restore": "makes a home, of which whoever makes it is the operator",
    "settings": "shows the settings of a home, to its operator",
    "hooks install": "writes into a clone or a home, as whoever runs it",
    "check": "reads files of a work tree, before anything is asked of anybody",
    "completion": "prints a script that is the same for all",
    "connect": "prints settings; a token it makes is made in a home, by its operator",
    "mcp": "hands on what an agent asks to the server's own tools, whose rights are those of /mcp",
}
"""Commands that carry no role, and why."""


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """(name, command) of every command that is no group."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


def test_every_command_has_one_row() -> None:
    assert sorted(name for name, _ in commands(program)) == sorted([*TABLE, *LOCAL])


def test_what_takes_a_server_is_asked_of_one() -> None:
    takes = {name for name, command in commands(program) if any(option.metavar == "URL" for option in options(command))}
    assert takes == {*TABLE, "connect", "mcp"}


def options(command: click.Command) -> list[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


@pytest.mark.parametrize("command", TABLE)
def test_each_caller_is_answered_as_is_due(command: str, world: World) -> None:
    row = TABLE[command]
    wrong, answers = [], set()
    for caller in world.callers:
        due = row.rule(row, caller.principal)
        ended, printed = world.ends(command, caller.token, number=caller.number, record=caller.record)
        if ended != due:
            wrong.append(f"{caller.name}: {ended}, not {due}")
        may_see = bool(decide(caller.principal, Action.READ_PUBLISHED, ACTIVE))
        if row.shows is not None and (row.shows in printed) != may_see:
            wrong.append(f"{caller.name}: {row.shows} is {'not ' * may_see}shown")
        answers.add(due == row.done)
    assert wrong == []
    assert answers == ({True} if row.rule is anybody else {True, False})


@pytest.mark.parametrize("command", TABLE)
def test_nobody_is_answered_without_a_valid_token(command: str, world: World) -> None:
    for token in ("", f"kbgit_{'0' * 12}_{'x' * 43}"):
        assert world.ends(command, token, number="none", record="none")[0] == "1 unauthenticated"
