"""The process that answers hooks: there while the context lasts, again after it was killed, gone afterwards."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from kbgit.home import HOOK_SOCKET, Home
from kbgit.web.kept_hooks import kept_hooks
from tests.faults.site import processes_in
from tests.web.serving import until


def keepers(home: Home) -> list[int]:
    """The kept processes of a home, without those that are ending."""
    found = []
    for pid in processes_in(home.path.resolve()):
        with suppress(OSError):
            if b"kbgit.hook_keeper" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def test_a_kept_process_that_is_killed_is_replaced_and_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbgit.web.kept_hooks._PAUSE_SECONDS", 0.05)
    home = Home.create(tmp_path / "home")
    with caplog.at_level(logging.WARNING, "kbgit.hooks"), kept_hooks(home, os.environ):
        until((home.path / HOOK_SOCKET).exists, 30)
        (first,) = keepers(home)
        os.kill(first, signal.SIGKILL)
        until(lambda: any(pid != first for pid in keepers(home)), 30)
    assert "hooks work by themselves until the next" in caplog.text
    assert keepers(home) == []


def test_with_the_setting_off_there_is_none(tmp_path: Path) -> None:
    home = Home.at(Home.create(tmp_path / "home").path, {"keep_hooks": False})
    with kept_hooks(home, os.environ):
        assert keepers(home) == []
