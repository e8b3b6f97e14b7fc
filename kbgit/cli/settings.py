"""`kbgit settings`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click
import yaml

from kbgit import config
from kbgit.cli import terminal
from kbgit.cli.homes import home_of
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.config import SettingValue
from kbgit.errors import InvalidSetting
from kbgit.home import Home


@click.command(short_help="Show the settings, and where each comes from.")
@home_option
@json_option
@pass_session
def settings(session: Session, as_json: bool) -> None:
    """Show every setting: its value, where that comes from (default, file, environment), and what it is for.

    The file is kbgit.yaml in the home. A variable KBGIT_NAME in the environment comes before it: KBGIT_PORT=8080.

    \b
    Examples:
      kbgit settings
      kbgit settings --json
    """
    try:
        home = home_of(session)
        written = frozenset(yaml.safe_load((home.path / config.FILE_NAME).read_text("utf-8")) or {})
    except InvalidSetting:
        # The error sends people here to see which settings there are, so they are shown all the same.
        if not as_json:
            _show(Home(session.home_path, config.Settings()), {}, as_json=False)
        raise
    places = dict.fromkeys(written, "file") | dict.fromkeys(config.from_environment(session.environment), "environment")
    _show(home, places, as_json=as_json)


def _show(home: Home, places: Mapping[str, str], *, as_json: bool) -> None:
    rows = [
        {
            "name": row.name,
            "value": getattr(home.settings, row.name),
            "from": places.get(row.name, "default"),
            "default": row.default,
            "help": row.help,
        }
        for row in config.TABLE
    ]
    found = {"type": "settings", "file": str(home.path / config.FILE_NAME), "settings": rows}
    answer(found, _lines(rows), as_json=as_json)


def _lines(rows: list[dict[str, SettingValue]]) -> Iterator[str]:
    cells = [[str(row["name"]), _written(row["value"]), str(row["from"]), str(row["help"])] for row in rows]
    yield from terminal.table(cells, ("setting", "value", "from", "what it is for"))


def _written(value: SettingValue) -> str:
    """As the settings file writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'
