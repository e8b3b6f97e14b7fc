"""Many documents at once: all end, the server stays responsive, memory stays bounded, and a SIGKILL loses none.

    python -m benchmarks.documents [--documents 200] [--clients 8] [--workers 1] [--embedder hashing] [--kill]

Documents of all four kinds are made by the usual Python writers and uploaded by several clients at once to a server in a
process of its own, while another client searches. With `--kill` the server is killed in the middle and started again;
clients send again what was not acknowledged. Ends with an error if a target is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import io
import random
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from urllib.parse import urlencode, urlsplit

import docx
import openpyxl
import pptx
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from benchmarks.serving import Client, children, make_home, resident, server
from kbgit.access import Principal, personal_space
from kbgit.assemble import open_runtime
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import BaseOptions, digest_of
from kbgit.revision import Via

KEY = BaseKey(personal_space("ada"), "library")
PAGES = 1_000
WORDS = (
    "harbour crane anchor ledger invoice tide lantern rope signal berth cargo pilot manifest quay storm engine compass deck"
).split()
_PAUSE = 0.05  # seconds between two searches: a person or an agent, not a load test
_IDLE_SEARCHES = 100


# Documents


def text(chance: random.Random, words: int) -> str:
    """A sentence of that many words."""
    return " ".join(chance.choice(WORDS) for _ in range(words)).capitalize() + "."


def pdf(chance: random.Random) -> bytes:
    """Twelve pages of lines."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4)
    for page in range(12):
        canvas.setFont("Helvetica-Bold", 16)
        canvas.drawString(60, 780, f"Chapter {page + 1}")
        canvas.setFont("Helvetica", 10)
        for row in range(45):
            canvas.drawString(60, 750 - 15 * row, text(chance, 12))
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def word(chance: random.Random) -> bytes:
    """Forty sections with paragraphs, lists and a table each."""
    document = docx.Document()
    for section in range(40):
        document.add_heading(f"Section {section + 1}", 1)
        document.add_paragraph(text(chance, 60))
        document.add_paragraph(text(chance, 8), style="List Bullet")
        table = document.add_table(4, 3)
        for cell in (cell for row in table.rows for cell in row.cells):
            cell.text = text(chance, 3)
    return saved(document.save)


def slides(chance: random.Random) -> bytes:
    """Thirty slides with notes."""
    presentation = pptx.Presentation()
    for number in range(30):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        for place, words in zip(slide.placeholders, (f"Slide {number + 1}", text(chance, 30)), strict=False):
            place.text = words
        notes = slide.notes_slide.notes_text_frame
        if notes is not None:
            notes.text = text(chance, 20)
    return saved(presentation.save)


def sheet(chance: random.Random) -> bytes:
    """Three sheets of 150 rows."""
    book = openpyxl.Workbook()
    for name in ("North", "South", "West"):
        page = book.create_sheet(name)
        for row in range(150):
            page.append([row, text(chance, 3), chance.random() * 1_000, chance.choice(WORDS)])
    return saved(book.save)


def saved(save: Callable[[io.BytesIO], object]) -> bytes:
    """What a writer writes."""
    out = io.BytesIO()
    save(out)
    return out.getvalue()


WRITERS: dict[str, Callable[[random.Random], bytes]] = {".pdf": pdf, ".docx": word, ".pptx": slides, ".xlsx": sheet}


def documents(count: int) -> dict[str, bytes]:
    """Name → bytes; each has its own content."""
    made = {}
    for number in range(count):
        suffix = list(WRITERS)[number % len(WRITERS)]
        made[f"report-{number}{suffix}"] = WRITERS[suffix](random.Random(number))
    return made


# The server and who uses it


