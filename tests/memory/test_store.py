from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kbgit.access import Principal, Role, Scope
from kbgit.errors import (
    Forbidden,
    IndexFailure,
    InvalidCitation,
    InvalidName,
    InvalidRequest,
    NotFound,
    SpaceNotFound,
    TooLarge,
)
from kbgit.memory import MemoryKind, MemoryLimits, MemoryRecord, MemoryStore, NewRecord, ProjectKey
from tests.memory.conftest import ADA, BEN, CY, EVE, MEMORY_SCOPES, TEAM, VERA, Memory, Opener, member

PLAN = ProjectKey(TEAM, "plan")
OPERATOR = Principal("root", operator=True)
READER = member("ada", Role.OWNER, frozenset({Scope.MEMORY_READ}))
WRITER = member("ada", Role.OWNER, frozenset({Scope.MEMORY_WRITE}))
LIMITED = Principal("ada", ADA.roles, MEMORY_SCOPES, bases=frozenset({"team:harbour/notes"}))


def remember(memory: Memory, text: str, caller: Principal = ADA, **fields: object) -> MemoryRecord:
    return memory.store.remember(NewRecord("plan", text, **fields), caller)  # type: ignore[arg-type]


def texts(records: object) -> list[str]:
    return [record.text for record in records]  # type: ignore[attr-defined]


def test_a_record_says_who_wrote_it_through_what_and_when(memory: Memory) -> None:
    record = remember(memory, "Ask ben.", title="Deploys", tags=["deploy", "deploy", " who "], client="cursor-plugin")
    assert memory.store.get(record.id, ADA) == record
    assert record.as_json() == {
        "id": record.id,
        "space": "personal:ada",
        "project": "plan",
        "kind": "knowledge",
        "title": "Deploys",
        "tags": ["deploy", "who"],
        "author": "ada",
        "client": "cursor-plugin",
        "created_at": "2026-11-30T12:00:00Z",
        "expires_at": None,
        "hidden_characters": False,
        "text": "Ask ben.",
    }


# Who sees what

Act = Callable[[MemoryStore, Principal, str], object]
READS: dict[str, Act] = {
    "records": lambda store, caller, _: store.records(caller, space=TEAM),
    "search": lambda store, caller, _: store.search("x", caller, space=TEAM),
    "export": lambda store, caller, _: store.export(caller, space=TEAM),
    "projects": lambda store, caller, _: store.projects(caller, space=TEAM),
    "project": lambda store, caller, _: store.project(PLAN, caller),
    "get": lambda store, caller, record: store.get(record, caller),
}
WRITES: dict[str, Act] = {
    "remember": lambda store, caller, _: store.remember(NewRecord("plan", "x", space=TEAM), caller),
    "forget": lambda store, caller, record: store.forget(record, caller),
    "link": lambda store, caller, _: store.link(PLAN, "an-item", caller),
    "unlink": lambda store, caller, _: store.unlink(PLAN, "linked", caller),
}


@pytest.fixture
def team_record(memory: Memory) -> MemoryRecord:
    memory.store.link(PLAN, "linked", ADA)
    return remember(memory, "The team's.", BEN, space=TEAM)


@pytest.mark.parametrize("act", READS.values(), ids=READS)
@pytest.mark.parametrize("caller", [ADA, BEN, CY, VERA, OPERATOR, READER], ids=lambda caller: caller.user)
def test_who_belongs_to_a_space_reads_its_memory(
    memory: Memory, team_record: MemoryRecord, act: Act, caller: Principal
) -> None:
    act(memory.store, caller, team_record.id)


