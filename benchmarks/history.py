"""How long histories cost: first catalogue of 20,000 commits over 2,000 items, and a push on top of them.

    python -m benchmarks.history [--commits 20000] [--items 2000]

Prints seconds; targets are those of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer
from kbgit.item import ItemStatus


def generate(directory: Path, commits: int, items: int, seed: int = 7) -> None:
    """Write a repository of `commits` commits: first every item once, then random edits, a side branch now and then."""
    chance = random.Random(seed)
    stream: list[str] = []
    last = {"main": 0, "side": 0}
    left = 0  # commits that the side branch still gets
    for number in range(1, commits + 1):
        path = number - 1 if number <= items else chance.randrange(items)
        text = (
            f"---\nid: item-{path}\ntitle: Item {path}\nstatus: published\n---\n# Item {path}\n\nRevision {number}.\n"
        )
        if left == 0 and number > items and chance.random() < 0.02:
            left, last["side"] = 6, last["main"]
        on_side = left > 1 and chance.random() < 0.5
        branch = "side" if on_side else "main"
        message = f"Change item {path}"
        stream.append(f"commit refs/heads/{branch}\nmark :{number}\n")
        stream.append(f"committer Writer <writer@example.org> {1_700_000_000 + number * 60} +0000\n")
        stream.append(f"data {len(message)}\n{message}\n")
        if last[branch]:
            stream.append(f"from :{last[branch]}\n")
        if left == 1 and last["side"] != last["main"]:
            stream.append(f"merge :{last['side']}\n")
        left = max(0, left - 1)
        stream.append(f"M 100644 inline items/{path % 50}/{path}.md\ndata {len(text)}\n{text}\n")
        last[branch] = number
    stream.append("done\n")
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", directory], check=True)
    subprocess.run(
        ["git", "-C", directory, "fast-import", "--quiet", "--done"], input="".join(stream).encode(), check=True
    )


def push_times(home: Home, key: BaseKey, work: Path, pushes: int) -> list[float]:
    """Seconds of each of `pushes` one-item pushes over a local path, hooks included."""
    subprocess.run(["git", "clone", "--quiet", key.repository_path(home.repositories), work], check=True)
    item = next(work.glob("items/*/*.md"))
    taken = []
    for number in range(pushes):
        item.write_text(item.read_text() + f"\nPush {number}.\n")
        subprocess.run(["git", "-C", work, "commit", "--quiet", "--all", "--message", f"Push {number}"], check=True)
        start = time.perf_counter()
        subprocess.run(["git", "-C", work, "push", "--quiet", "origin", "main"], check=True, capture_output=True)
        taken.append(time.perf_counter() - start)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source.git")
        generate(source, arguments.commits, arguments.items)
        home = Home.create(Path(scratch, "home"))
        catalogue = home.catalogue()
        key = BaseKey("personal:ada", "history")
        start = time.perf_counter()
        Importer(home, catalogue, "ada").from_repository(
            key, str(source), BaseOptions(default_status=ItemStatus.PUBLISHED)
        )
        first = time.perf_counter() - start
        taken = push_times(home, key, Path(scratch, "work"), 10)
        count = catalogue.commit_count(str(key))
        catalogue.close()
    print(f"{'commits':>10} {'first catalogue, s':>20} {'later push: median, s':>22} {'worst, s':>10}")
    print(f"{count:>10,} {first:>20.1f} {statistics.median(taken):>22.2f} {max(taken):>10.2f}")


if __name__ == "__main__":
    main()
