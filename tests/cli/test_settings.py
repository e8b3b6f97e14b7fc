from __future__ import annotations

from kbgit import config
from tests.cli.running import Kbgit


def test_every_setting_is_shown_with_where_it_comes_from(kbgit: Kbgit) -> None:
    rows = {row["name"]: row for row in kbgit.json("settings", KBGIT_PORT="8080")["settings"]}
    assert list(rows) == [row.name for row in config.TABLE]
    assert (rows["port"]["value"], rows["port"]["from"]) == (8080, "environment")
    assert (rows["embedder"]["value"], rows["embedder"]["from"]) == ("hashing", "file")
    assert (rows["host"]["value"], rows["host"]["from"]) == ("127.0.0.1", "default")
    assert all(row["help"] for row in rows.values())


def test_the_environment_comes_before_the_file(kbgit: Kbgit) -> None:
    shown = kbgit.run("settings", KBGIT_EMBEDDER="none").stdout
    assert next(line for line in shown.splitlines() if line.startswith("embedder ")).split()[1:3] == [
        "none",
        "environment",
    ]


def test_an_unknown_setting_is_trouble_and_the_known_ones_are_shown(kbgit: Kbgit) -> None:
    (kbgit.home / "kbgit.yaml").write_text("prot: 1\n")
    result = kbgit.run("settings", code=3)
    assert "no setting is called 'prot'" in result.stderr
    assert "\nport " in result.stdout


def test_other_commands_refuse_a_wrong_setting(kbgit: Kbgit) -> None:
    assert "port" in kbgit.run("token", "list", code=3, KBGIT_PORT="many").stderr
