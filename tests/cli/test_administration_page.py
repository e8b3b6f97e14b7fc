"""The worked example of docs/administration.md is run as it stands there, and says what stands there."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

from kbgit.cli.program import program
from kbgit.store.git import clean_environment

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "administration.md"
PORT = "7420"
_BLOCK = re.compile(r"<!-- run -->\n```console\n(.*?)```", re.DOTALL)
_SEPARATOR = "=== next ==="
_ANY = {
    "anything": ".*",
    "sha": r"[0-9a-f]{40}",
    "short": r"[0-9a-f]{12}",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "size": r"[\d,]+ bytes?",
    "passages": r"\d+ passages?",  # the server may still be indexing
}
_VARIABLE = re.compile(
    "|".join(f"(?P<{name}>{'…' if name == 'anything' else rf'{kind}'})" for name, kind in _ANY.items())
)


def steps() -> list[tuple[str, list[str]]]:
    """Each command of the page, and the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(_BLOCK.findall(PAGE.read_text("utf-8"))).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run(commands: list[str], directory: Path) -> list[str]:
    """What each of the commands prints, errors too, one shell running them all."""
    programs = directory / "bin"
    programs.mkdir()
    (programs / "kbgit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kbgit.cli "$@"\n')
    (programs / "kbgit").chmod(stat.S_IRWXU)
    inherited = {name: value for name, value in clean_environment(os.environ).items() if not name.startswith("KBGIT_")}
    environment = {
        **inherited,
        "PATH": f"{programs}:{inherited['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KBGIT_EMBEDDER": "hashing",
        "KBGIT_SWEEP_SECONDS": "0.5",
        "COLUMNS": "120",
    }
    port = free_port()
    (directory / "work").mkdir()
    script = "exec 2>&1\ntrap 'kill $(jobs -p) 2> /dev/null' EXIT\n" + "".join(
        f"{command}\necho '{_SEPARATOR}'\n" for command in commands
    )
    done = subprocess.run(
        ["bash", "-c", script.replace(PORT, port)],
        cwd=directory / "work",
        env={**environment, "KBGIT_PORT": port},
        capture_output=True,
        timeout=300,
        check=False,
    )
    told = done.stdout.decode().replace(port, PORT).replace(str(directory / "work"), "/srv")
    return told.split(f"{_SEPARATOR}\n")[:-1]


def pattern(expected: list[str]) -> str:
    """A regular expression for lines in which … stands for anything; alone on a line, for any number of lines.

    SHAs, times and sizes stand for any others.
    """
    return "".join(r"(?:.*\n)*" if line == "…" else _line_pattern(line) + r"\n" for line in expected)


def _line_pattern(line: str) -> str:
    found, end = "", 0
    for match in _VARIABLE.finditer(line):
        found += re.escape(line[end : match.start()]) + _ANY[match.lastgroup or ""]
        end = match.end()
    return found + re.escape(line[end:])


def test_the_example_runs_as_it_is_written_and_says_what_is_written(tmp_path: Path) -> None:
    written = steps()
    printed = run([command for command, _ in written], tmp_path)
    assert len(printed) == len(written)
    for (command, expected), told in zip(written, printed, strict=True):
        assert re.fullmatch(pattern(expected), told), f"$ {command}\n{told}"


def test_every_command_of_the_page_is_one() -> None:
    for command in set(re.findall(r"`kbgit ([a-z -]+?)[A-Z`<\[]", PAGE.read_text("utf-8"))):
        words = [word for word in command.split() if not word.startswith("-")]
        found = program
        context = program.make_context("kbgit", ["status"], resilient_parsing=True)
        for word in words:
            found = found.get_command(context, word)  # type: ignore[assignment]
            assert found is not None, command
