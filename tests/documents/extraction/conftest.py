"""The corpus of documents, made once per run of the tests whatever number of processes they run in."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits
from kbgit.documents.extraction.kinds import extract, kind_of
from tests.documents.extraction import flat
from tests.documents.extraction.corpus import WRITERS

OFFICE_SECONDS = 240
_SOURCES = {"handbook.fodt": flat.writer, "columns.fodt": flat.columns, "sheet.fods": flat.calc}
_CONVERSIONS = {
    "docx": ("handbook.fodt",),
    "xlsx": ("sheet.fods",),
    "pptx": ("deck.pptx",),
    "pdf": ("handbook.fodt", "columns.fodt", "deck.pptx"),
}
"""By target: one run of LibreOffice each, which takes seconds to start."""


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _shared(factory: pytest.TempPathFactory, worker: str) -> Path:
    """A directory for all processes of this run."""
    base = factory.getbasetemp()
    return base if worker == "master" else base.parent


@pytest.fixture(scope="session")
def worker_name(request: pytest.FixtureRequest) -> str:
    """Of this process of the test run."""
    return str(getattr(request.config, "workerinput", {}).get("workerid", "master"))


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory, worker_name: str) -> Path:
    """The directory of the documents that Python's writers made."""
    shared = _shared(tmp_path_factory, worker_name)
    made = shared / "written"
    with _alone(shared / "written.lock"):
        if not made.exists():
            building = shared / "written.part"
            building.mkdir()
            for name, write in WRITERS.items():
                write(building / name)
            building.rename(made)
    return made


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory, worker_name: str, written: Path) -> Path:
    """The directory of the documents that LibreOffice made. Tests that need it are skipped where it is not installed."""
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice (soffice) is not installed")
    shared = _shared(tmp_path_factory, worker_name)
    made = shared / "office"
    with _alone(shared / "office.lock"):
        if not made.exists():
            building = shared / "office.part"
            sources = building / "sources"
            sources.mkdir(parents=True)
            for name, source in _SOURCES.items():
                (sources / name).write_text(source(), "utf-8")
            shutil.copy(written / "deck.pptx", sources)
            for target, names in _CONVERSIONS.items():
                _convert(program, shared / "profile", building, target, [sources / name for name in names])
            building.rename(made)
    return made


def _convert(program: str, profile: Path, into: Path, target: str, files: list[Path]) -> None:
    command = [program, f"-env:UserInstallation=file://{profile}", "--headless", "--convert-to", target]
    ended = subprocess.run(
        [*command, "--outdir", str(into), *map(str, files)], capture_output=True, timeout=OFFICE_SECONDS, check=False
    )
    missing = [file.name for file in files if not (into / file.with_suffix(f".{target}").name).exists()]
    assert not missing, (missing, ended.stdout, ended.stderr)


@pytest.fixture(scope="session")
def limits() -> ExtractionLimits:
    """As they are unless somebody sets them."""
    return ExtractionLimits()


Read = Callable[[Path], Extracted]


@pytest.fixture
def read(limits: ExtractionLimits) -> Read:
    """Reads a file of any kind."""

    def read_(file: Path) -> Extracted:
        kind = kind_of(file.name)
        assert kind
        return extract(kind, file, limits)

    return read_


Fail = Callable[[str, bytes], ExtractionFailed]


@pytest.fixture
def fail(tmp_path: Path, limits: ExtractionLimits) -> Fail:
    """How a file of this name with this content fails."""

    def fail_(name: str, content: bytes) -> ExtractionFailed:
        file = tmp_path / name
        file.write_bytes(content)
        kind = kind_of(name)
        assert kind
        with pytest.raises(ExtractionFailed) as failed:
            extract(kind, file, limits)
        return failed.value

    return fail_
