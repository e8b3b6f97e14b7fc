"""The process that answers hooks: the same answers as hooks that work themselves, and nothing lost without it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from kbgit.base import BaseKey
from kbgit.errors import HomeProblem
from kbgit.home import HOOK_SOCKET, Home
from kbgit.hook_keeper import _short_name
from kbgit.publish import OUTBOX, base_lock, is_under_way
from kbgit.store import Repository
from kbgit.store.git import clean_environment
from tests.web.serving import until
from tests.writing import Writer, clone, text

BROKEN = "---\ntitle: one: two\n---\n# x\n"


@contextmanager
def keeper(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """It, from when it listens until the context ends."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "kbgit.hook_keeper", str(home.path)],
        stdin=subprocess.PIPE,
        env=clean_environment(os.environ),
    )
    assert process.stdin is not None
    try:
        until((home.path / HOOK_SOCKET).exists, 30)
        yield process
    finally:
        process.stdin.close()
        process.wait(10)


def said_by_kbgit(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines() if "kbgit:" in line]


@pytest.fixture
def writer(base_repository: Repository, tmp_path: Path) -> Writer:
    return clone(base_repository.path, tmp_path / "work")


def test_a_refused_push_is_told_the_same_with_and_without_it(home: Home, writer: Writer) -> None:
    writer.commit({"bad.md": BROKEN, "größe: 測試.md": text()})
    alone = writer.push()
    with keeper(home):
        kept = writer.push()
    assert not alone.ok
    assert not kept.ok
    assert said_by_kbgit(kept.said) == said_by_kbgit(alone.said) != []
    assert not (home.path / HOOK_SOCKET).exists(), "it takes its socket with it"


def test_at_its_end_it_leaves_the_socket_of_its_successor(home: Home) -> None:
    with keeper(home), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as successor:
        (home.path / HOOK_SOCKET).unlink()
        with _short_name(home.path) as place:
            successor.bind(f"{place}/{HOOK_SOCKET}")
    assert (home.path / HOOK_SOCKET).is_socket()


def test_what_it_admits_is_published_with_its_receipt(home: Home, key: BaseKey, writer: Writer) -> None:
    head = writer.commit({"a.md": text("Deploy")})
    with keeper(home):
        done = writer.push()
    assert done.ok
    assert f"published  Deploy  knowledge:runbooks/a@{head}" in done.said
    catalogue = home.catalogue()
    assert catalogue.base(str(key)).head == head
    catalogue.close()


def test_many_pushers_are_served_at_once_and_one_of_them_wins(home: Home, writer: Writer, tmp_path: Path) -> None:
    writer.publish({"a.md": text("First")})
    others = [clone(writer.remote, tmp_path / f"other-{number}") for number in range(4)]
    for number, other in enumerate(others):
        other.commit({"a.md": text(f"By {number}")})
    with keeper(home):
        results: list[bool] = []
        threads = [threading.Thread(target=lambda other=other: results.append(other.push().ok)) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results.count(True) == 1


def test_a_push_that_finds_it_dead_does_the_work_itself(home: Home, writer: Writer) -> None:
    with keeper(home) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        assert (home.path / HOOK_SOCKET).exists(), "a killed one leaves its socket behind"
        writer.commit({"a.md": text()})
        assert writer.push().ok
        writer.commit({"bad.md": BROKEN})
        assert not writer.push().ok


@pytest.mark.parametrize("answer", [b"", b"say fine\0", b"say fine\0code 0", b"code 0\0say", b"code\0", b"code zero\0"])
def test_a_connection_that_ends_without_an_answer_is_no_verdict(home: Home, writer: Writer, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.path / HOOK_SOCKET))
        listener.listen()
        listener.settimeout(60)

        def hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                while connection.recv(65536):
                    continue
                connection.sendall(answer)

        silent = threading.Thread(target=hang_up)
        silent.start()
        writer.commit({"bad.md": BROKEN})
        done = writer.push()
        silent.join(60)
    assert not done.ok
    assert any("bad.md:2" in line for line in said_by_kbgit(done.said)), "the hook looked for itself"
    assert "fine" not in done.said


def test_it_ends_when_its_input_does_as_it_does_when_the_server_is_killed(home: Home) -> None:
    with keeper(home) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0


def test_a_home_with_a_long_name_has_one_too(tmp_path: Path) -> None:
    home = Home.create(tmp_path / ("long" * 40) / "home")
    with keeper(home):
        assert (home.path / HOOK_SOCKET).is_socket()


def test_the_script_that_asks_is_part_of_the_gate(home: Home) -> None:
    (home.hooks / "ask").write_text("raise SystemExit(0)\n")
    with pytest.raises(HomeProblem, match="ask"):
        home.check_hooks()
    home.install_hooks()
    home.check_hooks()


@pytest.mark.parametrize("is_kept", [False, True], ids=["alone", "kept"])
def test_a_push_is_under_way_until_the_git_that_its_pusher_waits_for_has_ended(
    home: Home, writer: Writer, base_repository: Repository, is_kept: bool
) -> None:
    writer.commit({"a.md": text()})
    assert writer.push().ok
    head = writer.commit({"b.md": text("Later")})
    with keeper(home) if is_kept else nullcontext():
        with base_lock(base_repository):  # so that post-receive has to wait
            pushing = threading.Thread(target=writer.push)
            pushing.start()
            until(lambda: base_repository.head() == head, 30)
            assert is_under_way(base_repository, head)
            record = json.loads((base_repository.path / OUTBOX / head).read_text())
            named = Path(f"/proc/{record['teller'].partition(' ')[0]}/cmdline").read_bytes()
            assert b"receive-pack" in named
        pushing.join(30)
    assert not pushing.is_alive()
    assert not is_under_way(base_repository, head)
