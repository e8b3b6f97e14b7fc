"""Mixed load on one server: searches, reads, pushes and API writes at once, every answer checked.

    python -m benchmarks.load [--minutes 5] [--pushes 200] [--writes 60] [--searches 20] [--items 1000]

Two teams with two bases each; readers of one team search and read at a steady rate, first alone (idle), then while writers
push (`--pushes` a minute in all) and write by API (`--writes` a minute). An answer is wrong if it has an item twice, an
item of the other team, or a revision that had been superseded by an acknowledged one before the question was asked.
Beside it, the same searches against SQLite FTS5 on the same texts.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import quote

from benchmarks.fts5 import fts5_times
from benchmarks.generated import Author
from benchmarks.serving import Client, make_home, memory_mb, results_of, server
from kbgit.access import Role, Scope
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer

TEAMS = ("alpha", "beta")
BASES = [BaseKey(f"team:{team}", f"{team}-{number}") for team in TEAMS for number in (1, 2)]
PUSHERS = 4
MOST_ATTEMPTS = 20  # of one push, while others are faster
MODESTLY = ["nice", "-n", "19"]
"""Writers' own Git works on their machines, not on the server's: here it takes what is left over."""
MODES = ("hybrid", "lexical", "semantic", "rrf")


@dataclass
class Ledger:
    """Which revisions of an item there were, in order, and when each was acknowledged."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    revisions: dict[str, list[str]] = field(default_factory=dict)
    acknowledged: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    def begin(self, item: str, revision: str) -> int:
        """A revision that may become visible from now on; gives its place in the item's order."""
        with self.lock:
            order = self.revisions.setdefault(item, [])
            order.append(revision)
            return len(order)

    def acknowledge(self, item: str, place: int) -> None:
        """The writer was told that it is published."""
        with self.lock:
            self.acknowledged.setdefault(item, []).append((time.monotonic(), place))

    def is_stale(self, item: str, revision: str, asked: float) -> bool:
        """Whether a later revision than this one was acknowledged before `asked`. One not in the list is the first."""
        with self.lock:
            order = self.revisions.get(item, [])
            place = order.index(revision) + 1 if revision in order else 0
            return any(when < asked and later > place for when, later in self.acknowledged.get(item, ()))


@dataclass
class Tally:
    """What was measured of one kind of request. Times are in milliseconds."""

    times: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: int = 0
    seen: list[tuple[str, str, float]] = field(default_factory=list)
    """(item, revision, when it was asked for): judged at the end, when every revision has its place in the ledger."""

    def judge(self, ledger: Ledger) -> None:
        """Count what was stale as wrong."""
        self.wrong += [
            f"stale: {item}@{revision}" for item, revision, asked in self.seen if ledger.is_stale(item, revision, asked)
        ]


@dataclass
class World:
    """The home, who may ask, and what was written so far."""

    home: Home
    url: str
    owner: str
    readers: dict[str, str]
    queries: list[str]
    items: int
    ledger: Ledger = field(default_factory=Ledger)


def paced(rate: float, until: float, seed: int = 0) -> Iterator[float]:
    """Moments that come by chance (Poisson), `rate` a second on average, as long as there is time.

    By chance, because clients on a common beat would only measure how they queue behind one another.
    """
    chance = random.Random(seed)
    due = time.monotonic() + chance.expovariate(rate)
    while due < until:
        if (now := time.monotonic()) < due:
            time.sleep(due - now)
        due = max(
            due + chance.expovariate(rate), time.monotonic() - 1 / rate
        )  # a long delay is not made up for by a burst
        yield time.monotonic()


def search(world: World, team: str, seed: int, rate: float, until: float, tally: Tally) -> None:
    """Search as a reader of `team`, checking each answer."""
    client, chance = Client(world.url, world.readers[team]), random.Random(seed)
    for _ in paced(rate, until, seed):
        fields = {"mode": chance.choice(MODES), "limit": 10}
        asked = time.monotonic()
        status, answer = client.request(
            "POST", "/api/v1/knowledge/search", {"query": chance.choice(world.queries), **fields}
        )
        tally.times.append((time.monotonic() - asked) * 1000)
        if status != 200:
            tally.errors.append(f"{status} {answer}")
            continue
        results = results_of(answer)
        found = Counter(str(result["knowledge_item_id"]) for result in results)
        tally.wrong += [f"twice: {item}" for item, times in found.items() if times > 1]
        tally.wrong += [f"of another team: {r['base']}" for r in results if r["space"] != f"team:{team}"]
        tally.seen += [(str(r["knowledge_item_id"]), str(r["knowledge_revision_id"]), asked) for r in results]


