"""`kbgit mcp`."""

from __future__ import annotations

from contextlib import closing

import click

from kbgit.cli.client import RunningServer, owner_token, server_or
from kbgit.cli.homes import home_of
from kbgit.cli.lazy import load
from kbgit.cli.mcp_relay import Relay
from kbgit.cli.options import library_options, pass_session
from kbgit.cli.session import TOKEN, Session
from kbgit.errors import HomeLocked
from kbgit.mcp.contract import contract


@click.command(short_help="Serve an agent over standard input and output (MCP).")
@click.option(
    "--profile",
    type=click.Choice(sorted(contract().profiles)),
    help="The kind of client, which decides what tools there are; within the token's own.  [default: the token's]",
)
@library_options
@pass_session
def mcp(session: Session, profile: str | None) -> None:
    """Serve one agent over standard input and output, in the Model Context Protocol. Agents start this themselves.

    It uses the server of the home while one runs, and opens the home itself otherwise; with --server it uses another
    machine's. The token in KBGIT_TOKEN says what the agent may do; without one, it is the owner of the home. Nothing but
    the protocol goes to standard output; the log goes to standard error.

    \b
    Examples:
      kbgit mcp
      kbgit mcp --profile cursor-plugin
      kbgit mcp --server https://kb.example.org

    `kbgit connect CLIENT` prints the configuration that makes a client start it.
    """
    if session.server is not None:
        Relay(session.server, session.token, is_local=False, profile=profile).run()
        return
    home = home_of(session)
    token = session.environment.get(TOKEN, "").strip() or None
    try:
        # Not imported above, because this brings the index's, the models' and the protocol's libraries.
        reached = server_or(
            home, lambda: load("kbgit.cli.mcp_home:open_home")(home, session.embedder_api_key, token, profile)
        )
    except HomeLocked as error:
        way = "let clients share one server: run `kbgit serve`, and start this again"
        raise HomeLocked(f"{error.message}; {way}", error.details) from None
    if isinstance(reached, RunningServer):
        Relay(reached.url, token or owner_token(home, reached), is_local=True, profile=profile).run()
        return
    with closing(reached):
        reached.serve()
