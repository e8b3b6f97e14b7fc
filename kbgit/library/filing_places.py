"""Places in a base for files that come in: which can be had, and what is there already."""

from __future__ import annotations

from collections.abc import Sequence

from kbgit import names
from kbgit.admission import read_settings
from kbgit.base import TreeRules
from kbgit.errors import AlreadyExists, InvalidRequest
from kbgit.rows import BaseRow
from kbgit.store import Repository


class Places:
    """What is in the way at a head: files, directories, and names that differ only in case.

    `before` is what stands at those of the wanted places that are taken by a file.
    """

    def __init__(self, repository: Repository, now: BaseRow, places: Sequence[str]) -> None:
        self.before: dict[str, bytes] = {}
        self._rules: TreeRules = read_settings(repository, now.head, now.key.slug)[1]
        paths: set[str] = set()
        if now.head:
            asked = {f"{now.head}:{place}": place for place in places if names.fault(place.encode()) is None}
            for name, kind, content in repository.git.objects(asked):
                if kind == "blob":
                    self.before[asked[name]] = content
            paths = {path for entry in repository.tree(now.head) if (path := names.decoded(entry.path)) is not None}
        self._files = set(paths)
        self._directories: set[str] = set()
        self._spellings: dict[str, str] = {}
        self._claimed: set[str] = set()
        for path in paths:
            self._add(path)

    def claim(self, place: str) -> None:
        """Take a place for one file. Raises `InvalidRequest`, `AlreadyExists` where it cannot be had."""
        why = names.fault(place.encode()) or self._rules.why_no_item(place)
        if why:
            raise InvalidRequest(f"no item can be stored at {names.shown(place)!r}: {why}", {"locator": place})
        if place in self._claimed:
            raise AlreadyExists(f"another of these files goes to {names.shown(place)!r} too", {"locator": place})
        above = _directories(place)
        in_the_way = next((path for path in above if path in self._files), None)
        if place in self._directories or in_the_way:
            other = names.shown(in_the_way or place)
            raise AlreadyExists(f"{other!r} is a file here and a directory there", {"locator": place})
        for path in (*above, place):
            other = self._spellings.get(names.folded(path), path)
            if other != path:
                what = f"{names.shown(path)!r} differs from {names.shown(other)!r} only in case or Unicode form"
                raise AlreadyExists(f"{what}, and not every file system can hold both", {"locator": place})
        self._claimed.add(place)
        self._files.add(place)
        self._add(place)

    def _add(self, path: str) -> None:
        above = _directories(path)
        for one in (*above, path):
            self._spellings.setdefault(names.folded(one), one)
        self._directories.update(above)


def _directories(path: str) -> list[str]:
    """The directories above a path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