def read(world: World, team: str, seed: int, rate: float, until: float, tally: Tally) -> None:
    """Read current items, checking that none is superseded; and items of the other team, which do not exist."""
    client, chance = Client(world.url, world.readers[team]), random.Random(seed)
    for turn, _ in enumerate(paced(rate, until, 100 + seed)):
        base = chance.choice([key for key in BASES if (key.space == f"team:{team}") == (turn % 5 != 0)])
        item = f"{base.slug}-{chance.randrange(world.items)}"
        asked = time.monotonic()
        status, answer = client.request("GET", f"/api/v1/knowledge/item?id={quote(item)}")
        tally.times.append((time.monotonic() - asked) * 1000)
        if base.space != f"team:{team}":
            if status != 404:
                tally.wrong.append(f"another team's item: {status}")
        elif status != 200:
            tally.errors.append(f"{status} {answer}")
        else:
            tally.seen.append((item, str(answer["knowledge_revision_id"]), asked))


def push(world: World, work: Path, key: BaseKey, number: int, rate: float, until: float, tally: Tally) -> None:
    """Push one changed item at a time to one base; a pusher has items of its own."""
    git = [*MODESTLY, "git", "-C", str(work), "-c", "user.name=w", "-c", "user.email=w@example.org", "-c", "gc.auto=0"]
    address = world.url.replace("://", f"://x:{world.owner}@") + f"/git/{key.space.partition(':')[2]}/{key.slug}.git"
    _run([*MODESTLY, "git", "clone", "--quiet", address, str(work)])
    author, chance = Author(number), random.Random(number)
    for turn, _ in enumerate(paced(rate, until, 200 + number)):
        place = chance.randrange(number, world.items, 2 * PUSHERS)
        item = f"{key.slug}-{place}"
        (work / f"{place}.md").write_text(author.item(item, mark=f"push{number}x{turn}"))
        _run([*git, "commit", "--quiet", "--all", "--message", f"push {turn}"])
        for _attempt in range(MOST_ATTEMPTS):
            revision = _run([*git, "rev-parse", "HEAD"]).strip()
            at = world.ledger.begin(item, revision)
            started = time.monotonic()
            pushed = subprocess.run([*git, "push", "--quiet", "origin", "main"], check=False, capture_output=True)
            if pushed.returncode == 0:
                world.ledger.acknowledge(item, at)
                tally.times.append((time.monotonic() - started) * 1000)
                break
            tally.refused += 1  # somebody else's change came first: on top of it, once more
            _run([*git, "pull", "--quiet", "--rebase", "origin", "main"])
        else:
            tally.errors.append(pushed.stderr.decode()[-200:])


def write(world: World, key: BaseKey, number: int, rate: float, until: float, tally: Tally) -> None:
    """Change items through the API, each from the revision that was read."""
    client, author, chance = Client(world.url, world.owner), Author(number), random.Random(number)
    for turn, _ in enumerate(paced(rate, until, 300 + number)):
        item = f"{key.slug}-{chance.randrange(number, world.items, 2 * PUSHERS)}"
        address = f"/api/v1/knowledge/item?id={quote(item)}"
        before = client.ask(address)
        body = {
            "content": f"{author.text(60)} api{number}x{turn}\n",
            "expected_revision": before["knowledge_revision_id"],
        }
        started = time.monotonic()
        status, answer = client.request("PATCH", address, body)
        tally.times.append((time.monotonic() - started) * 1000)
        if status == 200:
            # Only now is its name known; answers that have it already are judged at the end.
            world.ledger.acknowledge(item, world.ledger.begin(item, str(answer["knowledge_revision_id"])))
        elif status == 409:
            tally.refused += 1
        else:
            tally.errors.append(f"{status} {answer}")


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:6])}: {done.stderr}")
    return done.stdout


def make(path: Path, scratch: Path, items: int) -> tuple[str, dict[str, str]]:
    """A home with two teams; gives the owner's token and one reader's for each team."""
    make_home(path)
    home = Home.at(path)
    accounts, readers = home.accounts(), {}
    for team in TEAMS:
        accounts.add_team(team, "ada", "benchmark")
        accounts.add_user(f"vera-{team}", "benchmark")
        accounts.set_member(f"team:{team}", f"vera-{team}", Role.VIEWER, "benchmark")
        _, readers[team] = accounts.add_token(f"vera-{team}", "load", [Scope.KNOWLEDGE_READ], "benchmark")
    accounts.close()
    catalogue, author = home.catalogue(), Author()
    for key in BASES:
        source = scratch / key.slug
        source.mkdir()
        for number in range(items):
            (source / f"{number}.md").write_text(author.item(f"{key.slug}-{number}", mark="first"))
        Importer(home, catalogue, "ada").from_directory(key, source, BaseOptions())
    catalogue.close()
    return home.owner_token_file.read_text().strip(), readers


