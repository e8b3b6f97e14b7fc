"""`kbgit connect`: what connects an agent's client to kbgit, to be copied."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import click

from kbgit.access import Scope
from kbgit.cli.client import running_server
from kbgit.cli.homes import home_of, owner_of
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.config import Settings
from kbgit.errors import InvalidRequest
from kbgit.mcp.contract import Profile, contract

PLACEHOLDER = "YOUR_KBGIT_TOKEN"
_TOKEN_SECONDS = 90 * 86_400


@dataclass(frozen=True, slots=True)
class Way:
    """How a client reaches kbgit: by starting a program, or (`url`) over HTTP, with a token in either case."""

    program: Sequence[str]
    url: str | None
    token: str

    def entry(self, variable: str | None = None) -> dict[str, object]:
        """The common form of configuration. `variable` is how a client writes a secret that it asks for."""
        token = variable or self.token
        if self.url:
            return {"type": "http", "url": self.url, "headers": {"Authorization": f"Bearer {token}"}}
        command, *arguments = self.program
        return {"command": command, "args": list(arguments), "env": {"KBGIT_TOKEN": token}}


@dataclass(frozen=True, slots=True)
class Client:
    """A client that can be connected: what its configuration looks like, where it belongs, which profile fits."""

    title: str
    where: str
    profile: str
    write: Callable[[Way], str]
    ways: frozenset[str] = frozenset({"program", "http"})


def _servers(key: str) -> Callable[[Way], str]:
    return lambda way: _json({key: {"kbgit": way.entry()}})


def _vs_code(way: Way) -> str:
    prompt = {"type": "promptString", "id": "kbgit-token", "description": "kbgit token", "password": True}
    entry = way.entry(None if way.token != PLACEHOLDER else "${input:kbgit-token}")
    entry = entry if way.url else {"type": "stdio", **entry}
    return _json({**({"inputs": [prompt]} if way.token == PLACEHOLDER else {}), "servers": {"kbgit": entry}})


def _claude_code(way: Way) -> str:
    if way.url:
        return (
            f"claude mcp add --transport http kbgit {way.url} --header {_shell(f'Authorization: Bearer {way.token}')}"
        )
    program = " ".join(_shell(word) for word in way.program)
    return f"claude mcp add kbgit --env KBGIT_TOKEN={_shell(way.token)} -- {program}"


def _codex(way: Way) -> str:
    if way.url:
        where = f'[mcp_servers.kbgit]\nurl = "{way.url}"\nbearer_token_env_var = "KBGIT_TOKEN"'
        return f"{where}\n# and in the environment: KBGIT_TOKEN={way.token}"
    command, *arguments = way.program
    listed = ", ".join(json.dumps(one) for one in arguments)
    return (
        f"[mcp_servers.kbgit]\ncommand = {json.dumps(command)}\nargs = [{listed}]\n"
        f"env = {{ KBGIT_TOKEN = {json.dumps(way.token)} }}"
    )


def _http(way: Way) -> str:
    return f"URL: {way.url}\nHeader: Authorization: Bearer {way.token}"


def _skill(way: Way) -> str:
    url = (way.url or "").removesuffix("/mcp")
    return f"cp -r skills/kbgit YOUR_AGENTS_SKILLS_DIRECTORY/\nexport KBGIT_URL={_shell(url)}\nexport KBGIT_TOKEN={way.token}"


CLIENTS = {
    "claude-desktop": Client(
        "Claude Desktop",
        "claude_desktop_config.json (Settings > Developer)",
        "ordinary-full",
        _servers("mcpServers"),
        frozenset({"program"}),
    ),
    "claude-code": Client("Claude Code", "a shell, in the project", "ordinary-full", _claude_code),
    "cursor": Client(
        "Cursor", "~/.cursor/mcp.json, or .cursor/mcp.json of a project", "cursor-plugin", _servers("mcpServers")
    ),
    "vscode": Client("VS Code", ".vscode/mcp.json of a project", "ordinary-full", _vs_code),
    "codex": Client("Codex CLI", "~/.codex/config.toml", "ordinary-full", _codex),
    "http": Client("any client of MCP over HTTP", "its settings", "generic-public", _http, frozenset({"http"})),
    "skill": Client("any agent that takes skills", "a shell", "ordinary-full", _skill, frozenset({"http"})),
}


@click.command(short_help="Print what connects an agent's client to kbgit.")
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option(
    "--profile", type=click.Choice(sorted(contract().profiles)), help="The tools it shall see.  [default: the client's]"
)
@click.option(
    "--http", "over_http", is_flag=True, help="Connect over HTTP to the server, instead of starting `kbgit mcp`."
)
@click.option("--read-only", is_flag=True, help="Without the right to remember and to forget.")
@click.option(
    "--create-token", is_flag=True, help="Create the token, valid for 90 days, and print it as part of the text."
)
@library_options
@json_option
@pass_session
def connect(
    session: Session,
    client: str,
    profile: str | None,
    over_http: bool,
    read_only: bool,
    create_token: bool,
    as_json: bool,
) -> None:
    """Print the configuration that connects CLIENT to kbgit, and the command that makes a token with the right scopes.

    Nothing is changed and no token is printed, unless --create-token makes one: it is shown this once.

    \b
    Examples:
      kbgit connect cursor
      kbgit connect claude-code --read-only
      kbgit connect http --profile chatgpt-public --create-token
    """
    chosen = CLIENTS[client]
    exposed = contract().profile(profile or chosen.profile)
    scopes = scopes_for(exposed, read_only=read_only)
    is_http = over_http or "program" not in chosen.ways
    if is_http and "http" not in chosen.ways:
        way_out = "leave --http out; --server URL connects it to another machine's server"
        raise InvalidRequest(f"{chosen.title} starts a program: {way_out}", {"field": "http"})
    token = _created(session, client, exposed, scopes) if create_token else PLACEHOLDER
    way = Way(_program(session, exposed), _url(session) if is_http else None, token)
    text = chosen.write(way)
    command = token_command(client, exposed, scopes)
    found = {
        "type": "connection",
        "client": client,
        "profile": exposed.name,
        "scopes": [scope.value for scope in scopes],
        "where": chosen.where,
        "configuration": text,
        "token_command": None if create_token else command,
    }
    answer(found, _lines(chosen, exposed, text, None if create_token else command), as_json=as_json)


def scopes_for(profile: Profile, *, read_only: bool) -> list[Scope]:
    """The smallest scopes with which every tool of the profile works (`read_only`: every tool that writes nothing)."""
    tools = [contract().tools[name] for name in sorted(profile.tools)]
    needed = {tool.scopes[0] for tool in tools if not (read_only and tool.writes)}
    return [scope for scope in Scope if scope in needed]


def token_command(client: str, profile: Profile, scopes: Sequence[Scope]) -> str:
    """The command that makes the token."""
    listed = " ".join(f"--scope {scope}" for scope in scopes)
    return f"kbgit token create {listed} --profile {profile.name} --name {client} --expires 90d"


def _lines(client: Client, profile: Profile, text: str, command: str | None) -> Iterator[str]:
    if command is not None:
        use = f"put it where {PLACEHOLDER} stands" if PLACEHOLDER in text else f"{client.title} asks for it"
        yield f"# 1. A token, shown once; {use}:"
        yield command
        yield ""
        yield f"# 2. For {client.title} (profile {profile.name}), into {client.where}:"
    else:
        yield f"# For {client.title} (profile {profile.name}), into {client.where}; it holds a token, so keep it private:"
    yield text


def _created(session: Session, client: str, profile: Profile, scopes: Sequence[Scope]) -> str:
    if session.server is not None:
        raise InvalidRequest(
            "tokens of another machine's server are made there; leave --create-token out", {"field": "server"}
        )
    home = home_of(session)
    with closing(home.accounts()) as accounts:
        owner = owner_of(home, accounts)
        expires_at = int(time.time()) + _TOKEN_SECONDS
        return accounts.add_token(owner, client, scopes, owner, profile=profile.name, expires_at=expires_at)[1]


def _program(session: Session, profile: Profile) -> list[str]:
    place = ["--server", session.server] if session.server is not None else ["--home", str(session.home_path)]
    return [sys.executable, "-m", "kbgit.cli", "mcp", *place, "--profile", profile.name]


def _url(session: Session) -> str:
    if session.server is not None:
        return f"{session.server}/mcp"
    home = home_of(session)
    server = running_server(home)
    return f"{home.settings.public_url.rstrip('/') or (server.url if server else _configured(home.settings))}/mcp"


def _configured(settings: Settings) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


_shell = shlex.quote
