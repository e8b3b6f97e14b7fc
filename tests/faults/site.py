"""A home that is served by processes that are killed, a driver that writes to it, and what must hold afterwards."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kbgit.access import Principal, Scope
from kbgit.assemble import open_runtime
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.library import SearchRequest
from tests.faults.nursery import Child, Nursery, url_of
from tests.faults.stepping import Control
from tests.web.serving import Answer, Client, WorkTree, git_url, published, until
from tests.writing import Table, tables

NOTES = BaseKey("personal:ada", "notes")
SHELF = BaseKey("personal:ada", "shelf")
MODES = ("lexical", "semantic", "hybrid")
QUERIES = ("heron", "words of change", "shelf", "alpha beta", "bird near water")
SETTLE_SECONDS = 60.0
Answers = list[tuple[str, float]]
_HOOK = '#!/bin/sh\nexec "{python}" -I "{stepping}" "{control}" "$@"\n'


def make_home(path: Path) -> str:
    """A home of ada's with two bases that have published something. Her token."""
    home = Home.create(path)
    accounts = home.accounts()
    accounts.add_user("ada", "test")
    _, token = accounts.add_token("ada", "test", list(Scope), "test")
    accounts.close()
    for key, title in ((NOTES, "Heron"), (SHELF, "Shelf")):
        home.create_repository(key)
        work = work_tree(path.parent / f"first-{key.slug}")
        work.write(
            {f"{n}.md": published(f"{title} {n}", f"alpha beta bird-{n}\n", id=f"{key.slug}-{n}") for n in range(5)}
        )
        work.git("push", "--quiet", str(key.repository_path(home.repositories)), "main")
    return token


def work_tree(path: Path) -> WorkTree:
    """An empty clone on the branch main."""
    path.mkdir()
    work = WorkTree(path)
    work.git("init", "--quiet", "--initial-branch=main")
    return work


