from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kbgit import __version__
from kbgit.cli.lazy import LazyGroup
from kbgit.cli.program import program
from tests.cli.running import Kbgit, Published


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


EVERY = dict(commands(program))
NAMES = [" ".join(path) for path in EVERY]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_an_example_that_calls_it(name: str, kbgit: Kbgit) -> None:
    shown = kbgit.run(*name.split(), "--help").stdout
    assert "Examples:" in shown
    assert re.search(rf"^    kbgit {name}\b", shown, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_and_argument_is_explained(name: str) -> None:
    for parameter in EVERY[tuple(name.split())].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.opts


@pytest.mark.parametrize("name", NAMES)
def test_every_command_that_answers_can_answer_in_json(name: str) -> None:
    command = EVERY[tuple(name.split())]
    answers = not isinstance(command, click.Group) and name not in ("serve", "mcp", "completion")
    assert any("--json" in parameter.opts for parameter in command.params) == answers


def test_the_list_of_commands_says_what_each_command_says_of_itself() -> None:
    for path, command in EVERY.items():
        parent = EVERY[path[:-1]] if path[:-1] else program
        if isinstance(parent, LazyGroup):
            assert parent.entries[path[-1]].summary == command.short_help


def test_help_needs_no_library_but_click(kbgit: Kbgit) -> None:
    heavy = ("numpy", "chromadb", "onnxruntime", "dulwich", "flask", "whoosh", "yaml", "sqlite3", "kbgit.home")
    done = kbgit.process("--help")
    assert done.returncode == 0
    script = (
        "import sys; from kbgit.cli.program import program\n"
        "try: program.main(['--help'])\n"
        f"except SystemExit: print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stderr.decode().strip() == "[]"


def test_help_names_the_exit_codes(kbgit: Kbgit) -> None:
    assert "Exit codes: 0 " in kbgit.run("--help").stdout


def test_version(kbgit: Kbgit) -> None:
    assert kbgit.process("--version").stdout.decode() == f"kbgit {__version__}\n"


def test_wrong_usage_ends_with_2_and_says_where_help_is(kbgit: Kbgit) -> None:
    done = kbgit.process("search", "--bogus", "x")
    assert done.returncode == 2
    assert done.stdout == b""
    first, second = done.stderr.decode().splitlines()
    assert first.startswith("kbgit: no such option '--bogus'")
    assert "`kbgit search --help`" in second
    assert "after --" in second


def test_an_unknown_command_ends_with_2(kbgit: Kbgit) -> None:
    assert "`kbgit --help`" in kbgit.run("frobnicate", code=2).stderr


def test_a_group_without_a_command_shows_its_help_and_ends_with_2(kbgit: Kbgit) -> None:
    shown = kbgit.run("base", code=2)
    assert "accept-rewrite" in shown.stderr
    assert shown.stdout == ""


def test_a_missing_home_ends_with_3_and_says_how_to_make_one(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    result = Kbgit(missing).run("status", code=3)
    assert result.stderr == f"kbgit: {missing} is no kbgit home; `kbgit init {missing}` makes one\n"


def test_a_plain_no_ends_with_1_and_names_the_way_out(published: Published) -> None:
    result = published.kbgit.run("read", "nothing_like_it", code=1)
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "kbgit: there is no item 'nothing_like_it'",
        "kbgit: `kbgit search` finds items by what they say",
    ]


def test_with_json_a_failure_is_the_error_shape_of_the_api_on_standard_output(published: Published) -> None:
    done = published.kbgit.process("read", "nothing_like_it", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "item_not_found"
    assert done.stderr.startswith(b"kbgit: there is no item")


def test_wrong_usage_has_the_error_shape_too(kbgit: Kbgit) -> None:
    result = kbgit.run("search", "--json", "--bogus", code=2)
    assert json.loads(result.stdout)["error"]["code"] == "invalid_request"


def test_json_after_two_dashes_is_text(kbgit: Kbgit) -> None:
    assert kbgit.run("search", "--bogus", "--", "--json", code=2).stdout == ""


def test_a_failing_system_call_ends_with_3_and_one_line(kbgit: Kbgit) -> None:
    (kbgit.home / "accounts.sqlite").unlink()
    result = kbgit.run("init", str(kbgit.home / "kbgit.yaml" / "below"), code=3)
    assert result.stderr.startswith("kbgit: ")
    assert "Not a directory" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.ISO-8859-1"])
def test_output_is_utf_8_in_every_locale(kbgit: Kbgit, locale: str) -> None:
    kbgit.run("token", "create", "--scope", "knowledge:read", "--name", "Büro 年假")
    done = kbgit.process("token", "list", LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0, done.stderr
    assert "Büro 年假" in done.stdout.decode("utf-8")


def test_a_reader_that_goes_away_ends_the_program_quietly(kbgit: Kbgit) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kbgit.cli", "settings"],
        env=kbgit.process_environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_no_colours_without_a_terminal(kbgit: Kbgit) -> None:
    assert b"\x1b" not in kbgit.process("settings").stdout


def on_a_terminal(kbgit: Kbgit, *arguments: str, **environment: str) -> str:
    """What the program writes to a terminal of its own."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "kbgit.cli", *arguments],
        env=kbgit.process_environment({"TERM": "xterm", **environment}),
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while piece := os.read(ours, 65536):
                written += piece
        except OSError:  # Linux's end of file, once the other side is closed
            pass
        finally:
            os.close(ours)
        assert process.wait() == 0
    return written.decode()


def test_colours_on_a_terminal_unless_no_color_is_set(kbgit: Kbgit) -> None:
    assert "\x1b[1m" in on_a_terminal(kbgit, "settings")
    assert "\x1b" not in on_a_terminal(kbgit, "settings", NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(kbgit, "settings", TERM="dumb")


def test_a_new_token_is_alone_in_a_pipe_and_explained_on_a_terminal(kbgit: Kbgit) -> None:
    arguments = ("token", "create", "--scope", "knowledge:read")
    assert re.fullmatch(r"kbgit_[0-9a-f]{12}_\S{43}\n", kbgit.process(*arguments).stdout.decode())
    assert "shown only now" in on_a_terminal(kbgit, *arguments)


def test_the_home_can_be_named_before_and_after_the_command(published: Published, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    home = str(published.kbgit.home)
    for arguments in (("--home", home, "token", "list"), ("token", "list", "--home", home)):
        assert "owner" in published.kbgit.run(*arguments, KBGIT_HOME=nowhere).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_program_back(shell: str, kbgit: Kbgit) -> None:
    assert f"_KBGIT_COMPLETE={shell}_complete" in kbgit.run("completion", shell).stdout


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("kbgit re", {"read", "recall-context", "resolve", "restore", "reindex"}),
        ("kbgit base im", {"import"}),
        ("kbgit search --mo", {"--mode"}),
        ("kbgit search --mode ", {"hybrid", "rrf", "semantic", "lexical"}),
    ],
)
def test_completion_knows_commands_options_and_values(typed: str, expected: set[str], kbgit: Kbgit) -> None:
    words = typed.split(" ")
    done = kbgit.process(_KBGIT_COMPLETE="bash_complete", COMP_WORDS=typed, COMP_CWORD=str(len(words) - 1))
    assert {line.partition(",")[2] for line in done.stdout.decode().splitlines()} == expected
