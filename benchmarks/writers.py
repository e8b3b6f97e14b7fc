"""Many writers at once on one base: every acknowledged write is in history exactly once, every loser is told.

    python -m benchmarks.writers [--writers 32] [--seconds 60]

Half of the writers change items through the API, naming the revision they start from; half push. Afterwards the history
is compared with what was acknowledged, and the catalogue with a rebuild from Git.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from benchmarks.serving import Client, make_home, server
from kbgit.access import personal_space
from kbgit.base import BaseKey
from kbgit.catalogue import TABLES
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer
from kbgit.publish import rebuild

KEY = BaseKey(personal_space("ada"), "busy")
ITEMS = 20


@dataclass
class Tally:
    """What writers were told. A mark is a text that one change alone brings."""

    acknowledged: list[str] = field(default_factory=list)
    refused: int = 0
    errors: list[str] = field(default_factory=list)


def by_api(name: int, url: str, token: str, until: float, tally: Tally) -> None:
    """Read an item, change it, naming the revision that was read."""
    client, chance, number = Client(url, token), random.Random(name), 0
    while time.monotonic() < until:
        item = f"item-{chance.randrange(ITEMS)}"
        number += 1
        mark = f"api-{name}-{number}"
        read = client.ask(f"/api/v1/knowledge/item?id={quote(item)}")
        body = {"content": f"{mark}\n", "expected_revision": read["knowledge_revision_id"], "message": mark}
        status, answer = client.request("PATCH", f"/api/v1/knowledge/item?id={quote(item)}", body)
        if status == 200:
            tally.acknowledged.append(mark)
        elif status == 409:
            tally.refused += 1
        else:
            tally.errors.append(f"{status} {answer}")


def by_push(name: int, url: str, token: str, work: Path, until: float, tally: Tally) -> None:
    """Fetch, change, push; a rejected push is given up."""
    git = ["git", "-C", str(work), "-c", f"user.name=w{name}", "-c", "user.email=w@example.org"]
    address = url.replace("://", f"://x:{token}@") + f"/git/~ada/{KEY.slug}.git"
    subprocess.run(["git", "clone", "--quiet", address, work], check=True, capture_output=True)
    chance, number = random.Random(1000 + name), 0
    while time.monotonic() < until:
        number += 1
        mark = f"push-{name}-{number}"
        subprocess.run([*git, "fetch", "--quiet", "origin"], check=True, capture_output=True)
        subprocess.run([*git, "reset", "--quiet", "--hard", "origin/main"], check=True, capture_output=True)
        item = chance.randrange(ITEMS)
        (work / f"{item}.md").write_text(document(item, mark))
        subprocess.run([*git, "commit", "--quiet", "--all", "--message", mark], check=True, capture_output=True)
        pushed = subprocess.run([*git, "push", "--quiet", "origin", "main"], check=False, capture_output=True)
        if pushed.returncode == 0:
            tally.acknowledged.append(mark)
        else:
            tally.refused += 1


def document(item: int, mark: str) -> str:
    """An item's file."""
    return f"---\nid: item-{item}\ntitle: Item {item}\nstatus: published\n---\n{mark}\n"


def rows(home: Home) -> list[list[tuple[object, ...]]]:
    """The catalogue's tables."""
    connection = sqlite3.connect(home.path / "catalogue.sqlite")
    found = [sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in TABLES]
    connection.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path, source = Path(scratch, "home"), Path(scratch, "source")
        make_home(path)
        home = Home.at(path)
        source.mkdir()
        for item in range(ITEMS):
            (source / f"{item}.md").write_text(document(item, "first"))
        catalogue = home.catalogue()
        Importer(home, catalogue, "ada").from_directory(KEY, source, BaseOptions())
        token = home.owner_token_file.read_text().strip()
        tallies = [Tally() for _ in range(arguments.writers)]
        with server(path, embedder="none") as (_, url):
            until = time.monotonic() + arguments.seconds
            writers = []
            for name, tally in enumerate(tallies):
                if name % 2:
                    target, more = by_push, (name, url, token, Path(scratch, f"work-{name}"), until, tally)
                    writers.append(threading.Thread(target=target, args=more))
                else:
                    writers.append(threading.Thread(target=by_api, args=(name, url, token, until, tally)))
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
        repository = home.repository(KEY)
        messages = repository.git.run("log", "--format=%s", "main").decode().split()
        acknowledged = [mark for tally in tallies for mark in tally.acknowledged]
        lost = [mark for mark in acknowledged if messages.count(mark) != 1]
        unannounced = set(messages) - set(acknowledged) - {"Import", "source"}
        lived = rows(home)
        rebuild(repository, catalogue, catalogue.base(str(KEY)), home.limits)
        is_equal = rows(home) == lived
        catalogue.close()
    by_kind = {kind: sum(mark.startswith(kind) for mark in acknowledged) for kind in ("api", "push")}
    print(
        f"{arguments.writers} writers, {arguments.seconds:.0f} s: {by_kind['api']} writes by API and {by_kind['push']}"
        f" by push acknowledged, {sum(tally.refused for tally in tallies)} refused"
    )
    print(
        f"lost or doubled: {len(lost)}; in history without acknowledgement: {len(unannounced)};"
        f" errors: {sum(len(tally.errors) for tally in tallies)}; catalogue equals a rebuild: {is_equal}"
    )
    for tally in tallies:
        for error in tally.errors[:1]:
            print(f"  {error[:300]}")


if __name__ == "__main__":
    main()
