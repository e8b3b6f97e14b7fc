"""Items as resources, and completion of their ids and revisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference, TextResourceContents

from kbgit.citation import Citation
from kbgit.mcp.resources import CURRENT, PINNED, citation_of, uri_of
from kbgit.mcp.server import RESOURCE_NOT_FOUND
from tests.mcp.connecting import LEGACY, MODERN, Served, asked, over_http

SHA = "0123456789abcdef0123456789abcdef01234567"


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=60))
def test_a_uri_means_what_it_was_made_of(item_id: str) -> None:
    citation = Citation(item_id, SHA, (3, 9))
    assert citation_of(uri_of(citation)) == citation
    assert uri_of(citation).isascii()
    assert " " not in uri_of(citation)


def test_a_plain_citation_is_its_own_uri() -> None:
    text = f"knowledge:runbooks/deploy.v2@{SHA}#L10-L24"
    assert uri_of(Citation.parse(text)) == text


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_every_published_item_is_listed_and_can_be_read(served: Served, mode: str) -> None:
    async def ask(client: Client) -> dict[str, str]:
        found: dict[str, str] = {}
        cursor = None
        while True:
            page = await client.list_resources(cursor=cursor)
            for one in page.resources:
                contents = (await client.read_resource(one.uri)).contents[0]
                assert isinstance(contents, TextResourceContents)
                assert contents.uri == one.uri
                found[one.name] = contents.text
            cursor = page.next_cursor
            if cursor is None:
                return found

    found = asked(over_http(served.url, served.token("max"), mode), ask)
    assert set(found) == {
        *("item_deploy", "item_hostile", "runbooks/long", "runbooks/odd/100% über & co"),
        "runbooks/odd/👩⟨U+200D⟩💻",
    }
    assert "begin untrusted text" in found["item_deploy"]
    assert "harbour" in found["item_deploy"]


def test_lists_come_in_pages(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbgit.mcp.resources.PAGE", 2)

    async def ask(client: Client) -> list[int]:
        sizes, names, cursor = [], set(), None
        while True:
            page = await client.list_resources(cursor=cursor)
            sizes.append(len(page.resources))
            names |= {one.name for one in page.resources}
            cursor = page.next_cursor
            if cursor is None:
                assert len(names) == sum(sizes)
                return sizes

    assert asked(over_http(served.url, served.token("ada")), ask) == [2, 2, 2]


def test_a_pinned_resource_stays_what_it_was(served: Served) -> None:
    async def ask(client: Client) -> str:
        contents = (await client.read_resource(served.cite("item_deploy", 0))).contents[0]
        assert isinstance(contents, TextResourceContents)
        return contents.text

    text = asked(over_http(served.url, served.token()), ask)
    assert "harbour" not in text
    assert "NOT the current revision" in text


@pytest.mark.parametrize("uri", ["knowledge:diary", "knowledge:nowhere", f"knowledge:item_deploy@{SHA}"])
def test_what_is_hidden_is_as_absent_as_what_never_was(served: Served, uri: str) -> None:
    async def ask(client: Client) -> MCPError:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
        return refused.value

    assert asked(over_http(served.url, served.token("max")), ask).code == RESOURCE_NOT_FOUND


def test_ids_and_revisions_are_completed(served: Served) -> None:
    async def complete(client: Client, template: str, name: str, typed: str, **given: str) -> list[str]:
        reference = ResourceTemplateReference(type="ref/resource", uri=template)
        found = await client.complete(reference, {"name": name, "value": typed}, context_arguments=given or None)
        return found.completion.values

    async def ask(client: Client) -> None:
        listed = await client.list_resource_templates()
        assert {one.uri_template for one in listed.resource_templates} == {CURRENT, PINNED}
        assert await complete(client, CURRENT, "item_id", "item_") == ["item_deploy", "item_hostile"]
        assert await complete(client, CURRENT, "item_id", "item_deploy") == ["item_deploy"]
        assert await complete(client, CURRENT, "item_id", "di") == []
        assert len(await complete(client, CURRENT, "item_id", "")) == 5
        old, new = served.heads
        assert await complete(client, PINNED, "revision", "", item_id="item_deploy") == [new, old]
        assert await complete(client, PINNED, "revision", old[:6], item_id="item_deploy") == [old]
        assert await complete(client, PINNED, "revision", "", item_id="nowhere") == []
        assert await complete(client, PINNED, "base", "x") == []

    asked(over_http(served.url, served.token("max")), ask)


def test_a_profile_without_knowledge_has_no_resources(served: Served) -> None:
    async def ask(client: Client) -> None:
        assert not (await client.list_resources()).resources
        assert not (await client.list_resource_templates()).resource_templates
        with pytest.raises(MCPError):
            await client.read_resource("knowledge:item_deploy")

    asked(over_http(served.url, served.token(profile="chatgpt-public")), ask)
