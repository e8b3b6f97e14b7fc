"""The table of settings: defaults, kinds, limits, and where values come from."""

from __future__ import annotations

from dataclasses import fields

import pytest
import yaml

from kbgit.config import ENVIRONMENT_PREFIX, TABLE, SettingRow, Settings, as_yaml, from_environment
from kbgit.errors import InvalidSetting

NUMBERS = [row for row in TABLE if type(row.default) in (int, float)]


def name_of(row: SettingRow) -> str:
    return row.name


def test_the_table_has_every_setting_with_a_help_text() -> None:
    assert [row.name for row in TABLE] == [field.name for field in fields(Settings)]
    assert all(row.help.endswith(".") for row in TABLE)


@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_every_setting_reads_its_own_default_as_value_and_as_text(row: SettingRow) -> None:
    assert Settings().overlaid({row.name: row.default}) == Settings()
    assert Settings().overlaid({row.name: str(row.default)}) == Settings()


def test_the_settings_file_that_is_written_out_says_the_defaults() -> None:
    written = as_yaml()
    assert yaml.safe_load(written) is None, "as written, every line is a comment"
    uncommented = "\n".join(line.removeprefix("#") for line in written.splitlines() if not line.startswith("# "))
    assert Settings().overlaid(yaml.load(uncommented, yaml.BaseLoader)) == Settings()
    assert set(yaml.safe_load(uncommented)) == {row.name for row in TABLE}


@pytest.mark.parametrize("row", NUMBERS, ids=name_of)
@pytest.mark.parametrize("value", ["", "many", "1 2", True, None, [], {}, "nan", -1, "-1"])
def test_a_number_is_neither_empty_nor_a_word_nor_below_its_minimum(row: SettingRow, value: object) -> None:
    with pytest.raises(InvalidSetting, match=row.name):
        Settings().overlaid({row.name: value})


@pytest.mark.parametrize(("text", "value"), [("yes", True), (" ON ", True), ("1", True), ("no", False), ("Off", False)])
def test_a_switch_understands_the_usual_words(text: str, value: bool) -> None:
    assert Settings().overlaid({"knowledge_enabled": text}).knowledge_enabled is value


@pytest.mark.parametrize("value", ["maybe", "", 1, None])
def test_a_switch_refuses_everything_else(value: object) -> None:
    with pytest.raises(InvalidSetting, match="knowledge_enabled"):
        Settings().overlaid({"knowledge_enabled": value})


@pytest.mark.parametrize("value", [1, 1.5, True, None, ["a"]])
def test_a_text_is_not_made_from_other_kinds(value: object) -> None:
    with pytest.raises(InvalidSetting, match="host"):
        Settings().overlaid({"host": value})


def test_whole_numbers_do_for_a_fraction_but_not_the_other_way_round() -> None:
    assert Settings().overlaid({"wait_for_max_seconds": 3}).wait_for_max_seconds == 3.0
    with pytest.raises(InvalidSetting, match="port"):
        Settings().overlaid({"port": 80.5})


@pytest.mark.parametrize("name", ["prot", "PORT", "", 7, None])
def test_a_setting_that_does_not_exist_is_refused_by_name(name: object) -> None:
    with pytest.raises(InvalidSetting, match="no setting is called"):
        Settings().overlaid({name: 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["watch", "log_level"])
@pytest.mark.parametrize("value", ["", "of", "verbose"])
def test_a_word_that_is_none_of_a_setting_s_is_refused_and_not_taken_for_another(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting, match=rf"{name}.* is none of"):
        Settings().overlaid({name: value})


def test_a_setting_s_word_is_understood_in_capitals_too() -> None:
    assert Settings().overlaid({"log_level": " DEBUG"}).log_level == "debug"


def test_overlaying_leaves_the_original_alone() -> None:
    settings = Settings()
    assert settings.overlaid({"port": "1234"}).port == 1234
    assert settings.port == Settings().port


def test_the_environment_gives_settings_and_nothing_else() -> None:
    environment = {"KBGIT_PORT": "80", "KBGIT_USER": "ada", "PORT": "81", "kbgit_host": "x", "KBGIT_": "y"}
    assert from_environment(environment) == {"port": "80"}


@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_every_setting_has_its_variable(row: SettingRow) -> None:
    variable = ENVIRONMENT_PREFIX + row.name.upper()
    assert from_environment({variable: "7"}) == {row.name: "7"}
