"""The main job, end to end, on the sample bases: write, push, be checked, publish, search, cite.

    python -m kbgit.demo [--keep]

Everything happens through the surfaces that people and agents use: the `kbgit` command, `git` over HTTP, and the search
endpoint. Each step says what it expects, and the demo fails when that does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbgit.home import SERVER_FILE
from kbgit.store.git import clean_environment

BASES = ("engineering-runbooks", "product-specifications", "handbook")
_READY_SECONDS = 120.0
_ASKPASS = '#!/bin/sh\ncase "$1" in Username*) echo ada ;; *) cat "$KBGIT_DEMO_TOKEN_FILE" ;; esac\n'


class Demonstration:
    """One run in one scratch directory."""

    def __init__(self, scratch: Path) -> None:
        self.home = scratch / "home"
        self.work = scratch / "work"
        self._scratch = scratch
        self._server: subprocess.Popen[bytes] | None = None
        self._url = ""
        self._token = ""
        self._timings: list[tuple[str, float]] = []
        self._environment = clean_environment(os.environ) | {
            "KBGIT_HOME": str(self.home),
            "KBGIT_PORT": "0",
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
            "GIT_ASKPASS": str(scratch / "askpass"),
            "KBGIT_DEMO_TOKEN_FILE": str(self.home / "owner-token"),
        }

    # Steps

    def run(self) -> None:
        """Every step, in order. Raises `SystemExit` for one that does not do what it promises."""
        self.prepare()
        first = self.search("lexical", "kubectl logs --previous")["results"][0]
        self.write_and_push()
        self.push_something_broken()
        self.ask_in_all_modes()
        self.show_what_cannot_be_found()
        self.show_that_citations_last(first)
        self.show_timings()

    def prepare(self) -> None:
        """Home, sample bases, server."""
        heading("A home, and three bases")
        askpass = self._scratch / "askpass"
        askpass.write_text(_ASKPASS)
        askpass.chmod(stat.S_IRWXU)
        self._command("kbgit", "init", str(self.home), "--owner", "ada", shown=1)
        for name in BASES:
            self._command("kbgit", "base", "import", name, "--from", str(sample_bases() / name), shown=1)
        self._token = (self.home / "owner-token").read_text().strip()
        heading("The server: search, Git and indexing")
        self._start_server()
        self._await("every passage has its vector", self._is_fresh)

    def write_and_push(self) -> None:
        """A writer clones over HTTP, edits, pushes; the hooks answer."""
        heading("A writer clones a base over HTTP, edits an item and pushes")
        self._command("git", "clone", "--quiet", f"{self._url}/git/~ada/engineering-runbooks.git", str(self.work))
        item = self.work / "platform" / "kubernetes-crash-loops.md"
        text = item.read_text()
        expect("kubectl logs --previous" in text, "the crash loop runbook names the command")
        item.write_text(text.replace("kubectl logs --previous", "kubectl logs --previous --timestamps", 1))
        new = self.work / "platform" / "heron-cache.md"
        new.write_text(
            "---\nid: item_runbook_heron\ntitle: Heron cache warm-up\nstatus: published\ntags: [cache]\n---\n"
            "# Heron cache warm-up\n\nAfter a deployment, run `heron warm --region all` before traffic returns.\n"
        )
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", "Show timestamps; say how to warm the Heron cache")
        start = time.perf_counter()
        self._git("push", "origin", "main", shown=8)
        self._timings.append(("git push, hooks included", time.perf_counter() - start))
        head = self._git("rev-parse", "HEAD").strip()
        start = time.perf_counter()
        found = self.search("lexical", "heron warm", wait_for=head)
        self._timings.append(("from the push's return to found", time.perf_counter() - start))
        expect(ids(found)[:1] == ["item_runbook_heron"], "the new item is found as soon as wait_for returns")
        self._await("the new passages have their vectors", self._is_fresh)

    def push_something_broken(self) -> None:
        """A push with problems changes nothing and says everything at once."""
        heading("A push with problems is refused, and says all of them at once")
        (self.work / "release.md").write_text("---\ntitle: Release: the plan\nstatus: published\n---\nText\n")
        shutil.copy(self.work / "platform" / "heron-cache.md", self.work / "copy.md")
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", "Two mistakes")
        refused = self._git("push", "origin", "main", shown=8, expected=1)
        expect("release.md:2" in refused and "item_runbook_heron" in refused, "the refusal names both files and lines")
        self._git("reset", "--quiet", "--hard", "origin/main")

    def ask_in_all_modes(self) -> None:
        """The endpoint in four modes and four languages."""
        heading("One endpoint, four modes, any language")
        questions = (
            ("hybrid", "a container crashes again and again after it starts", "item_runbook_crash_loop"),
            ("rrf", "ERR-1234", None),
            ("semantic", "Wie viele Urlaubstage habe ich?", "handbook_de_urlaub"),
            ("lexical", "年假", "handbook_zh_annual_leave"),
            ("hybrid", "combien de jours de congés par an", "handbook_fr_conges"),
        )
        for mode, query, expected in questions:
            start = time.perf_counter()
            found = self.search(mode, query, limit=3)
            taken = time.perf_counter() - start
            self._timings.append((f"{mode} search", taken))
            print(f"\n  {mode:<9}{query}   ({taken * 1000:.0f} ms)")
            for result in found["results"]:
                print(f"    {result['score']:.2f}  {result['title']}\n          {dim(result['citation'])}")
            expect(bool(found["results"]), f"{query!r} finds something")
            if expected:
                expect(ids(found)[0] == expected, f"{query!r} finds {expected} first")

    def show_what_cannot_be_found(self) -> None:
        """Drafts, archived items and replaced text are in no answer."""
        heading("What is not published cannot be found")
        for phrase, why in (
            ("velvet anchor", "a draft"),
            ("harbour clock ran backwards", "archived"),
            ("punch-card parade", "deprecated, which is archived"),
        ):
            found = self.search("lexical", f'"{phrase}"')
            print(f"  {phrase!r} is {why}: {len(found['results'])} results")
            expect(not found["results"], f"{phrase!r} is not found")

    def show_that_citations_last(self, before: Mapping[str, Any]) -> None:
        """The old revision still resolves byte for byte, though the new one is current."""
        heading("Citations last")
        old = self._get("/api/v1/knowledge/resolve", reference=before["reference"])
        path = before["locator"]
        in_git = self._git("show", f"{before['knowledge_revision_id']}:{path}")
        body = in_git.split("---\n", 2)[2]
        print(f"  {before['reference']}\n  resolves to revision {old['revision_number']}, current: {old['is_current']}")
        expect(old["content"] == body, "the old citation resolves byte for byte")
        expect(not old["is_current"], "and is known to be superseded")
        now = self.search("lexical", '"kubectl logs --previous --timestamps"')
        expect(before["knowledge_item_id"] in ids(now), "the new text is found")
        stale = [r for r in now["results"] if r["knowledge_revision_id"] == before["knowledge_revision_id"]]
        expect(not stale, "the old revision is in no answer")
        self._command("kbgit", "history", before["knowledge_item_id"], shown=4)

    def show_timings(self) -> None:
        """What took how long."""
        heading("Timings")
        for what, seconds in self._timings:
            print(f"  {what:<36}{seconds * 1000:8.0f} ms")

    # Server

    def _start_server(self) -> None:
        log = open(self._scratch / "server.log", "wb")  # noqa: SIM115 - the server's, for as long as it runs
        command = [sys.executable, "-m", "kbgit.cli", "serve"]
        start = time.perf_counter()
        self._server = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, start_new_session=True)
        self._await("the server answers", self._answers)
        self._timings.append(("server start", time.perf_counter() - start))
        print(f"  {self._url}")

    def _answers(self) -> bool:
        assert self._server is not None
        if self._server.poll() is not None:
            raise SystemExit(f"the server ended:\n{(self._scratch / 'server.log').read_text()[-4000:]}")
        try:
            self._url = json.loads((self.home / SERVER_FILE).read_text())["url"]
            with urllib.request.urlopen(f"{self._url}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, ValueError, KeyError):
            return False

    def _is_fresh(self) -> bool:
        status = self._get("/api/v1/status")
        done = sum(base["freshness"]["vectors"] for base in status["bases"])
        total = sum(base["freshness"]["passages"] for base in status["bases"])
        if sys.stdout.isatty():
            print(f"\r  {done} of {total} passages have their vector ", end="", flush=True)
        return bool(status["fresh"])

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        give_up = time.monotonic() + _READY_SECONDS
        start = time.perf_counter()
        while not condition():
            if time.monotonic() > give_up:
                raise SystemExit(f"after {_READY_SECONDS:g} s it still does not hold that {what}")
            time.sleep(0.05)
        print(f"\r  {what} ({time.perf_counter() - start:.1f} s){' ' * 30}")

    def stop(self) -> None:
        """End the server, if it runs."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGTERM)
            self._server.wait(timeout=30)

    def say_how_to_go_on(self) -> None:
        """For --keep: the server goes on after this program."""
        heading("The server goes on")
        pid = self._server.pid if self._server else ""
        print(f"  URL     {self._url}\n  token   in {self.home / 'owner-token'}\n  stop    kill {pid}")
        print(f'  search  KBGIT_HOME={self.home} {Path(sys.executable).parent / "kbgit"} search "disk full"')

    # Talking to it

    def search(self, mode: str, query: str, **fields: object) -> dict[str, Any]:
        """The endpoint's answer."""
        return self._request("/api/v1/knowledge/search", {"query": query, "mode": mode, **fields})

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        query = urllib.parse.urlencode(parameters)
        return self._request(f"{path}?{query}" if query else path, None)

    def _request(self, path: str, body: Mapping[str, object] | None) -> dict[str, Any]:
        request = urllib.request.Request(
            self._url + path,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _git(self, *arguments: str, shown: int = 0, expected: int = 0) -> str:
        return self._command("git", "-C", str(self.work), *arguments, shown=shown, expected=expected)

    def _command(self, *command: str, shown: int = 0, expected: int = 0) -> str:
        """Run a command, showing it and the first `shown` lines of what it prints."""
        real = [sys.executable, "-m", "kbgit.cli", *command[1:]] if command[0] == "kbgit" else list(command)
        if shown:
            print(f"\n  $ {' '.join(shown_command(word) for word in command if word not in ('-C', str(self.work)))}")
        done = subprocess.run(real, env=self._environment, capture_output=True, check=False, cwd=self._scratch)
        printed = (done.stdout + done.stderr).decode("utf-8", "replace")
        lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
        for line in lines[:shown]:
            print(f"    {dim(line[:150])}")
        if len(lines) > shown > 0:
            print(f"    {dim(f'… {len(lines) - shown} more lines')}")
        expect(
            (done.returncode != 0) == (expected != 0), f"{' '.join(command)} ends as expected:\n{printed}", quiet=True
        )
        return printed if expected else done.stdout.decode("utf-8", "replace")


def sample_bases() -> Path:
    """The sample bases: in a checkout's `bases/`, or as shipped in a wheel."""
    shipped = Path(__file__).resolve().parent / "_bases"
    return shipped if shipped.is_dir() else shipped.parent.parent / "bases"


def shown_command(word: str) -> str:
    """A word of a command as a person would type it."""
    return f"'{word}'" if " " in word else word


def ids(answer: Mapping[str, Any]) -> list[str]:
    """The ids of the items found, best first."""
    return [result["knowledge_item_id"] for result in answer["results"]]


def expect(holds: bool, what: str, *, quiet: bool = False) -> None:
    """Say that something holds; end the demo if it does not."""
    if not holds:
        raise SystemExit(f"\nThe demo failed: it does not hold that {what}")
    if not quiet:
        print(f"  {_styled('✓', '32')} {what}")


def heading(text: str) -> None:
    """A step's title."""
    print(f"\n{_styled(text, '1')}")


def dim(text: str) -> str:
    """Less important text."""
    return _styled(text, "2")


def _styled(text: str, code: str) -> str:
    is_plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if is_plain else f"\x1b[{code}m{text}\x1b[0m"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="kbgit.demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the server running and say how to go on")
    keep = parser.parse_args(arguments).keep
    start = time.perf_counter()
    scratch = Path(tempfile.mkdtemp(prefix="kbgit-demo-"))
    demonstration = Demonstration(scratch)
    finished = False
    try:
        demonstration.run()
        finished = True
    finally:
        if not (keep and finished):
            demonstration.stop()
            shutil.rmtree(scratch, ignore_errors=True)
    if keep:
        demonstration.say_how_to_go_on()
    else:
        heading("How to go on")
        print("  make demo KEEP=1          the same, and the server stays for you to try")
        print("  kbgit init ~/knowledge    a home of your own; then `kbgit serve`, and see the README")
    print(f"\nDone in {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
