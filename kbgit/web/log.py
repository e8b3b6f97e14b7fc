"""The server's log: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys

from kbgit.revision import rfc3339

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, then whatever `extra` it came with."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": f"{rfc3339(int(record.created))[:-1]}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def log_to_standard_error(level: str) -> None:
    """Send every logger's records of at least `level` (debug, info, warning, error) to standard error."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [stream]
    root.setLevel(level.upper())
