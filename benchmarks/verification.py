"""How long verifying takes: 10,000 citations of random lines in random revisions of a base with 20,000 commits.

    python -m benchmarks.verification [--commits 20000] [--items 2000] [--citations 10000]

Items are documents of about 50 lines in six sections; each further commit edits one to three of an item's lines. Prints
seconds; the target is 10.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from kbgit.access import Principal
from kbgit.assemble import open_runtime
from kbgit.base import BaseKey
from kbgit.citation import Citation
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer
from kbgit.library.verifying import Verifying

WORDS = "deploy rollback server queue token answer review limit restart backup alert person database minute".split()


def line(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(4, 12)))


def document(chance: random.Random, title: str) -> list[str]:
    lines = [f"# {title}"]
    for section in range(6):
        lines += ["", f"## Section {section}", "", *(line(chance) for _ in range(chance.randint(3, 8)))]
    return lines


def edit(chance: random.Random, lines: list[str]) -> None:
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(1, len(lines))
        kind = chance.random()
        if kind < 0.5:
            lines[place] = line(chance)
        elif kind < 0.8:
            lines.insert(place, line(chance))
        else:
            del lines[place]


def generate(directory: Path, commits: int, items: int, chance: random.Random) -> None:
    """Write a repository: every item once, then edits of random items."""
    contents = [document(chance, f"Item {number}") for number in range(items)]
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", directory], check=True)
    command = ["git", "-C", str(directory), "fast-import", "--quiet", "--done"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdin is not None
        for number in range(1, commits + 1):
            item = number - 1 if number <= items else chance.randrange(items)
            if number > items:
                edit(chance, contents[item])
            body = "".join(f"{text}\n" for text in contents[item])
            raw = f"---\nid: item-{item}\ntitle: Item {item}\nstatus: published\n---\n{body}"
            process.stdin.write(f"commit refs/heads/main\nmark :{number}\n")
            process.stdin.write(f"committer Writer <writer@example.org> {1_700_000_000 + number} +0000\ndata 0\n")
            process.stdin.write(f"from :{number - 1}\n" if number > 1 else "")
            process.stdin.write(f"M 100644 inline {item % 50}/{item}.md\ndata {len(raw)}\n{raw}\n")
        process.stdin.write("done\n")
    if process.returncode:
        raise SystemExit("git fast-import failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--citations", type=int, default=10_000)
    arguments = parser.parse_args()
    chance = random.Random(7)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source.git")
        generate(source, arguments.commits, arguments.items, chance)
        home = Home.at(Home.create(Path(scratch, "home")).path, {"embedder": "none", "watch": "off"})
        key = BaseKey("personal:ada", "documents")
        catalogue = home.catalogue()
        Importer(home, catalogue, "ada").from_repository(key, str(source), BaseOptions())
        catalogue.close()
        runtime = open_runtime(home)
        try:
            revisions = [
                (f"item-{item}", revision.sha)
                for item in range(arguments.items)
                for revision in runtime.catalogue.revisions(str(key), f"item-{item}")
            ]
            asked = []
            for item_id, sha in chance.choices(revisions, k=arguments.citations):
                start = chance.randint(1, 30)
                asked.append(str(Citation(item_id, sha, (start, start + chance.randint(0, 8)))))
            verifying = Verifying(runtime.catalogue, runtime.indexer)
            caller = Principal("ada", operator=True)
            for what, differences in (("with differences", True), ("states only", False)):
                start_time = time.perf_counter()
                verdicts = verifying.verify(asked, caller, differences=differences)
                seconds = time.perf_counter() - start_time
                counts = ", ".join(f"{count:,} {state}" for state, count in Counter(v.state for v in verdicts).items())
                print(f"{len(asked):>8,} citations, {len(revisions):,} revisions, {what}: {seconds:.2f} s ({counts})")
        finally:
            runtime.stop()


if __name__ == "__main__":
    main()
