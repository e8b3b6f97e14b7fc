"""One worker, whatever it does: it ends within its limits, says why, and leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kbgit.documents.child import Brake, Died, Failure, Stopped, extract
from kbgit.documents.contract import Extracted, ExtractionLimits, Reason
from kbgit.documents.worker import FAULTS, LEAST_MEMORY
from tests.documents.queueing import WORKER
from tests.web.serving import until

LIMITS = ExtractionLimits(seconds=20, memory=LEAST_MEMORY, output=100_000)


@pytest.fixture
def brake() -> Iterator[Brake]:
    made = Brake()
    yield made
    made.close()


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def read(text: str, workplace: Path, brake: Brake, limits: ExtractionLimits = LIMITS) -> Extracted | Failure | Died:
    """What comes of a document that says what its worker does."""
    file = workplace.parent / "document"
    file.write_text(text)
    return extract(file, ".pdf", limits, workplace, brake, WORKER)


def emptied(workplace: Path) -> Path:
    """The same place, for another worker."""
    shutil.rmtree(workplace)
    workplace.mkdir()
    return workplace


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_document_becomes_text_with_title_and_notes(workplace: Path, brake: Brake) -> None:
    found = read("text Grey heron", workplace, brake)
    assert found == Extracted("# Grey heron\n\ntext Grey heron\n", "Grey heron", ("One picture is left out.",))


@pytest.mark.parametrize("reason", ["encrypted", "no_text_layer", "corrupt", "too_large"])
def test_an_extractor_says_why_there_is_no_text(reason: str, workplace: Path, brake: Brake) -> None:
    assert read(f"fail {reason}", workplace, brake) == Failure(Reason(reason), f"it is {reason}")


def test_a_worker_that_eats_memory_ends_at_its_limit(workplace: Path, brake: Brake) -> None:
    found = read("eat", workplace, brake)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TOO_LARGE
    assert "192 MiB" in found.detail


def test_native_code_that_aborts_near_the_limit_is_held_to_have_met_it(workplace: Path, brake: Brake) -> None:
    found = read("burst", workplace, brake)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("how", ["spin", "sleep"])
def test_a_worker_that_does_not_end_is_ended(how: str, workplace: Path, brake: Brake) -> None:
    started = time.monotonic()
    found = read(how, workplace, brake, replace(LIMITS, seconds=0.6))
    assert isinstance(found, Failure)
    assert found.reason is Reason.TIMEOUT
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("how", ["write 1000000", "litter", "scatter", "long 100001"])
def test_a_worker_that_writes_too_much_is_ended(how: str, workplace: Path, brake: Brake) -> None:
    found = read(how, workplace, brake)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TOO_LARGE


def test_a_text_of_just_the_allowed_length_is_taken_even_if_all_of_it_must_be_escaped(
    workplace: Path, brake: Brake
) -> None:
    found = read("long 100000", workplace, brake)
    assert isinstance(found, Extracted)
    assert len(found.markdown) == 100_000


def test_nesting_without_end_is_too_large(workplace: Path, brake: Brake) -> None:
    found = read("nest", workplace, brake)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TOO_LARGE


def test_what_a_worker_started_ends_with_it(workplace: Path, brake: Brake, tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    found = read(f"fork {noted}", workplace, brake)
    if os.getuid() != 0:  # the limit of processes does not bind root
        assert isinstance(found, Failure)
        assert not noted.exists()
        return
    assert isinstance(found, Extracted)
    until(lambda: not is_alive(int(noted.read_text())))


@pytest.mark.parametrize("how", ["exit 0", "exit 3", "signal SIGKILL", "signal SIGSEGV", "signal SIGABRT"])
def test_a_worker_that_just_ends_says_nothing_of_its_document(how: str, workplace: Path, brake: Brake) -> None:
    assert isinstance(read(how, workplace, brake), Died)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\rVmPeak:", b"a\x0bSigBlk:", b"\nSigBlk: 20"])
def test_whatever_a_worker_calls_itself_its_answer_is_read(name: bytes, workplace: Path, brake: Brake) -> None:
    assert isinstance(read(f"rename {name.hex()}", workplace, brake), Extracted)


def test_signals_that_whoever_started_the_server_blocks_are_no_faults(workplace: Path, brake: Brake) -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, FAULTS)
    try:
        assert isinstance(read("rename 61", workplace, brake), Extracted)
        found = read("burst", emptied(workplace), brake)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TOO_LARGE


def test_processor_time_beyond_the_limit_is_a_timeout(workplace: Path, brake: Brake) -> None:
    found = read("signal SIGXCPU", workplace, brake)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TIMEOUT


def test_a_fault_of_an_extractor_is_told_without_a_word_of_the_document(
    workplace: Path, brake: Brake, caplog: pytest.LogCaptureFixture
) -> None:
    found = read("raise canary", workplace, brake)
    assert isinstance(found, Failure)
    assert found.reason is Reason.CRASHED
    assert "ValueError at odd_worker.py" in caplog.text
    assert "canary" not in caplog.text + found.detail


@pytest.mark.parametrize(
    "answer",
    [
        *("", "nonsense", "[]", "{}", '{"markdown": 1, "title": null, "notes": []}', "[" * 90_000),
        *('{"reason": "timeout", "detail": "x"}', '{"reason": "ready", "detail": "x"}', '{"reason": []}'),
        *('{"markdown": "x", "title": [], "notes": []}', '{"markdown": "x", "title": "t"}'),
    ],
)
def test_an_answer_that_the_contract_does_not_know_is_none(answer: str, workplace: Path, brake: Brake) -> None:
    assert isinstance(read(f"answer {answer}", workplace, brake), Died)


def test_an_answer_is_bounded_and_made_storable(workplace: Path, brake: Brake) -> None:
    told: dict[str, object] = {
        "markdown": "a\r\nb\x00\ud800",
        "title": "x\n" * 5_000,
        "notes": ["n" * 900] * 100 + [{}],
    }
    found = read(f"answer {json.dumps(told)}", workplace, brake, replace(LIMITS, output=10**7))
    assert isinstance(found, Extracted)
    assert found.markdown == "a\nb?"
    assert found.title is not None
    assert len(found.title) <= 1000
    assert "\n" not in found.title
    assert len(found.notes) == 50
    assert all(len(note) <= 500 for note in found.notes)


@pytest.mark.parametrize("how", ["link /etc/passwd", "pipe"])
def test_an_answer_is_read_from_a_file_only(how: str, workplace: Path, brake: Brake) -> None:
    assert isinstance(read(how, workplace, brake), Died)


def test_a_worker_finds_nothing_of_the_server_around_it(
    workplace: Path, brake: Brake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBGIT_EMBEDDER_API_KEY", "for the server alone")
    found = read("look", workplace, brake)
    assert isinstance(found, Extracted)
    around = json.loads(found.markdown)
    assert not [name for name in around["environment"] if name.startswith(("KBGIT", "GIT", "PYTHON"))]
    assert around["environment"]["HOME"] == around["environment"]["TMPDIR"] == around["directory"] == str(workplace)
    assert around["session"] is True
    assert around["input"] == ""
    assert around["nice"] >= 10
    assert len(around["arguments"]) == 2
    assert around["file"] == "document.pdf", "some libraries look at the suffix first"


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="sessions share nothing on this system")
def test_a_worker_is_modest_also_where_sessions_share_the_processors(workplace: Path, brake: Brake) -> None:
    def is_modest() -> bool:
        found = read("look", emptied(workplace), brake)
        assert isinstance(found, Extracted)
        return str(json.loads(found.markdown)["share"]).endswith(" nice 15\n")

    until(is_modest)  # the kernel lets it be said ten times a second, by all processes together


def test_an_extraction_is_called_off_at_once(workplace: Path, brake: Brake, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    begun = tmp_path / "gate.begun"
    raised: list[bool] = []

    def run() -> None:
        try:
            read(f"hold {gate}", workplace, brake)
        except Stopped:
            raised.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: begun.exists() and begun.read_text() != "")
    brake.pull()
    thread.join(10)
    assert raised == [True]
    assert not is_alive(int(begun.read_text()))


def test_a_worker_dies_with_its_server(workplace: Path, tmp_path: Path) -> None:
    gate, begun = tmp_path / "gate", tmp_path / "gate.begun"
    (tmp_path / "document").write_text(f"hold {gate}")
    program = (
        "from pathlib import Path; import sys\n"
        "from kbgit.documents.child import Brake, extract\n"
        "from kbgit.documents.contract import ExtractionLimits\n"
        "extract(Path(sys.argv[1]), '.pdf', ExtractionLimits(), Path(sys.argv[2]), Brake(), sys.argv[3:])\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "document"), str(workplace), *WORKER]
    with subprocess.Popen(command) as server:
        until(lambda: begun.exists() and begun.read_text() != "")
        worker = int(begun.read_text())
        assert is_alive(worker)
        server.kill()
    until(lambda: not is_alive(worker))
