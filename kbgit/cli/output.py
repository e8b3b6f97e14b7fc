"""How an answer leaves: as JSON, or as lines for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click


def answer(found: dict[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print `found` as JSON, or `lines`."""
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    for line in lines:
        click.echo(line)
