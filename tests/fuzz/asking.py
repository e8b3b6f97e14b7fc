"""Hostile queries over HTTP, and what is wrong with their answers."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import cycle
from urllib.parse import urlsplit

MODES = ("lexical", "semantic", "hybrid", "rrf")
LIMIT = 10
LONGEST_ANSWER = 1 << 20
"""Bytes of an answer with at most `LIMIT` passages."""


@dataclass
class Findings:
    """What came of a run: how many were answered how, what was wrong, and how long each took (seconds)."""

    statuses: dict[int, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    longest: int = 0

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def ask_all(url: str, token: str, queries: Iterable[str], *, twice_every: int = 10) -> Findings:
    """Ask each query in the next mode; every n-th a second time, which must be answered alike."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    found = Findings()
    for number, (query, mode) in enumerate(zip(queries, cycle(MODES), strict=False)):
        body = json.dumps({"query": query, "mode": mode, "limit": LIMIT})  # half characters as escapes
        told = []
        for _ in range(2 if number % twice_every == 0 else 1):
            began = time.perf_counter()
            connection.request("POST", "/api/v1/knowledge/search", body, headers)
            answer = connection.getresponse()
            raw = answer.read()
            found.seconds.append(time.perf_counter() - began)
            found.statuses[answer.status] = found.statuses.get(answer.status, 0) + 1
            found.longest = max(found.longest, len(raw))
            if problem := _problem(answer.status, raw):
                found.wrong.append(f"{query!r} ({mode}): {problem}")
            told.append(_without_time(raw))
        if len(told) == 2 and told[0] != told[1]:
            found.wrong.append(f"{query!r} ({mode}): asked twice, answered differently")
    connection.close()
    return found


def _problem(status: int, raw: bytes) -> str:
    if status not in (200, 400):
        return f"status {status}: {raw[:300]!r}"
    if len(raw) > LONGEST_ANSWER:
        return f"{len(raw)} bytes"
    if status == 200 and len(json.loads(raw)["results"]) > LIMIT:
        return "more results than were asked for"
    return ""


def _without_time(raw: bytes) -> object:
    answer = json.loads(raw)
    return {name: value for name, value in answer.items() if name not in ("took_ms", "freshness")}
