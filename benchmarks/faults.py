"""SIGKILL in every step, many times, and damage to every derived file: what is lost, and what differs from a rebuild.

    python -m benchmarks.faults [--kills 500] [--seed 1] [--step NAME ...] [--no-damage]

After each kill the server is started again, and when it has caught up every acknowledged push must be in the published
branch, its pusher known; the catalogue and the answers of every mode must equal those of a home rebuilt from Git; and
nothing may be left of what was erased or of what only a crash leaves. Ends with 1 if anything was lost or differed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.damage import VARIANTS, Damaged
from tests.faults.kills import STEPS, Kills, start_again
from tests.faults.nursery import Nursery
from tests.faults.site import Site

_KILLS_A_HOME = 2 * len(STEPS)  # a fresh one now and then, because each check derives all of it anew


@dataclass
class Row:
    """What became of the kills in one step."""

    kills: int = 0
    late: int = 0
    lost: int = 0
    differences: int = 0
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)


def killed(kills: int, seed: int, steps: Sequence[str], nursery: Nursery, scratch: Path) -> tuple[dict[str, Row], int]:
    """Row by step, of `steps` in turn, and how many writes were acknowledged."""
    chance = random.Random(seed)
    rows: defaultdict[str, Row] = defaultdict(Row)
    acknowledged, lines = 0, dict[str, int]()
    site: Site | None = None
    for number in range(kills):
        if number % _KILLS_A_HOME == 0:
            if site is not None:
                acknowledged += len(site.acknowledged)
                site.close()
            site = Site(scratch / f"home-{number}", nursery)
            killer = Kills(site, chance, lines)
        assert site is not None
        step = steps[number % len(steps)]
        row = rows[step]
        started, missed = time.perf_counter(), killer.missed
        try:
            killer.kill_in(step)
            start_again(site)
            found = site.differences()
        except AssertionError as problem:
            found = [f"{step}: {problem}"]
        row.kills += 1
        if (number + 1) % 50 == 0:
            lost = sum(one.lost for one in rows.values())
            differences = sum(one.differences for one in rows.values())
            print(f"after {number + 1} kills: {lost} lost, {differences} differences", file=sys.stderr, flush=True)
        row.late += killer.missed - missed
        row.lost += sum(one.startswith("lost") for one in found)
        row.differences += sum(not one.startswith("lost") for one in found)
        row.seconds += time.perf_counter() - started
        row.said += found
        if found:  # what is broken once would be counted again and again
            print(f"  {step}: {found[0][:1000]}", flush=True)
            acknowledged += len(site.acknowledged)
            site.close()
            site = Site(scratch / f"home-{number}-again", nursery)
            killer = Kills(site, chance, lines)
    if site is not None:
        acknowledged += len(site.acknowledged)
        site.close()
    return rows, acknowledged


def damaged(nursery: Nursery, scratch: Path) -> tuple[Counter[str], list[str]]:
    """How many damages of each variant were survived, and what went wrong."""
    site = Site(scratch / "damage", nursery)
    survived: Counter[str] = Counter()
    wrong = []
    try:
        bed = Damaged(site)
        for file in bed.files:
            for variant in VARIANTS:
                problem = bed.outcome(file, variant)
                if problem:
                    wrong.append(f"{file}, {variant}: {problem}")
                else:
                    survived[variant] += 1
    finally:
        site.close()
    return survived, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step", nargs="+", choices=STEPS, help="only these, in turn")
    parser.add_argument("--no-damage", action="store_true")
    arguments = parser.parse_args()
    nursery = Nursery()
    with tempfile.TemporaryDirectory() as scratch:
        rows, acknowledged = killed(arguments.kills, arguments.seed, arguments.step or STEPS, nursery, Path(scratch))
        print("| step | kills | after the step | lost | differences | seconds |\n|---|---|---|---|---|---|")
        for step in STEPS:
            if row := rows.get(step):
                print(f"| {step} | {row.kills} | {row.late} | {row.lost} | {row.differences} | {row.seconds:.0f} |")
        total = [sum(getattr(row, name) for row in rows.values()) for name in ("kills", "late", "lost", "differences")]
        print("| **all** | " + " | ".join(map(str, total)) + f" | {sum(row.seconds for row in rows.values()):.0f} |")
        print(f"{acknowledged} acknowledged writes")
        wrong: list[str] = []
        if not arguments.no_damage:
            survived, wrong = damaged(nursery, Path(scratch))
            print("damages survived: " + ", ".join(f"{variant} {count}" for variant, count in survived.items()))
            for line in wrong:
                print(f"  {line}")
    nursery.close()
    raise SystemExit(bool(wrong or total[2] or total[3]))


if __name__ == "__main__":
    main()