class Site:
    """One home, its server if it lives, and everything that its clients were promised."""

    def __init__(self, directory: Path, nursery: Nursery, **settings: object) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "home"
        self.token = make_home(self.path)
        self._nursery = nursery
        self._settings = {"keep_hooks": False, **settings}  # hooks die where they are told to, so they work themselves
        self.control_file = directory / "control"
        self.control = Control(self.control_file)
        self.server: Child | None = None
        self.url = ""
        self.acknowledged: list[str] = []
        self.by_hand: set[str] = set()
        self.erased: list[str] = []
        """Texts of which no byte may be anywhere in the home."""
        self.work = work_tree(directory / "work")
        self.number = 0
        self.said = ""
        """What the last push was told."""
        self._trace_hooks()

    @property
    def home(self) -> Home:
        return Home.at(self.path, {"embedder": "hashing", "watch": "off"})

    @property
    def client(self) -> Client:
        return Client(self.url, self.token)

    def repository(self, key: BaseKey = NOTES) -> Path:
        return key.repository_path(self.path / "repositories")

    def _trace_hooks(self) -> None:
        """Have the hooks run under the tracer: they read the name of their interpreter from a file."""
        real = (self.path / "hooks" / "python").read_text().strip()
        traced = self.directory / "python"
        stepping = Path(__file__).with_name("stepping.py")
        traced.write_text(_HOOK.format(python=real, stepping=stepping, control=self.control_file))
        traced.chmod(0o755)
        (self.path / "hooks" / "python").write_text(f"{traced}\n")

    # The server

    def start(self, *, apart: bool = False) -> bool:
        """Start a server, which writes its index itself or in a process `apart`. Whether it came to answering."""
        self.forget_server()
        what = "serve apart" if apart else "serve"
        self.server = self._nursery.child(self.path, what, self.control_file, **self._settings)
        url = url_of(self.path, self.server)
        self.url = url or ""
        return url is not None

    def run(self, what: str) -> Child:
        """Another process on the home, in which no server may be."""
        return self._nursery.child(self.path, what, self.control_file, **self._settings)

    def forget_server(self) -> None:
        if self.server is not None:
            self.server.kill()
            self.server.close()
            self.server = None

    def stop(self) -> None:
        """End the server as an operator does."""
        if self.server is not None:
            self.server.kill(signal.SIGTERM)
            self.forget_server()

    def kill_everything(self) -> None:
        """SIGKILL to the server and to whatever works on the home, as if the machine had stopped."""
        if self.server is not None:
            self.server.kill()
        for pid in processes_in(self.path):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def is_alive(self) -> bool:
        return self.server is not None and not self.server.has_ended()

    def server_ended(self, seconds: float) -> bool:
        """Whether the server is dead, waiting for that for at most `seconds`."""
        return self.server is None or self.server.has_ended(seconds)

    def repository_of(self, slug: str) -> Path:
        """The repository of one of ada's bases."""
        return self.repository(BaseKey("personal:ada", slug))

    # What clients do. Each answers whether it was acknowledged.

    def ask(self, method: str, path: str, body: object = None) -> Answer | None:
        """A request; None where no answer came."""
        sent = None if body is None else json.dumps(body)
        with suppress(OSError, http.client.HTTPException):
            return self.client.request(method, path, sent, {"Content-Type": "application/json"} if sent else None)
        return None

    def next_commit(self) -> str:
        """A commit on top of what is published, in the work tree."""
        self.number += 1
        number = self.number
        # From the files, as the server may be dead.
        # Whoever kills everything that works on the home kills the reading side of this too, and then it is asked again.
        until(lambda: self.work.git("fetch", "--quiet", str(self.repository()), "main", check=False).code == 0)
        self.work.git("reset", "--quiet", "--hard", "FETCH_HEAD")
        changed = {
            f"{number % 5}.md": published(f"Heron {number}", f"words of change-{number}\n", id=f"notes-{number % 5}")
        }
        if number % 4 == 0:
            changed |= {f"more/{number}.md": published(f"More {number}", f"a bird near water {number}\n")}
        if number % 7 == 0 and (self.work.path / "more").is_dir():
            self.work.git("mv", "more", f"moved-{number}")
        return self.work.write(changed)

    def push_much(self) -> bool:
        """A push that keeps Git busy for a moment."""
        bulk = self.work.path / "bulk"
        bulk.mkdir(exist_ok=True)
        for number in range(60):  # fewer than Git would keep packed
            (bulk / f"{number}.bin").write_bytes(os.urandom(20_000))
        return self.push()

    def push(self, url: str | None = None) -> bool:
        return self.push_commit(self.next_commit(), url)

    def push_commit(self, commit: str, url: str | None = None) -> bool:
        """Push what is committed already."""
        pushed = self.work.git("push", url or git_url(self.url, self.token, "~ada/notes.git"), "main", check=False)
        self.said = pushed.output
        if pushed.code == 0:
            self.acknowledged.append(commit)
        return pushed.code == 0

    def push_by_path(self) -> bool:
        """A push without a server; its pusher is this machine's operator."""
        done = self.push(str(self.repository()))
        if done:
            self.by_hand.add(self.acknowledged[-1])
        return done

    def move_by_hand(self) -> bool:
        """What no hook sees: somebody moves the branch."""
        commit = self.next_commit()
        self.by_hand.add(commit)
        moved = self.git("fetch", "--quiet", str(self.work.path), "main:main")
        if moved:
            self.acknowledged.append(commit)
        return moved

    def git(self, *arguments: str, key: BaseKey = NOTES) -> bool:
        return WorkTree(self.repository(key)).git(*arguments, check=False).code == 0

    def _written(self, answer: Answer | None) -> bool:
        if answer is None or answer.status >= 300:
            return False
        told = answer.json
        if told.get("knowledge_revision_id"):
            self.acknowledged.append(told["knowledge_revision_id"])
        return True

    def write(self) -> bool:
        """One of the changes that the API offers, in turn."""
        self.number += 1
        number = self.number
        item = "/api/v1/knowledge/item"
        match number % 5:
            case 0:
                body = {"title": f"Made {number}", "content": f"alpha {number}\n", "status": "published"}
                return self._written(self.ask("POST", "/api/v1/bases/~ada/notes/items", body))
            case 1:
                return self.change()
            case 2:
                return self._written(self.ask("POST", f"{item}/archive?id=shelf-2"))
            case 3:
                return self._written(self.ask("POST", f"{item}/restore?id=shelf-2"))
            case _:
                items = self.ask("GET", "/api/v1/bases/~ada/notes/items?limit=200")
                made = [one for one in items.json["items"] if one["locator"].startswith("made")] if items else []
                if not made:
                    return True
                gone = self.ask("DELETE", f"{item}?id={quote(made[0]['knowledge_item_id'])}")
                return gone is not None and gone.status == 200

    def change(self) -> bool:
        """A change of an item, naming the revision it starts from."""
        self.number += 1
        address = "/api/v1/knowledge/item?id=shelf-1"
        read = self.ask("GET", address)
        if read is None or read.status != 200:
            return False
        change = {"content": f"beta {self.number}\n", "expected_revision": read.json["knowledge_revision_id"]}
        return self._written(self.ask("PATCH", address, change))

    def archive_and_restore(self) -> bool:
        """The whole shelf, out of search and back."""
        done = [self.ask("POST", f"/api/v1/bases/~ada/shelf/{verb}") for verb in ("archive", "restore")]
        return all(one is not None and one.status == 200 for one in done)

    def make_doomed_base(self) -> tuple[str, str]:
        """A base with a text of its own, indexed. Its slug, and the text."""
        self.number += 1
        slug, canary = f"doomed-{self.number}", f"canary{self.number}x{os.urandom(6).hex()}"
        made = self.ask("POST", "/api/v1/bases", {"space": "~ada", "slug": slug})
        assert made is not None
        assert made.status == 201, made.body
        body = {"title": canary, "content": f"{canary} in a text\n", "status": "published"}
        assert (told := self.ask("POST", f"/api/v1/bases/~ada/{slug}/items", body)) is not None
        assert told.status == 201, told.body
        self.settle()
        return slug, canary

    def purge(self, slug: str) -> bool:
        done = self.ask("DELETE", f"/api/v1/bases/~ada/{slug}?name={slug}")
        return done is not None and done.status == 200

    def remember(self) -> tuple[str, str]:
        """A record of memory. Its id, and a text that it alone has."""
        self.number += 1
        canary = f"recollection{self.number}x{os.urandom(6).hex()}"
        body = {"space": "personal:ada", "project": "faults", "text": f"{canary} is a word", "kind": "knowledge"}
        kept = self.ask("POST", "/api/v1/memory", body)
        assert kept is not None
        assert kept.status == 201, kept.body
        return str(kept.json["id"]), canary

    def forget(self, record: str) -> bool:
        done = self.ask("DELETE", f"/api/v1/memory/{record}")
        return done is not None and done.status == 200

    # What must hold

    def is_fresh(self) -> bool:
        """What the server says of itself."""
        told = self.ask("GET", "/api/v1/status")
        return told is not None and bool(told.json["fresh"])

    def settle(self) -> None:
        """Wait until everything that was published is indexed and embedded, without alarm."""
        give_up = time.monotonic() + SETTLE_SECONDS
        while True:
            told = self.ask("GET", "/api/v1/status")
            if told is not None and told.json["fresh"] and all(b["freshness"]["published"] for b in told.json["bases"]):
                return
            assert self.is_alive(), f"the server ended: {self.log()}"
            assert time.monotonic() < give_up, f"not fresh: {told and told.json}\n{self.log()}"
            time.sleep(0.004)

    def log(self) -> str:
        file = self.directory / "server.log"
        return file.read_text()[-3000:] if file.exists() else ""

    def differences(self) -> list[str]:
        """What is lost or differs from a rebuild, now that the server has settled; empty if all is well."""
        self.settle()
        found = self._lost()
        answers = self.answers()
        with self._rebuilt() as (expected, rebuilt_answers):
            lived = tables(Home.at(self.path))
            found += [f"catalogue: {name} differs from a rebuild" for name in expected if expected[name] != lived[name]]
            for asked, answer in rebuilt_answers.items():
                if answers[asked] != answer:
                    found.append(f"search {asked}: {answers[asked]} but a rebuild says {answer}")
        return found + self._remains()

    def answers(self) -> dict[tuple[str, str], Answers]:
        """What the server answers in every mode."""
        found = {}
        for query in QUERIES:
            for mode in MODES:
                told = self.ask("POST", "/api/v1/knowledge/search", {"query": query, "mode": mode, "limit": 50})
                assert told is not None, self.log()
                assert told.status == 200, told.body
                found[query, mode] = _compared(told.json)
        return found

    def _lost(self) -> list[str]:
        found = []
        repositories = {key: WorkTree(self.repository(key)) for key in (NOTES, SHELF)}
        reached = {sha for work in repositories.values() for sha in work.git("rev-list", "main").output.split()}
        found += [f"lost: {commit} was acknowledged" for commit in self.acknowledged if commit not in reached]
        with closing(sqlite3.connect(self.path / "catalogue.sqlite")) as catalogue:
            for key, head, by, via in catalogue.execute("SELECT base, head, pushed_by, via FROM publications"):
                if by != "ada" and head not in self.by_hand and not by.startswith("local:"):
                    found.append(f"{key}: {head} was published by {by} via {via}")
            known = {row[0] for row in catalogue.execute("SELECT sha FROM commits")}
        return found + [f"not catalogued: {commit}" for commit in self.acknowledged if commit not in known]

    def _rebuilt(self) -> Rebuilt:
        return Rebuilt(self.path, self.directory / "rebuilt")

    def _remains(self) -> list[str]:
        found = [
            f"of what was erased, {canary} is in {path}"
            for canary in self.erased
            for path in holding(self.path, canary)
        ]
        return found + [f"residue: {path}" for path in self.residue()]

    def residue(self) -> list[Path]:
        """What only a crash leaves, and what should have gone by now."""
        give_up = time.monotonic() + 10
        while left := list(_residue(self.path)):
            if time.monotonic() > give_up:
                return left
            time.sleep(0.05)
        return []

    def close(self) -> None:
        self.forget_server()
        for pid in processes_in(self.path):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Rebuilt:
    """A home with the same repositories, in which everything else was derived anew."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self._path, self._scratch = path, scratch

    def __enter__(self) -> tuple[dict[str, Table], dict[tuple[str, str], Answers]]:
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        # Git replaces its files and never changes one in place, so links do.
        shutil.copytree(self._path / "repositories", self._scratch / "repositories", copy_function=os.link)
        for name in ("kbgit.yaml", "hooks"):
            (shutil.copytree if name == "hooks" else shutil.copy)(self._path / name, self._scratch / name)
        home = Home.at(self._scratch, {"embedder": "hashing", "watch": "off"})
        runtime = open_runtime(home)
        try:
            runtime.indexer.sweep()
            while runtime.indexer.embed_some():
                pass
            answers = {}
            for query in QUERIES:
                for mode in MODES:
                    request = SearchRequest.from_json({"query": query, "mode": mode, "limit": 50}, home.settings)
                    found = runtime.library.search(request, Principal("ada", operator=True))
                    answers[query, mode] = _compared(found.as_json())
            return tables(home), answers
        finally:
            runtime.stop()

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._scratch)


def _compared(answer: dict[str, Any]) -> Answers:
    return [(result["reference"], round(result["score"], 4)) for result in answer["results"]]


def processes_in(home: Path) -> list[int]:
    """Processes that work on the home: Git's, hooks, and what a server keeps beside it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_inside = (process / "cwd").readlink().is_relative_to(home)
            is_told = str(home).encode() in (process / "cmdline").read_bytes().split(b"\0")
            if (is_inside or is_told) and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def holding(home: Path, text: str) -> Iterator[Path]:
    """The files of a home that hold a text, as it is or in a Git object."""
    for path in home.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                raw = path.read_bytes()
                if "objects" in path.parts and len(path.parent.name) == 2:
                    with suppress(zlib.error):
                        raw = zlib.decompress(raw)
                if text.encode() in raw:
                    yield path


def _residue(home: Path) -> Iterator[Path]:
    for pattern in (
        # What is half-written below `objects` stays for hours, because a push may take that long: `kbgit.store.litter`.
        *("repositories/*/*.git/*.lock", "repositories/*/*.git/refs/**/*.lock"),
        *("index/dropped-*", "index/**/*.partial", "deleting/*/*", "memory/**/.*", ".rebuilding-*"),
    ):
        yield from home.glob(pattern)
    for base in (home / "index").iterdir():
        generations = [path for path in base.iterdir() if path.name.isdecimal()]
        yield from sorted(generations)[:-1]
