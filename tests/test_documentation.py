"""What exists is documented: settings, commands, fields, endpoints, error codes, layers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from kbgit import config
from kbgit.cli.program import program
from kbgit.errors import KbgitError
from kbgit.library import SearchRequest
from kbgit.web.openapi import DOCUMENT

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERYTHING = "\n".join(page.read_text("utf-8") for page in PAGES)


def commands(command: click.Command, path: tuple[str, ...] = ("kbgit",)) -> Iterator[str]:
    """Every command by its full name."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


@pytest.mark.parametrize("row", config.TABLE, ids=lambda row: row.name)
def test_every_setting_is_in_the_table_of_settings_with_its_default(row: config.SettingRow) -> None:
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    default = str(row.default).lower() if isinstance(row.default, bool) else str(row.default)
    shown = f"`{default}`" if default else "empty"
    assert f"| `{row.name}` | {shown} | {row.help} |" in page


@pytest.mark.parametrize("name", sorted(commands(program)))
def test_every_command_is_named_in_the_documentation(name: str) -> None:
    assert name in EVERYTHING


@pytest.mark.parametrize("name", [field.name for field in fields(SearchRequest)])
def test_every_field_of_a_search_is_documented(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "searching.md").read_text("utf-8")


def test_every_page_is_reached_from_the_readme_and_every_link_leads_somewhere() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for page in PAGES[1:]:
        assert f"docs/{page.name}" in readme, f"README.md does not lead to docs/{page.name}"
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_layer_is_in_the_page_of_design_decisions() -> None:
    page = (ROOT / "docs" / "design.md").read_text("utf-8")
    for path in sorted((ROOT / "kbgit").iterdir()):
        if path.name.startswith("_") or (path.suffix != ".py" and not path.is_dir()):
            continue
        assert f"`{path.stem}`" in page, f"docs/design.md does not say where kbgit/{path.name} belongs"


@pytest.mark.parametrize(
    ("method", "path", "summary"),
    [
        (method.upper(), path, operation["summary"])
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
        if method != "parameters"
    ],
)
def test_every_endpoint_is_documented_with_what_it_does(method: str, path: str, summary: str) -> None:
    assert f"| `{method} {path}` | {summary} |" in (ROOT / "docs" / "api.md").read_text("utf-8")


def test_every_error_code_is_documented_with_its_status() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    found = list(KbgitError.__subclasses__())
    while found:
        error = found.pop()
        found += error.__subclasses__()
        if error.__module__ == "kbgit.errors":
            assert f"| `{error.code}` | {error.http_status} |" in page
