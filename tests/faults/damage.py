"""Derived files that are cut, changed, removed or cannot be read: what a server makes of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.faults.site import MODES, Site

DERIVED = ("catalogue", "vectors", "memory-vectors")
"""Databases whose loss costs nothing but time."""

UNREADABLE = "/proc/self/mem"
"""A link here answers reads of its beginning with EIO, as a bad disk does."""


def _cut(share: float) -> Callable[[Path], None]:
    def cut(path: Path) -> None:
        with path.open("r+b") as file:
            file.truncate(int(path.stat().st_size * share))

    return cut


def _cut_one(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(max(0, path.stat().st_size - 1))


def _flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    if raw:
        raw[len(raw) // 3] ^= 0xFF
        path.write_bytes(raw)


def _fill(path: Path) -> None:
    path.write_bytes(b"\xa5" * path.stat().st_size)


def _unreadable(path: Path) -> None:
    path.unlink()
    path.symlink_to(UNREADABLE)


VARIANTS: Mapping[str, Callable[[Path], None]] = {
    "empty": _cut(0),
    "half": _cut(0.5),
    "cut by one byte": _cut_one,
    "one byte flipped": _flip,
    "garbage": _fill,
    "missing": Path.unlink,
    "unreadable": _unreadable,
}


def derived_files(home: Path) -> list[Path]:
    """Every derived file of a home at rest, relative to it."""
    found = [path for path in (home / "index").rglob("*") if path.is_file()]
    found += [path for path in home.glob("*.sqlite*") if path.name.partition(".")[0] in DERIVED]
    return sorted(path.relative_to(home) for path in found)


class Damaged:
    """A site at rest, to which each damage is done in turn."""

    def __init__(self, site: Site) -> None:
        self._site = site
        if not site.is_alive():
            assert site.start(), site.log()
        site.remember()
        site.settle()
        self._expected = site.answers()
        site.stop()
        self._whole = site.directory / "whole"
        shutil.copytree(site.path, self._whole, symlinks=True)
        self.files = derived_files(self._whole)

    def outcome(self, file: Path, variant: str) -> str:
        """What went wrong after one damage; empty if the server started, and answers as before.

        A file that cannot be read may be whole, so nobody throws it away: then it is enough that the server says what is
        wrong or lacking, and answers as before when the file can be read again.
        """
        site = self._site
        shutil.rmtree(site.path)
        shutil.copytree(self._whole, site.path, symlinks=True)
        VARIANTS[variant](site.path / file)
        (site.directory / "server.log").unlink(missing_ok=True)
        try:
            if variant != "unreadable":
                return self._trouble()
            if site.start():
                if trouble := self._refusals():
                    return trouble
                if site.is_fresh() and site.answers() != self._expected:
                    return "answers differ though it says that it is fresh"
            elif "Failure: " not in site.log():
                return f"does not start: {site.log().strip().splitlines()[-1:]}"
            site.stop()
            if (site.path / file).is_symlink():
                (site.path / file).unlink()
                shutil.copy2(self._whole / file, site.path / file)
            return self._trouble()
        except AssertionError as error:
            return str(error)[:300]
        finally:
            site.stop()

    def _trouble(self) -> str:
        """What is wrong when the server starts; empty if all is as before in the end, and nothing fails until then."""
        site = self._site
        if not site.start():
            return f"does not start: {site.log().strip().splitlines()[-1:]}"
        if trouble := self._refusals():
            return trouble
        site.settle()
        return "" if site.answers() == self._expected else "answers differ from those before"

    def _refusals(self) -> str:
        """The first request that is not answered, while the server may still be building; empty if there is none."""
        asked = [("knowledge/search", {"query": "heron", "mode": mode}) for mode in MODES]
        for path, body in (*asked, ("recall", {"query": "recollection"})):
            told = self._site.ask("POST", f"/api/v1/{path}", body)
            if told is None or told.status != 200:
                return f"{path} {body} is answered {told and (told.status, told.body)}"
        return ""
