"""The server's log, on standard error: one JSON object a line, or lines for people on a terminal.

Every line that belongs to a request has its id, whichever module writes it and in whichever thread. What must not be in a
log is kept out by construction: of an exception that nobody expected only its type and its places are written, because its
message may quote what was being worked on; libraries may speak from warnings on, because at finer levels some log what they
are given; and whatever still has the shape of a token is struck out. Keeping, rotating and shipping lines is the service
manager's work.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import sys
import traceback
from types import TracebackType
from typing import TextIO

from kbgit.revision import rfc3339
from kbgit.web.asgi import CURRENT

OWN_LOGGERS = ("kbgit", "uvicorn.error")
"""Loggers that obey the setting log_level; others speak from warnings on."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
_TOKEN = re.compile(r"(kbgit_[0-9a-f]{12}_)[A-Za-z0-9_-]{16,}")
_MOST_PLACES = 40

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class _Lines(logging.Formatter):
    """What both forms share."""

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        """What a record comes with beside its message, the id of its request first."""
        found = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        visit = CURRENT.get()
        if visit is not None and visit.request_id:
            found = {"request_id": visit.request_id, **found}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return found

    def formatException(self, ei: _ExceptionInfo) -> str:
        """The types and places of an exception and of those behind it, without their messages."""
        return "\n".join(_described(ei[1])) if ei[1] is not None else ""


class JsonLines(_Lines):
    """A record as one line of JSON: time, level, logger, message, then whatever `extra` it came with."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": f"{rfc3339(int(record.created))[:-1]}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self.facts(record),
        }
        return _without_tokens(json.dumps(line, ensure_ascii=True, default=str))


class TextLines(_Lines):
    """A record as a line for people: local time of day, level, message, facts; an exception on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        facts = self.facts(record)
        exception = facts.pop("exception", None)
        clock = self.formatTime(record, "%H:%M:%S")
        told = " ".join(f"{name}={value}" for name, value in facts.items() if value not in ("", None))
        line = _printable(f"{clock} {record.levelname.lower():7} {record.getMessage()} {told}".rstrip())
        return _without_tokens(f"{line}\n{exception}" if exception else line)


def log_to_standard_error(level: str, stream: TextIO | None = None) -> None:
    """Send records of at least `level` (debug, info, warning, error) to `stream` (default: standard error)."""
    chosen = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(chosen)
    handler.setFormatter(TextLines() if chosen.isatty() else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    own = logging.getLevelName(level.upper())
    root.setLevel(max(own, logging.WARNING))
    for name in OWN_LOGGERS:
        logging.getLogger(name).setLevel(own)


def _described(error: BaseException) -> list[str]:
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if lines:
            lines.append("caused by, or raised while handling:")
        lines.append(_named(current))
        places = traceback.extract_tb(current.__traceback__)
        lines += [f"  {place.filename}:{place.lineno} in {place.name}" for place in places[-_MOST_PLACES:]]
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return lines


def _named(error: BaseException) -> str:
    """The type, and what the system or the database says went wrong, which is from a fixed list."""
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    if isinstance(error, sqlite3.Error):
        return f"{name}: {getattr(error, 'sqlite_errorname', '')}".removesuffix(": ")
    return name


def _without_tokens(line: str) -> str:
    return _TOKEN.sub(r"\1[struck out]", line)


def _printable(line: str) -> str:
    """What a terminal would obey becomes an escape: paths and client names are chosen by callers."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
