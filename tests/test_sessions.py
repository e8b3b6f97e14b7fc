from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbgit.errors import HomeProblem
from kbgit.sessions import Sessions

HOUR = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(tmp_path: Path, clock: Clock) -> Iterator[Sessions]:
    found = Sessions(tmp_path / "sessions.sqlite", hours=12, idle_minutes=120, clock=clock)
    yield found
    found.close()


def test_a_session_is_found_by_its_text_and_knows_its_token(sessions: Sessions) -> None:
    text = sessions.begin("abc")
    found = sessions.find(text)
    assert found is not None
    assert found.token_id == "abc"
    assert (found.created_at, found.expires_at) == (1_000_000, 1_000_000 + 12 * 3600)


def test_each_session_has_a_text_and_a_csrf_of_its_own(sessions: Sessions) -> None:
    texts = [sessions.begin("abc") for _ in range(5)]
    secrets = {session.csrf for text in texts if (session := sessions.find(text))}
    assert len(set(texts)) == len(secrets) == 5
    assert not secrets & set(texts)


@pytest.mark.parametrize("text", ["", "x", "x" * 43, "é" * 43, "a" * 100_000, "' OR 1=1 --", "\x00"])
def test_any_other_text_is_no_session(text: str, sessions: Sessions) -> None:
    sessions.begin("abc")
    assert sessions.find(text) is None


def test_a_session_ends_when_it_is_ended(sessions: Sessions) -> None:
    text, other = sessions.begin("abc"), sessions.begin("abc")
    sessions.end(text)
    assert sessions.find(text) is None
    assert sessions.find(other) is not None


def test_use_puts_the_end_off_but_not_for_ever(sessions: Sessions, clock: Clock) -> None:
    text = sessions.begin("abc")
    for _ in range(11):
        clock.now += HOUR
        assert sessions.find(text) is not None
    clock.now += HOUR
    assert sessions.find(text) is None


def test_an_unused_session_ends_earlier(sessions: Sessions, clock: Clock) -> None:
    text = sessions.begin("abc")
    clock.now += 2 * HOUR - 1
    assert sessions.find(text) is not None
    clock.now += 2 * HOUR
    assert sessions.find(text) is None


def test_a_short_idle_time_is_kept_exactly_enough(tmp_path: Path, clock: Clock) -> None:
    sessions = Sessions(tmp_path / "s.sqlite", hours=1, idle_minutes=0.5, clock=clock)
    text = sessions.begin("abc")
    for _ in range(10):
        clock.now += 20
        assert sessions.find(text) is not None
    clock.now += 30
    assert sessions.find(text) is None
    sessions.close()


def test_sessions_last_over_a_restart(sessions: Sessions, tmp_path: Path, clock: Clock) -> None:
    text = sessions.begin("abc")
    before = sessions.find(text)
    again = Sessions(tmp_path / "sessions.sqlite", clock=clock)
    assert again.find(text) == before
    again.close()


def test_the_file_holds_nothing_to_sign_in_with(sessions: Sessions, tmp_path: Path) -> None:
    text = sessions.begin("abc")
    found = sessions.find(text)
    assert found is not None
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"abc" in written
    assert text.encode() not in written
    assert found.csrf.encode() not in written


def test_only_its_owner_may_read_the_file(sessions: Sessions, tmp_path: Path) -> None:
    sessions.begin("abc")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_a_damaged_file_is_replaced_and_everybody_signs_in_again(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    path.write_bytes(b"this is no database, and it is long enough to be seen as none" * 100)
    sessions = Sessions(path)
    text = sessions.begin("abc")
    assert sessions.find(text) is not None
    sessions.close()


def test_a_token_has_a_bounded_number_of_sessions(sessions: Sessions, clock: Clock) -> None:
    other = sessions.begin("other")
    texts = []
    for _ in range(60):
        clock.now += 1
        texts.append(sessions.begin("abc"))
    alive = [text for text in texts if sessions.find(text) is not None]
    assert alive == texts[-50:]
    assert sessions.find(other) is not None


def test_a_file_that_may_not_be_opened_is_named_with_its_mend(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    path.mkdir()
    with pytest.raises(HomeProblem, match="cannot be used"):
        Sessions(path)
