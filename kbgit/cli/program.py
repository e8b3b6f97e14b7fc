"""The program `kbgit`: its commands by name, and what every one of them shares."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import click

from kbgit import __version__
from kbgit.cli.errors import EXIT_CODES, INTERRUPTED, OK, PIPE_CLOSED, TROUBLE, USAGE, exit_code, way_out
from kbgit.cli.lazy import Entry, LazyGroup
from kbgit.cli.options import home_option, server_option
from kbgit.cli.session import Session
from kbgit.errors import HomeProblem, InvalidRequest, KbgitError

NAME = "kbgit"
log = logging.getLogger("kbgit")


class Program(LazyGroup):
    """The root group. It ends the process with a documented exit code, whatever happens."""

    entries: ClassVar[dict[str, Entry]] = {
        "init": Entry("kbgit.cli.init:init", "Make a home: the directory in which one kbgit lives."),
        "serve": Entry("kbgit.cli.serve:serve", "Run the server: search, Git over HTTP, indexing."),
        "base": Entry("kbgit.cli.base:base", "Create, change, export and delete bases."),
        "item": Entry("kbgit.cli.item:item", "Create, change, publish and list items."),
        "import": Entry("kbgit.cli.import_files:import_files", "Make items of files and directories."),
        "document": Entry("kbgit.cli.document:document", "List, cancel and retry uploaded documents."),
        "space": Entry("kbgit.cli.space:space", "Create and show spaces, and who is in them."),
        "user": Entry("kbgit.cli.user:user", "Create, list and remove users."),
        "token": Entry("kbgit.cli.token:token", "Create, list and revoke access tokens."),
        "access": Entry("kbgit.cli.access:access", "Say why something is allowed or not."),
        "audit": Entry("kbgit.cli.audit:audit", "Show who changed access, bases and tokens."),
        "search": Entry("kbgit.cli.search:search", "Find passages, with their citations."),
        "read": Entry("kbgit.cli.reading:read", "Print an item, or what a citation cites."),
        "history": Entry("kbgit.cli.reading:history", "List an item's revisions."),
        "diff": Entry("kbgit.cli.reading:diff", "Show what changed between two revisions of an item."),
        "resolve": Entry("kbgit.cli.reading:resolve", "Say what a citation cites, and whether it is current."),
        "verify": Entry("kbgit.cli.verify:verify", "Check whether what citations cite still stands, or a whole home."),
        "changes": Entry("kbgit.cli.changes:changes", "List what changed since a commit, a time or citations."),
        "recall-context": Entry("kbgit.cli.recall:recall_context", "Recall what is known about a question."),
        "memory": Entry("kbgit.cli.memory:memory", "Remember, list, forget and export records."),
        "mcp": Entry("kbgit.cli.mcp:mcp", "Serve an agent over standard input and output (MCP)."),
        "connect": Entry("kbgit.cli.connect:connect", "Print what connects an agent's client to kbgit."),
        "status": Entry(
            "kbgit.cli.status:status", "Show how things stand: server, bases, index, alarms, documents, disk."
        ),
        "reindex": Entry("kbgit.cli.reindex:reindex", "Bring the index up to date, or build it anew."),
        "doctor": Entry("kbgit.cli.doctor:doctor", "Explain what is wrong with a home, and mend what is derived."),
        "backup": Entry("kbgit.cli.backup:backup", "Write a backup of a home, or verify one."),
        "restore": Entry("kbgit.cli.restore:restore", "Make a home of a backup."),
        "check": Entry("kbgit.cli.check:check", "Check files as a push would be checked."),
        "hooks": Entry("kbgit.cli.hooks:hooks", "Install Git hooks: a writer's, or a home's."),
        "settings": Entry("kbgit.cli.settings:settings", "Show the settings, and where each comes from."),
        "completion": Entry("kbgit.cli.completion:completion", "Print a script that completes kbgit commands."),
    }

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,  # noqa: ANN401
    ) -> NoReturn:
        """Run `args` (default: the command line), then exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        sys.exit(self._exit_code(arguments, extra))

    def _exit_code(self, arguments: list[str], extra: dict[str, Any]) -> int:
        try:
            code = super().main(arguments, prog_name=NAME, **extra)
            return code if isinstance(code, int) else OK
        except click.Abort:
            click.echo(f"{NAME}: interrupted", err=True)
            return INTERRUPTED
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            return USAGE
        except click.ClickException as error:
            return _failed(InvalidRequest(_sentence(error)), arguments, _how_to_call(error))
        except KbgitError as error:
            return _failed(error, arguments, way_out(error))
        except OSError as error:
            return _failed(HomeProblem(_of_the_system(error)), arguments, None)
        except Exception:
            log.exception("this is a fault in kbgit itself; please report it with these lines")
            return TROUBLE

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as in click
        """Run the command. A reader that went away (`kbgit search … | head -1`) ends it quietly."""
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes standard output once more at exit; let that succeed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(PIPE_CLOSED)
        return answer


def _failed(error: KbgitError, arguments: list[str], out: str | None) -> int:
    if "--json" in arguments[: arguments.index("--") if "--" in arguments else None]:
        click.echo(json.dumps(error.as_json(), ensure_ascii=False, indent=2))
    click.echo(f"{NAME}: {error.message}", err=True)
    if out:
        click.echo(f"{NAME}: {out}", err=True)
    return exit_code(error)


def _sentence(error: click.ClickException) -> str:
    """click's message in the form of ours: no capital, no full stop."""
    message = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:]


def _how_to_call(error: click.ClickException) -> str | None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return None
    hint = f"`{context.command_path} --help` shows what it takes"
    if isinstance(error, click.NoSuchOption) and context.info_name == "search":
        hint += "; a query that begins with a dash comes after --"
    return hint


def _of_the_system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def write_utf8() -> None:
    """Print UTF-8 whatever the locale; what cannot be encoded at all is escaped rather than fatal."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def main() -> None:
    """Entry point."""
    write_utf8()
    logging.basicConfig(level=logging.WARNING, format=f"{NAME}: %(message)s", stream=sys.stderr)
    program.main()


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name=NAME, message="%(prog)s %(version)s")
@home_option
@server_option
@click.pass_context
def program(context: click.Context) -> None:
    """A team's knowledge in Git, answered with exact citations.

    Begin with a home, and a base made of files that you have:

    \b
      kbgit init ~/.kbgit
      kbgit base import --from ~/src/handbook
      kbgit search "how do we deploy"
      kbgit serve

    Commands use the server of the home while one runs, and open the home themselves otherwise. With --server they
    use another machine's, with the token in KBGIT_TOKEN.
    """
    session = context.ensure_object(Session)
    if session.environment.get("NO_COLOR") or session.environment.get("TERM") == "dumb":
        context.color = False