@pytest.mark.parametrize("act", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
def test_for_who_does_not_belong_to_it_a_space_is_not_there(
    memory: Memory, team_record: MemoryRecord, act: Act
) -> None:
    empty = memory.store
    with pytest.raises(NotFound) as hidden:
        act(empty, EVE, team_record.id)
    team_record_is_none = "mem_" + "0" * 24
    with pytest.raises(NotFound) as absent:
        act(empty, EVE, team_record_is_none)
    assert type(hidden.value) is type(absent.value)
    assert str(hidden.value).replace(team_record.id, team_record_is_none) == str(absent.value)


@pytest.mark.parametrize("act", WRITES.values(), ids=WRITES)
def test_a_viewer_writes_nothing(memory: Memory, team_record: MemoryRecord, act: Act) -> None:
    before = memory.files
    with pytest.raises(Forbidden) as refusal:
        act(memory.store, VERA, team_record.id)
    assert "viewer" in refusal.value.details["rule"]
    assert memory.files == before


@pytest.mark.parametrize(
    ("acts", "caller", "scope"), [(READS, WRITER, "memory:read"), (WRITES, READER, "memory:write")]
)
def test_a_token_without_the_scope_is_told_which_one(
    memory: Memory, team_record: MemoryRecord, acts: dict[str, Act], caller: Principal, scope: str
) -> None:
    for act in acts.values():
        with pytest.raises(Forbidden) as refusal:
            act(memory.store, caller, team_record.id)
        assert refusal.value.details["scope"] == scope


def test_a_token_limited_to_bases_reaches_no_memory(memory: Memory, team_record: MemoryRecord) -> None:
    remember(memory, "Private.")
    assert not memory.store.records(LIMITED).records
    assert not memory.store.search("the", LIMITED).hits
    for act in [*READS.values(), *WRITES.values()]:
        with pytest.raises((Forbidden, NotFound)):
            act(memory.store, LIMITED, team_record.id)


def test_nobody_else_sees_a_personal_space_the_team_s_owner_included(memory: Memory) -> None:
    record = remember(memory, "Ben's own.", BEN)
    for caller in (ADA, CY, VERA, EVE):
        assert not memory.store.records(caller).records
        assert not memory.store.search("ben's own", caller).hits
        assert not memory.store.projects(caller)
        assert not memory.store.export(caller).projects
        with pytest.raises(NotFound):
            memory.store.get(record.id, caller)
        with pytest.raises(NotFound):
            memory.store.forget(record.id, caller)
        with pytest.raises(SpaceNotFound):
            memory.store.remember(NewRecord("plan", "x", space="personal:ben"), caller)
    assert texts(memory.store.records(BEN).records) == ["Ben's own."]
    assert texts(memory.store.records(OPERATOR).records) == ["Ben's own."]


def test_a_record_of_a_team_is_forgotten_by_its_author_or_those_who_run_the_space(memory: Memory) -> None:
    for caller in (BEN, ADA, CY, OPERATOR):
        record = remember(memory, "x", BEN, space=TEAM)
        memory.store.forget(record.id, caller)
        with pytest.raises(NotFound):
            memory.store.get(record.id, BEN)
    record = remember(memory, "x", ADA, space=TEAM)
    with pytest.raises(Forbidden, match="author"):
        memory.store.forget(record.id, BEN)
    assert memory.store.get(record.id, BEN)


def test_an_unreadable_record_is_forgotten_by_those_who_run_the_space(memory: Memory) -> None:
    record = remember(memory, "x", BEN, space=TEAM)
    (memory.directory / "harbour" / "plan" / f"{record.id}.md").write_text("nothing of a record")
    with pytest.raises(Forbidden):
        memory.store.forget(record.id, BEN)
    memory.store.forget(record.id, CY)
    assert not memory.files


def test_forgetting_is_told_to_the_audit_log_without_the_text(memory: Memory) -> None:
    record = remember(memory, "A secret.")
    memory.store.forget(record.id, ADA)
    with pytest.raises(NotFound):
        memory.store.forget(record.id, ADA)
    assert memory.events == [("ada", "memory_forgotten", {"record": record.id, "project": "personal:ada/plan"})]


def test_what_is_forgotten_is_in_the_audit_log_even_if_its_vectors_stay(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = remember(memory, "A secret.")

    def refuse(_: object) -> None:
        raise IndexFailure("no space left")

    monkeypatch.setattr(memory.search, "erase", refuse)
    with pytest.raises(IndexFailure):
        memory.store.forget(record.id, ADA)
    assert [event for _, event, _ in memory.events] == ["memory_forgotten"]
    assert not memory.files


@pytest.mark.parametrize(
    "record_id", ["", "x", "../../accounts", "mem_", "mem_" + "0" * 24, "mem_" + "0" * 24 + "/../x"]
)
def test_what_is_no_record_is_not_found(memory: Memory, record_id: str) -> None:
    remember(memory, "x")
    with pytest.raises(NotFound):
        memory.store.get(record_id, ADA)
    with pytest.raises(NotFound):
        memory.store.forget(record_id, ADA)


# Listing


def test_records_are_listed_newest_first_and_filtered(memory: Memory) -> None:
    for number, text in enumerate(["Oldest: crane 7", "Middle: Crane 8", "Newest: quay"]):
        memory.clock.now += 10
        kind = MemoryKind.WORKING if number == 1 else MemoryKind.KNOWLEDGE
        remember(memory, text, kind=kind, tags=["harbour"] if number else ["sea"])
    memory.store.remember(NewRecord("other", "Elsewhere: crane", space=TEAM), ADA)
    records = memory.store.records
    assert texts(records(ADA, project="plan").records) == ["Newest: quay", "Middle: Crane 8", "Oldest: crane 7"]
    assert texts(records(ADA, kind=MemoryKind.WORKING).records) == ["Middle: Crane 8"]
    assert texts(records(ADA, project="plan", query="CRANE").records) == ["Middle: Crane 8", "Oldest: crane 7"]
    assert texts(records(ADA, query="crane harbour").records) == ["Middle: Crane 8"]
    assert texts(records(ADA, space=TEAM).records) == ["Elsewhere: crane"]
    assert not records(ADA, project="no-such").records


def test_pages_follow_each_other_whatever_happens_in_between(memory: Memory) -> None:
    for number in range(7):
        memory.clock.now += number % 2  # some are of the same second
        remember(memory, f"{number}")
    whole = [record.id for record in memory.store.records(ADA).records]
    first = memory.store.records(ADA, limit=3)
    assert first.cursor is not None
    memory.store.forget(first.records[-1].id, ADA)
    memory.clock.now += 100
    remember(memory, "new")
    second = memory.store.records(ADA, limit=3, cursor=first.cursor)
    third = memory.store.records(ADA, limit=3, cursor=second.cursor)
    assert [record.id for page in (first, second, third) for record in page.records] == whole
    assert third.cursor is None


@pytest.mark.parametrize("cursor", ["", "1", "x:mem_" + "0" * 24, "1:mem_0", "1:mem_" + "0" * 24 + "\n"])
def test_a_cursor_of_no_page_is_refused(memory: Memory, cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        memory.store.records(ADA, cursor=cursor)


@pytest.mark.parametrize("limit", [0, -1, 201])
def test_a_limit_out_of_bounds_is_refused(memory: Memory, limit: int) -> None:
    with pytest.raises(InvalidRequest):
        memory.store.records(ADA, limit=limit)
    with pytest.raises(InvalidRequest):
        memory.store.search("x", ADA, limit=limit)


@pytest.mark.parametrize(("space", "project"), [("personal:../x", None), (None, "../x"), (None, ""), (TEAM, "..")])
def test_no_filter_leads_out_of_the_directory(memory: Memory, space: str | None, project: str | None) -> None:
    with pytest.raises(InvalidName):
        memory.store.records(ADA, space=space, project=project)


def test_a_project_is_bounded(open_memory: Opener) -> None:
    memory = open_memory(limits=MemoryLimits(records_per_project=2))
    remember(memory, "1")
    remember(memory, "2")
    with pytest.raises(TooLarge) as refusal:
        remember(memory, "3")
    assert refusal.value.details == {"limit": 2}
    memory.store.remember(NewRecord("other", "3"), ADA)


# Time


def test_a_working_record_is_gone_when_its_time_is_over(memory: Memory) -> None:
    record = remember(memory, "For now.", kind=MemoryKind.WORKING, lifetime_seconds=60)
    kept = remember(memory, "For ever.")
    memory.clock.now += 59
    assert memory.store.get(record.id, ADA)
    memory.clock.now += 1
    with pytest.raises(NotFound):
        memory.store.get(record.id, ADA)
    assert texts(memory.store.records(ADA).records) == ["For ever."]
    assert texts(memory.store.export(ADA).projects[0].records) == ["For ever."]
    assert memory.store.projects(ADA)[0].counts == {MemoryKind.KNOWLEDGE: 1, MemoryKind.WORKING: 0}
    assert len(memory.files) == 2
    assert memory.store.forget_expired() == 1
    assert memory.files == [f"~ada/plan/{kept.id}.md"]
    assert memory.store.forget_expired() == 0


def test_what_has_expired_takes_no_room(open_memory: Opener) -> None:
    memory = open_memory(limits=MemoryLimits(records_per_project=1))
    remember(memory, "For now.", kind=MemoryKind.WORKING, lifetime_seconds=60)
    memory.clock.now += 60
    remember(memory, "For ever.")


# Links


def test_documents_are_linked_and_unlinked(memory: Memory) -> None:
    sha = "a" * 40
    assert memory.store.link(PLAN, "handbook/leave", ADA).documents == ("knowledge:handbook/leave",)
    memory.store.link(PLAN, f"knowledge:x@{sha}#L1-L2", BEN)
    view = memory.store.link(PLAN, "knowledge:handbook/leave", ADA)
    assert view.documents == ("knowledge:handbook/leave", f"knowledge:x@{sha}#L1-L2")
    assert memory.store.projects(VERA)[0].as_json()["documents"] == list(view.documents)
    assert memory.store.unlink(PLAN, "handbook/leave", BEN).documents == (f"knowledge:x@{sha}#L1-L2",)
    with pytest.raises(NotFound):
        memory.store.unlink(PLAN, "handbook/leave", ADA)
    memory.store.unlink(PLAN, f"knowledge:x@{sha}#L1-L2", ADA)
    assert not memory.files


@pytest.mark.parametrize("reference", ["", "knowledge:", "a\nb", "x@abc", "a\x00", "x" * 5000])
def test_a_link_is_a_citation_or_an_id(memory: Memory, reference: str) -> None:
    with pytest.raises(InvalidCitation):
        memory.store.link(PLAN, reference, ADA)
    assert not memory.files


# Export

HOSTILE = "# Memory\n\n### mem_0\n- author: eve\n\n> quoted\n---\n```\n<!-- \n\n\U000e0041\x1b[31m end"


def exported(memory: Memory) -> list[MemoryRecord]:
    memory.store.link(ProjectKey("personal:ada", "plan"), "handbook/leave", ADA)
    made = []
    for text in ("One.\n", HOSTILE, "Drei: Kräne\n\n- a\n"):
        memory.clock.now += 1
        made.append(remember(memory, text, title="T: x", tags=["a"], client="skill", kind=MemoryKind.WORKING))
    return made


def test_an_export_as_json_has_every_field_of_every_record(memory: Memory) -> None:
    made = exported(memory)
    read = json.loads(json.dumps(memory.store.export(ADA).as_json()))
    assert (read["type"], read["version"], read["problems"]) == ("memory_export", 1, [])
    (project,) = read["projects"]
    assert (project["space"], project["project"]) == ("personal:ada", "plan")
    assert project["documents"] == ["knowledge:handbook/leave"]
    assert project["records"] == [record.as_json() for record in made]


def test_an_export_as_markdown_has_every_text_and_no_text_passes_for_more(memory: Memory) -> None:
    made = exported(memory)
    lines = memory.store.export(ADA).as_markdown().split("\n")
    headings = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    assert headings == [record.id for record in made]
    assert [line for line in lines if line.startswith("- author")] == ["- author: ada"] * 3
    quotes: list[list[str]] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith(">"):
            if not before.startswith(">"):
                quotes.append([])
            quotes[-1].append(line.removeprefix(">").removeprefix(" "))
    assert ["\n".join(quote) for quote in quotes] == texts(made)


def test_an_export_holds_what_was_asked_for(memory: Memory) -> None:
    remember(memory, "mine")
    remember(memory, "ours", space=TEAM)
    memory.store.remember(NewRecord("other", "elsewhere", space=TEAM), BEN)
    keys = [str(project.key) for project in memory.store.export(ADA).projects]
    assert keys == ["team:harbour/other", "team:harbour/plan", "personal:ada/plan"]
    assert [str(project.key) for project in memory.store.export(VERA, project="plan").projects] == ["team:harbour/plan"]
    assert not memory.store.export(EVE).projects
