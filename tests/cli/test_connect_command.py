"""`kbgit connect` prints what clients take."""

from __future__ import annotations

import json
import shlex
import tomllib
from contextlib import closing
from typing import Any

import pytest

from kbgit.cli.connect import CLIENTS, PLACEHOLDER
from kbgit.home import Home
from kbgit.mcp.contract import contract
from tests.cli.running import Kbgit


def configuration(kbgit: Kbgit, *arguments: str) -> str:
    return str(kbgit.json("connect", *arguments)["configuration"])


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_every_client_gets_a_token_command_that_works_and_no_token(kbgit: Kbgit, client: str) -> None:
    found = kbgit.json("connect", client)
    command = shlex.split(found["token_command"])
    assert command[0] == "kbgit"
    made = kbgit.json(*command[1:])
    assert made["scopes"] == sorted(found["scopes"])
    assert made["profile"] == found["profile"]
    shown = kbgit.run("connect", client).stdout
    assert "kbgit_" not in shown.replace("kbgit_skill", "")
    assert found["configuration"] in shown


def test_scopes_are_the_smallest_that_suffice(kbgit: Kbgit) -> None:
    def scopes(*arguments: str) -> list[str]:
        return list(kbgit.json("connect", *arguments)["scopes"])

    assert scopes("cursor") == ["knowledge:read", "memory:read", "memory:write"]
    assert scopes("cursor", "--read-only") == ["knowledge:read", "memory:read"]
    assert scopes("http", "--profile", "chatgpt-public") == ["memory:read", "memory:write"]
    assert scopes("http", "--profile", "chatgpt-public", "--read-only") == ["memory:read"]


@pytest.mark.parametrize(
    ("client", "key"), [("claude-desktop", "mcpServers"), ("cursor", "mcpServers"), ("vscode", "servers")]
)
def test_configuration_in_json_starts_this_program_with_this_home(kbgit: Kbgit, client: str, key: str) -> None:
    entry = json.loads(configuration(kbgit, client))[key]["kbgit"]
    assert entry["args"][:3] == ["-m", "kbgit.cli", "mcp"]
    assert entry["args"][3:5] == ["--home", str(kbgit.home)]
    assert entry["args"][-1] in contract().profiles
    assert entry["env"]["KBGIT_TOKEN"] in (PLACEHOLDER, "${input:kbgit-token}")


@pytest.mark.parametrize("client", ["cursor", "vscode"])
def test_configuration_over_http_has_the_public_address(kbgit: Kbgit, client: str) -> None:
    text = kbgit.run("connect", client, "--http", "--json", KBGIT_PUBLIC_URL="https://kb.example.org/").stdout
    found: dict[str, Any] = json.loads(json.loads(text)["configuration"])
    entry = (found.get("servers") or found["mcpServers"])["kbgit"]
    assert (entry["type"], entry["url"]) == ("http", "https://kb.example.org/mcp")


def test_configuration_in_toml_and_for_a_shell_can_be_read(kbgit: Kbgit) -> None:
    entry = tomllib.loads(configuration(kbgit, "codex"))["mcp_servers"]["kbgit"]
    assert entry["env"] == {"KBGIT_TOKEN": PLACEHOLDER}
    assert tomllib.loads(configuration(kbgit, "codex", "--http"))["mcp_servers"]["kbgit"]["url"].endswith("/mcp")
    words = shlex.split(configuration(kbgit, "claude-code"))
    assert words[:3] == ["claude", "mcp", "add"]
    assert f"Authorization: Bearer {PLACEHOLDER}" in shlex.split(configuration(kbgit, "claude-code", "--http"))


def test_another_machine_s_server_is_used_from_here(kbgit: Kbgit) -> None:
    entry = json.loads(configuration(kbgit, "cursor", "--server", "https://kb.example.org"))["mcpServers"]["kbgit"]
    assert entry["args"][3:5] == ["--server", "https://kb.example.org"]
    assert "https://kb.example.org/mcp" in configuration(kbgit, "http", "--server", "https://kb.example.org")


def test_a_token_that_is_made_is_shown_and_is_that_of_the_profile(kbgit: Kbgit) -> None:
    entry = json.loads(configuration(kbgit, "cursor", "--create-token", "--read-only"))["mcpServers"]["kbgit"]
    with closing(Home.at(kbgit.home).accounts()) as accounts:
        caller = accounts.authenticate(entry["env"]["KBGIT_TOKEN"])
    assert caller.profile == "cursor-plugin"
    assert {scope.value for scope in caller.scopes} == {"knowledge:read", "memory:read"}


def test_what_cannot_be_is_refused_with_the_way_out(kbgit: Kbgit) -> None:
    assert "--server" in kbgit.run("connect", "claude-desktop", "--http", code=2).stderr
    assert "--create-token" in kbgit.run("connect", "http", "--server", "http://x", "--create-token", code=2).stderr
    assert "claude-desktop" in kbgit.run("connect", "emacs", code=2).stderr