def quantile(times: Sequence[float], share: float) -> float:
    """The value below which `share` of the times lie."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def report(name: str, tally: Tally, seconds: float) -> None:
    """A line of the table."""
    print(
        f"{name:<28}{len(tally.times):>9}{len(tally.times) / seconds:>9.1f}{statistics.median(tally.times or [0]):>9.1f}"
        f"{quantile(tally.times, 0.95):>9.1f}{max(tally.times or [0]):>9.1f}{tally.refused:>9}{len(tally.errors):>9}"
        f"{len(tally.wrong):>9}",
        flush=True,
    )
    for line in (tally.errors + tally.wrong)[:3]:
        print(f"    {line[:300]}")


def read_and_search(world: World, until: float, rate: float) -> list[Tally]:
    """Search and read at `rate`; the tallies of searches and of reads."""
    tallies = [Tally(), Tally()]
    run(
        threading.Thread(target=kind, args=(world, team, seed, rate / 4, until, tally))
        for kind, tally in ((search, tallies[0]), (read, tallies[1]))
        for seed, team in enumerate(TEAMS * 2)
    )
    return tallies


def writers(world: World, scratch: Path, until: float, arguments: argparse.Namespace, told: Connection) -> None:
    """Push and write by API; tells the tallies of both, and the ledger."""
    pushes, writes = Tally(), Tally()
    threads = []
    for number, key in zip(range(PUSHERS), itertools.cycle(BASES), strict=False):
        rate = arguments.pushes / 60 / PUSHERS
        more = (world, scratch / f"work-{number}", key, number, rate, until, pushes)
        threads.append(threading.Thread(target=push, args=more))
        more_writes = (world, key, PUSHERS + number, arguments.writes / 60 / PUSHERS, until, writes)
        threads.append(threading.Thread(target=write, args=more_writes))
    run(threads)
    told.send((pushes, writes, world.ledger.revisions, world.ledger.acknowledged))


def run(threads: Iterable[threading.Thread]) -> None:
    """Start all of them, and wait until they have ended."""
    started = list(threads)
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--pushes", type=float, default=200.0, help="a minute")
    parser.add_argument("--writes", type=float, default=60.0, help="by API, a minute")
    parser.add_argument("--searches", type=float, default=20.0, help="a second; as many reads")
    parser.add_argument("--items", type=int, default=1000, help="in each of four bases")
    parser.add_argument("--embedder", default="hashing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        owner, readers = make(scratch / "home", scratch, arguments.items)
        queries = list(Author(99).queries(500))
        home = Home.at(scratch / "home")
        with server(home.path, embedder=arguments.embedder) as (process, url):
            world = World(home, url, owner, readers, queries, arguments.items)
            wait_until_indexed(Client(url, owner))
            read_and_search(world, time.monotonic() + 5, arguments.searches)  # to warm up
            started_with, _ = memory_mb(process.pid)
            idle_seconds, busy_seconds = min(60.0, arguments.minutes * 30), arguments.minutes * 60
            heads = ("count", "a second", "median", "95 %", "worst", "refused", "errors", "wrong")
            print(f"{'':<28}" + "".join(f"{head:>9}" for head in heads))
            idle = read_and_search(world, time.monotonic() + idle_seconds, arguments.searches)
            report("searches, idle", idle[0], idle_seconds)
            report("reads, idle", idle[1], idle_seconds)
            until = time.monotonic() + busy_seconds
            # In a process of their own: readers must not wait for writers in here, where one thread runs at a time.
            told, telling = Pipe(duplex=False)
            writing = get_context("fork").Process(target=writers, args=(world, scratch, until, arguments, telling))
            writing.start()
            busy = read_and_search(world, until, arguments.searches)
            pushes, writes, world.ledger.revisions, world.ledger.acknowledged = told.recv()
            writing.join()
            for tally in busy:
                tally.judge(world.ledger)
            report("searches, under load", busy[0], busy_seconds)
            report("reads, under load", busy[1], busy_seconds)
            report("pushes", pushes, busy_seconds)
            report("writes by API", writes, busy_seconds)
            ratio = quantile(busy[0].times, 0.95) / quantile(idle[0].times, 0.95)
            print(f"95 % of searches under load / idle: {ratio:.2f} (target: under 2)")
            ended_with, beside = memory_mb(process.pid)
            print(
                f"memory of the server: {started_with:.0f} MB before, {ended_with:.0f} MB after; beside it {beside:.0f} MB"
            )
        catalogue = home.catalogue()
        rows = [(key, item.blob) for key in BASES for item in catalogue.items(str(key), statuses=["published"])]
        texts = [home.repository(key).blob(blob).decode() for key, blob in rows if key.space == "team:alpha"]
        catalogue.close()
        theirs = fts5_times(texts, queries)
        print(f"SQLite FTS5 in process, the same queries: median {statistics.median(theirs):.1f} ms,", end=" ")
        print(f"95 % {quantile(theirs, 0.95):.1f} ms (no HTTP, no rights, no freshness, words only)")
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"processor time of server and Git together: {children.ru_utime + children.ru_stime:.0f} s")


def wait_until_indexed(client: Client) -> None:
    """Until every base is indexed and has its vectors."""
    while True:
        listed = client.ask("/api/v1/bases")["bases"]
        assert isinstance(listed, list)
        states = [base["freshness"] for base in listed]
        if all(s["published"] == s["indexed"] and s["vectors"] == s["passages"] for s in states):
            return
        time.sleep(0.5)


if __name__ == "__main__":
    main()
