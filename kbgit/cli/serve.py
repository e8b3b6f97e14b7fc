"""`kbgit serve`. Importing this brings the server, the index's and the models' libraries."""

from __future__ import annotations

import click

from kbgit.assemble import open_runtime
from kbgit.cli.homes import home_of
from kbgit.cli.options import home_option, pass_session
from kbgit.cli.session import Session
from kbgit.web.hosts import Names
from kbgit.web.server import serve as serve_home


@click.command(short_help="Run the server: search, Git over HTTP, indexing.")
@click.option("--host", metavar="ADDRESS", help="Listen on this address.  [default: the setting host, 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port.  [default: the setting port, 7420]")
@home_option
@pass_session
def serve(session: Session, host: str | None, port: int | None) -> None:
    """Run the server of a home until it is told to stop (Ctrl-C, or SIGTERM).

    It answers searches, serves Git, and keeps the index at what is pushed. Other commands use it while it runs. The
    key of a remote embedder is read from KBGIT_EMBEDDER_API_KEY and from nowhere else.

    \b
    Examples:
      kbgit serve
      kbgit serve --home /srv/kbgit --host 0.0.0.0 --port 8080
    """
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    home = home_of(session, given)
    home.check_hooks()  # before the index and the model are opened, which take seconds
    apart = session.environment if home.settings.index_apart else None
    runtime = open_runtime(home, api_key=session.embedder_api_key, apart=apart)

    def announce(line: str) -> None:
        click.echo(line)
        click.echo(f"  under the names {Names(home.settings)}; the settings public_url and allowed_hosts add others")

    serve_home(runtime, session.environment, announce)
