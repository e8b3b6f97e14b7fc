"""A home with a bit of everything, what its citations cite, and the answers it gives."""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbgit.access import Principal, Role, Scope
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey, BaseStatus
from kbgit.home import Home
from kbgit.importing import BaseOptions
from kbgit.index.embedded import directory_name
from kbgit.library import SearchRequest
from kbgit.memory import NewRecord
from kbgit.revision import Via
from kbgit.store.repository import PUBLICATION_LOG
from kbgit.upkeep.inspection import Inspection, inspect
from tests.library.conftest import embed_all
from tests.library.publishing import publish
from tests.writing import Writer, clone, text

NOTES = BaseKey("personal:ada", "notes")
RUNBOOKS = BaseKey("team:platform", "runbooks")
ATTIC = BaseKey("team:platform", "attic")
OPERATOR = Principal("ada", operator=True)
QUERIES = ("heron", "how do we deploy", "velvet anchor", "Urlaub", "年假", "nothing like this", "rollback production")


@dataclass(frozen=True)
class Furnished:
    """A home, the text of every citation of it with its provenance, tokens that are valid, ids of records."""

    path: Path
    cited: Mapping[str, tuple[str, str]]
    tokens: Mapping[str, str]
    records: tuple[str, ...]


def opened(path: Path, **settings: object) -> Runtime:
    return open_runtime(Home.at(path, {"embedder": "hashing", "watch": "off", **settings}))


def new_home(path: Path) -> Home:
    Home.create(path)
    (path / "kbgit.yaml").write_text("embedder: hashing\nsweep_seconds: 0.2\n")
    return Home.at(path)


def furnish(path: Path, scratch: Path) -> Furnished:
    """Make it: pushes through the hooks, a rename, a removal, a draft, an archived base, members, tokens, memory."""
    new_home(path)
    runtime = opened(path)
    try:
        accounts = runtime.accounts
        accounts.add_user("ada", "test", administrator=True)
        accounts.add_user("mia", "test")
        accounts.add_team("platform", "ada", "test")
        accounts.set_member("team:platform", "mia", Role.MEMBER, "test")
        tokens = {user: accounts.add_token(user, "laptop", set(Scope), "test")[1] for user in ("ada", "mia")}
        (path / "owner-token").touch(mode=0o600)
        (path / "owner-token").write_text(tokens["ada"] + "\n")
        for key in (NOTES, RUNBOOKS, ATTIC):
            runtime.bases.create(key, OPERATOR, BaseOptions())
        fill(runtime, writer_of(runtime.home, RUNBOOKS, scratch / "writer"))
        runtime.bases.set_status(str(ATTIC), OPERATOR, BaseStatus.ARCHIVED, Via.API)
        mia = accounts.principal("mia")
        records = tuple(
            runtime.memory.remember(NewRecord("harbour", f"Ask {who} before a deploy.", space=space), by).id
            for who, space, by in (("Ada", "team:platform", mia), ("nobody", "personal:mia", mia))
        )
        runtime.indexer.sweep()
        embed_all(runtime)
        return Furnished(path, citations(runtime), tokens, records)
    finally:
        runtime.stop()


def writer_of(home: Home, key: BaseKey, directory: Path) -> Writer:
    return clone(home.repository(key).path, directory)


def fill(runtime: Runtime, writer: Writer) -> None:
    deploy = "# Deploy\n\nHow we deploy: `kubectl rollout` in production.\n\n## Rollback\n\nUndo it.\n"
    writer.publish(
        {"deploy.md": text("Deploy", body=deploy, id="item_deploy"), "plan.md": text("Plan", status="draft")}
    )
    writer.publish({"old name.md": text("Heron", body="The heron waits at the harbour.\n"), "gone.md": text("Gone")})
    writer.publish({"old name.md": None, "birds/heron.md": text("Heron", body="The heron hunts.\n", id="item_heron")})
    writer.publish(
        {"gone.md": None, "deploy.md": text("Deploy", body=deploy.replace("Undo", "Revert"), id="item_deploy")}
    )
    publish(runtime, NOTES, {"urlaub.md": text("Urlaub", body="Dreißig Tage. 年假 auch.\n", tags="[leave]")})
    publish(runtime, NOTES, {"anchor.md": text("Anchor", body="The velvet anchor.\n" * 30)})
    publish(runtime, ATTIC, {"attic.md": text("Attic", body="Dust, and a heron.\n")})


def citations(runtime: Runtime) -> dict[str, tuple[str, str]]:
    """Every citation of the home → (what it cites, its provenance as JSON)."""
    found = {}
    for base in runtime.catalogue.bases():
        key = str(base.key)
        with closing(sqlite3.connect(runtime.home.path / "catalogue.sqlite")) as connection:
            rows = connection.execute("SELECT item_id, sha FROM revisions WHERE base = ? AND blob IS NOT NULL", (key,))
            pins = rows.fetchall()
        for item, sha in pins:
            read = runtime.library.read(item, OPERATOR, revision=sha, base=key).as_json()
            found[f"{key} {item} {sha}"] = (read["content"], json.dumps(read["provenance"], sort_keys=True))
    return found


def answers(path: Path) -> list[dict[str, Any]]:
    """What the home answers to the queries, in every mode, once it is brought up to date."""
    runtime = opened(path)
    try:
        runtime.indexer.sweep()
        embed_all(runtime)
        return asked(runtime)
    finally:
        runtime.stop()


def asked(runtime: Runtime) -> list[dict[str, Any]]:
    return [
        runtime.library.search(
            SearchRequest.from_json({"query": query, "mode": mode}, runtime.home.settings), OPERATOR
        ).as_json()
        for query in QUERIES
        for mode in ("lexical", "semantic", "hybrid")
    ]


def look(path: Path, *, full: bool = True) -> Inspection:
    return inspect(Home.at(path), is_served=False, full=full)


def faults(inspection: Inspection) -> list[str]:
    """The codes of the faults, each once."""
    return sorted({finding.code for finding in inspection.findings if finding.is_fault})


# Damage

Damage = Callable[[Path], None]


def index_of(home: Path, key: BaseKey) -> Path:
    """The generation that answers."""
    (generation,) = (home / "index" / directory_name(str(key))).iterdir()
    return generation


def cut(path: Path) -> None:
    """Half of it is left."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    """Its middle is something else."""
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 64] = bytes(255 - byte for byte in raw[middle : middle + 64])
    path.write_bytes(raw)


def change_rows(path: Path, *statements: str) -> None:
    """As somebody with SQLite would."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount != 0, statement
        connection.commit()


def garbled_table(path: Path) -> None:
    """A page of the file is noise, the header is whole."""
    raw = bytearray(path.read_bytes())
    for start in range(4096, len(raw), 4096):
        raw[start : start + 256] = b"\xa5" * 256
    path.write_bytes(raw)


def lexical_file(home: Path, key: BaseKey) -> Path:
    """A segment of the lexical index."""
    return max((index_of(home, key) / "lexical").glob("*.seg"), key=lambda path: path.stat().st_size)


def an_object_of(repository: Path) -> Path:
    """A loose blob's or tree's file."""
    return max((repository / "objects").glob("[0-9a-f][0-9a-f]/*"), key=lambda path: path.stat().st_size)


def open_to_all(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IRGRP | stat.S_IROTH)


def without_log(home: Path, key: BaseKey) -> None:
    """The ref of the publication log is gone."""
    repository = Home.at(home).repository(key)
    repository.git.run("update-ref", "-d", PUBLICATION_LOG)
