"""Hooks answered at once: a process that has everything loaded, and forks for each hook that asks.

    python -m kbgit.hook_keeper HOME

A hook is a program that Git starts, and loading what it needs takes several times as long as what it does. While a server
runs, it keeps this process beside it, which listens on the socket `hooks.sock` in the home; the script `hooks/ask` sends what
Git told the hook, and a fork of this process does the work, with the same code and as isolated as a hook of its own. Whoever
finds nobody here, or is left without an answer, does the work themselves: nothing depends on this process but speed.

It ends when its standard input does, that is with the server, however that ends.

A question is the hook's name, its variables (`NAME=value`) and an empty field, each ended by a zero byte, and then what Git
wrote to the hook, up to the end. The answer is `say` and a line for each line to the writer, then `code` and the exit code,
each ended by a zero byte. What does not end so is no answer.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from kbgit import hook
from kbgit.errors import KbgitError
from kbgit.home import HOOK_SOCKET, Home
from kbgit.store import Git

log = logging.getLogger("kbgit.hooks")

_NICENESS = 5  # searches come first
_LONGEST_REQUEST = 64 << 20  # the names of all refs of one push
_SENT = frozenset({hook.USER, hook.RIGHTS, hook.VIA, hook.RECEIVER})
_PEER = struct.Struct("3i")  # pid, uid, gid


def main(arguments: list[str] | None = None) -> int:
    """Listen until standard input ends."""
    home = Path((sys.argv[1:] if arguments is None else arguments)[0])
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, to the server: it tells us when it is done
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that ended are nobody's to wait for
    path = home / HOOK_SOCKET
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, _short_name(home) as place:
        listener.bind(f"{place}/{HOOK_SOCKET}")
        path.chmod(0o600)
        ours = path.stat().st_ino
        listener.listen(128)
        _get_ready_to_fork(home)
        try:
            while _someone_asks(listener):
                connection, _ = listener.accept()
                with connection:
                    if os.fork() == 0:
                        listener.close()
                        _answer_and_end(connection, home)
        finally:
            with suppress(FileNotFoundError):
                if path.stat().st_ino == ours:  # and not that of the next server, which did not wait for this one's end
                    path.unlink()
    return 0


def _get_ready_to_fork(home: Path) -> None:
    """Do once what every fork would do, and spare forks the copies of pages that looking for garbage writes to."""
    with suppress(KbgitError):  # what is wrong is for the hooks to report
        Home.at(home)
        Git(home).understands_commands()
    gc.collect()
    gc.freeze()


@contextmanager
def _short_name(directory: Path) -> Iterator[str]:
    """A name of the directory that fits into a socket's address, which has room for a hundred bytes."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        named = f"/proc/self/fd/{descriptor}"
        yield named if os.path.exists(named) else str(directory)
    finally:
        os.close(descriptor)


def _someone_asks(listener: socket.socket) -> bool:
    """Wait for a hook. False once standard input has ended."""
    ready, _, _ = select.select([listener, sys.stdin], [], [])
    return sys.stdin not in ready


def _answer_and_end(connection: socket.socket, home: Path) -> NoReturn:
    """In the fork: do what is asked, and end this process."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Git's exit codes are ours to read
        _answer(connection, home)
    except Exception:  # who asked does the work itself then, and says what is wrong if that is wrong for both
        log.exception("a hook could not be answered")
    finally:
        os._exit(0)  # whatever happened, without what the parent would do at its end; who asked judges by the answer


def _answer(connection: socket.socket, home: Path) -> None:
    if not _is_of_this_account(connection):
        return
    name, sent, stdin = _read(connection)

    def say(line: str) -> None:
        _send(connection, f"say {line}")

    code = hook.answer(name, home, stdin, _environment(sent), say)
    _send(connection, f"code {code}")


def _is_of_this_account(connection: socket.socket) -> bool:
    """Whether the other side could have done the work itself: it runs as we do. The directory's mode says so already."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, account, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _PEER.size))
    return bool(account == os.getuid())


def _environment(sent: Mapping[str, str]) -> dict[str, str]:
    """This process's own, with what Git and the transport told the hook."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    told = {name: value for name, value in sent.items() if name in _SENT or name.startswith("GIT_")}
    return {name: value for name, value in kept.items() if name not in _SENT} | told


def _read(connection: socket.socket) -> tuple[str, dict[str, str], bytes]:
    """What is asked, when the other side has said all: the hook, its variables, and what Git wrote to it."""
    said = bytearray()
    while piece := connection.recv(1 << 16):
        said += piece
        if len(said) > _LONGEST_REQUEST:
            raise ValueError("a hook that says more than Git would")
    head, end, stdin = bytes(said).partition(b"\0\0")
    if not end:
        raise ValueError("a question that was cut off")
    name, *variables = head.split(b"\0")
    rows = (os.fsdecode(variable).partition("=") for variable in variables)
    return name.decode(), {key: value for key, _, value in rows}, stdin


def _send(connection: socket.socket, message: str) -> None:
    # Whoever asked may be gone (its Git was killed): the work is done all the same, as a hook's would be.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(message.replace("\0", "\\x00").encode("utf-8", "backslashreplace") + b"\0")


if __name__ == "__main__":
    raise SystemExit(main())
