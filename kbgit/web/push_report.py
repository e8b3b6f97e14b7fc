"""Reading along in Git's answer to a push: which refs were moved, and which were refused (see `gitprotocol-pack`)."""

from __future__ import annotations

_LENGTH = 4
_LONGEST_LINE = 65520
_REPORT_BAND = b"\x01"
_MOST_KEPT = 1 << 20


class PushReport:
    """Counts what Git reports, from its answer fed in pieces; what is no report counts nothing, and raises nothing."""

    def __init__(self) -> None:
        self.accepted = 0
        self.refused = 0
        self._outer = _Lines()
        self._inner = _Lines()

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the answer."""
        for line in self._outer.of(piece):
            if line[:1] == _REPORT_BAND:
                for told in self._inner.of(line[1:]):
                    self._count(told)
            else:
                self._count(line)  # a client that did not ask for bands gets the report as it is

    def _count(self, line: bytes) -> None:
        self.accepted += line.startswith(b"ok refs/")
        self.refused += line.startswith(b"ng refs/")


class _Lines:
    """The lines of a stream in which each begins with its length in four hexadecimal digits."""

    def __init__(self) -> None:
        self._rest = b""
        self._readable = True

    def of(self, piece: bytes) -> list[bytes]:
        """The lines that `piece` completes."""
        found: list[bytes] = []
        self._rest += piece
        while self._readable and len(self._rest) >= _LENGTH:
            try:
                length = int(self._rest[:_LENGTH], 16)
            except ValueError:
                length = _LONGEST_LINE + 1
            if length > _LONGEST_LINE or len(self._rest) > _MOST_KEPT:
                self._readable, self._rest = False, b""
            elif length < _LENGTH:  # the end of a part
                self._rest = self._rest[_LENGTH:]
            elif len(self._rest) < length:
                break
            else:
                found.append(self._rest[_LENGTH:length])
                self._rest = self._rest[length:]
        if not self._readable:
            self._rest = b""
        return found