def fill(home: Path) -> None:
    """A base of published pages, for the searches to find something in."""
    runtime = open_runtime(Home.at(home, {"embedder": "hashing", "watch": "off"}))
    try:
        ada = Principal("ada", operator=True)
        runtime.bases.create(KEY, ada, BaseOptions(name="Library"))
        chance = random.Random(0)
        files: dict[str, bytes | None] = {
            f"pages/{number}.md": f"---\ntitle: {text(chance, 4)}\nstatus: published\n---\n{text(chance, 300)}\n".encode()
            for number in range(PAGES)
        }
        runtime.writing.commit(KEY, ada, lambda *_: files, "Fill", Via.IMPORT)
        runtime.indexer.sweep()
    finally:
        runtime.stop()


@dataclass
class Watch:
    """Resident memory of the server and of its workers, sampled; in bytes."""

    process: subprocess.Popen[bytes]
    server: int = 0
    worker: int = 0
    workers: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Sample until `end`."""
        while not self._ended.wait(0.05):
            sizes = [resident(child) for child in children(self.process.pid) if _is_worker(child)]
            self.server = max(self.server, resident(self.process.pid))
            self.worker = max([self.worker, *sizes])
            self.workers = max(self.workers, sum(sizes))

    def end(self) -> None:
        """Stop sampling."""
        self._ended.set()


def _is_worker(pid: int) -> bool:
    with suppress(OSError):
        return b"documents.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def searched(client: Client, until: Callable[[int], bool]) -> list[float]:
    """Milliseconds of each of a stream of searches."""
    chance = random.Random(1)
    found: list[float] = []
    while not until(len(found)):
        started = time.perf_counter()
        client.search(" ".join(chance.sample(WORDS, 3)), mode="hybrid")
        found.append((time.perf_counter() - started) * 1000)
        time.sleep(_PAUSE)
    return found


def upload(url: str, token: str, name: str, content: bytes) -> tuple[int, bytes]:
    """POST one document: status and answer."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        address = f"/api/v1/bases/~ada/{KEY.slug}/documents?{urlencode({'name': name})}"
        connection.request("POST", address, content, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@dataclass
class Clients:
    """Several clients that upload what is in the queue, and put back what was not acknowledged."""

    url: str
    token: str
    queue: Queue[tuple[str, bytes]]
    refused: list[str] = field(default_factory=list)

    def run(self, count: int) -> None:
        """Until the queue is empty, or the server is gone."""
        threads = [threading.Thread(target=self._one) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self) -> None:
        while True:
            try:
                name, content = self.queue.get_nowait()
            except Empty:
                return
            try:
                status, answer = upload(self.url, self.token, name, content)
            except (OSError, http.client.HTTPException):
                self.queue.put((name, content))
                return
            if status != 202:
                self.refused.append(f"{name}: {status} {answer[:200]!r}")


def listed(client: Client) -> list[dict[str, Any]]:
    """Every document."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        query = urlencode({"limit": 200, **({"cursor": cursor} if cursor else {})})
        page: dict[str, Any] = client.ask(f"/api/v1/documents?{query}")
        rows += page["documents"]
        cursor = page["cursor"]
    return rows


def until_final(client: Client, count: int) -> list[dict[str, Any]]:
    """The documents, when nothing more happens to any of them."""
    while True:
        rows = listed(client)
        if len(rows) >= count and all(row["state"] in ("ready", "failed", "cancelled") for row in rows):
            return rows
        time.sleep(0.2)


def kill_in_the_middle(process: subprocess.Popen[bytes], client: Client, count: int) -> int:
    """SIGKILL the server when half of the documents are done; gives how many were."""
    while True:
        done = sum(row["state"] in ("ready", "failed") for row in listed(client))
        if done >= count // 2:
            process.kill()
            process.wait()
            return done
        time.sleep(0.02)


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(home: Path, made: dict[str, bytes], asked: argparse.Namespace) -> None:
    """Upload everything and print what came of it."""
    token = (home / "owner-token").read_text().strip()
    queue: Queue[tuple[str, bytes]] = Queue()
    for row in made.items():
        queue.put(row)
    settings = {"embedder": asked.embedder, "document_workers": str(asked.workers)}
    failures = []
    if asked.kill:
        with server(home, **settings) as (process, url):
            clients = Clients(url, token, queue)
            uploading = threading.Thread(target=clients.run, args=(asked.clients,))
            uploading.start()
            done = kill_in_the_middle(process, Client(url, token), len(made))
            uploading.join()
            failures += clients.refused
            print(f"killed with {done} of {len(made)} done, {queue.qsize()} not acknowledged")
    with server(home, **settings) as (process, url):
        searcher, watch = Client(url, token), Watch(process)
        if not asked.kill:
            searched(searcher, lambda count: count >= _IDLE_SEARCHES)  # to warm up
        idle = searched(searcher, lambda count: count >= _IDLE_SEARCHES) if not asked.kill else []
        watching = threading.Thread(target=watch.run)
        watching.start()
        started, over = time.monotonic(), threading.Event()
        busy: list[float] = []
        searching = threading.Thread(target=lambda: busy.extend(searched(searcher, lambda _: over.is_set())))
        searching.start()
        clients = Clients(url, token, queue)
        clients.run(asked.clients)
        uploaded = time.monotonic() - started
        rows = until_final(Client(url, token), len(made))
        seconds = time.monotonic() - started
        over.set()
        watch.end()
        searching.join()
        watching.join()
    failures += clients.refused
    states = Counter(f"{row['state']}{': ' + row['reason'] if row['reason'] else ''}" for row in rows)
    print(f"{len(made)} documents, {sum(map(len, made.values())) / 1e6:.1f} MB, {asked.workers} workers")
    print(f"uploaded in {uploaded:.1f} s, all final after {seconds:.1f} s ({len(made) / seconds:.1f} a second)")
    print(f"states: {', '.join(f'{count} {state}' for state, count in states.items())}")
    if idle and busy:
        before, during = percentile(idle, 0.95), percentile(busy, 0.95)
        print(
            f"search p95: idle {before:.1f} ms, during {during:.1f} ms, {during / before:.2f} times (target: under 2)"
        )
        if during > 2 * before:
            failures.append("searches took more than twice their time")
    print(
        f"resident memory: server {watch.server / 1e6:.0f} MB, a worker {watch.worker / 1e6:.0f} MB,"
        f" all workers {watch.workers / 1e6:.0f} MB"
    )
    failures += [
        f"{row['name']}: {row['state']} {row['reason']} {row['detail']}" for row in rows if row["state"] != "ready"
    ]
    failures += check(home, made)
    if failures:
        raise SystemExit("\n".join(failures))
    print("every document is one item with one revision")


def check(home: Path, made: dict[str, bytes]) -> list[str]:
    """What is wrong: a document that is lost or there twice, files that are left."""
    runtime = open_runtime(Home.at(home, {"embedder": "none", "watch": "off"}))
    try:
        items = runtime.catalogue.items(str(KEY), prefix="report-")
    finally:
        runtime.stop()
    found = Counter(digest_of(item.metadata) for item in items)
    wanted = {hashlib.sha256(content).hexdigest(): name for name, content in made.items()}
    wrong = [f"{name} is {found[digest]} items" for digest, name in wanted.items() if found[digest] != 1]
    wrong += [f"{item.path} has {item.number} revisions" for item in items if item.number != 1]
    left = [path for part in ("incoming", "originals", "work") for path in (home / "documents" / part).iterdir()]
    return wrong + [f"{path} is left" for path in left]


def main() -> None:
    """Parse, make, measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--embedder", default="hashing")
    parser.add_argument("--kill", action="store_true", help="SIGKILL the server in the middle")
    asked = parser.parse_args()
    made = documents(asked.documents)
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        make_home(home)
        fill(home)
        measure(home, made, asked)


if __name__ == "__main__":
    main()
