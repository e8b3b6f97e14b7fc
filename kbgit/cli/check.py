"""`kbgit check`: what admission would say of a work tree, before anything is pushed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from kbgit import names
from kbgit.admission import Assessment, Limits, Problem, Rights, Verdict, assess, judge
from kbgit.base import slug_from
from kbgit.cli import terminal
from kbgit.cli.errors import NO
from kbgit.cli.options import json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.cli.work_tree import ProposedTree, WorkTree
from kbgit.errors import InvalidName, InvalidRequest


@click.command(short_help="Check files as a push would be checked.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--staged", is_flag=True, help="Check what is staged for the next commit, as the pre-commit hook does.")
@json_option
@pass_session
def check(session: Session, files: Sequence[Path], staged: bool, as_json: bool) -> None:
    """Check FILES (files or directories; default: all) of a base as a push of them would be checked.

    Run it in a clone of a base, or in any directory of Markdown files. Each problem is a line `path:line: what; how to
    mend it`. Exit code 1 says that a push would be refused. In a base with lenient admission it would be accepted
    without the bad items, which are listed all the same.

    \b
    Examples:
      kbgit check
      kbgit check deploy/production.md
      kbgit check --staged
    """
    if staged and files:
        raise click.UsageError("--staged checks what is staged; leave out FILES")
    work_tree = WorkTree.around(Path.cwd(), session.environment)
    if staged and work_tree.git is None:
        raise InvalidRequest(f"{work_tree.root} is in no Git work tree, so nothing is staged")
    chosen = [_within(work_tree.root, file) for file in files]
    with work_tree.proposed(staged=staged) as proposed:
        assessment, verdict = _judged(proposed, work_tree.root)
        paths = _paths(proposed, assessment, staged=staged)
    shown = {path for path in paths if not chosen or any(_is_below(path, one) for one in chosen)}
    refusals, tolerated = (_of(shown, problems) for problems in (verdict.refusals, verdict.tolerated))
    for file in chosen:
        if file and (work_tree.root / file).is_file():
            _say_if_no_item(file, assessment, paths)
    item_count = sum(assessment.rules.is_item(path) for path in shown)
    found = {
        "type": "check",
        "root": str(work_tree.root),
        "items": item_count,
        "refused": bool(refusals),
        "problems": [_as_json(problem) for problem in (*refusals, *tolerated)],
    }
    answer(found, _lines(refusals, tolerated, None if staged else item_count), as_json=as_json)
    if refusals:
        raise click.exceptions.Exit(NO)


def _judged(proposed: ProposedTree, root: Path) -> tuple[Assessment, Verdict]:
    """The gate itself, over the whole tree: two files that claim one id may be far apart."""
    try:
        slug = slug_from(root.name)
    except InvalidName:
        slug = "base"
    limits = Limits()
    assessment = assess(proposed.repository, None, proposed.tree, slug, lambda _: {}, limits)
    return assessment, judge(proposed.repository, None, proposed.tree, assessment, slug, Rights(), limits)


def _paths(proposed: ProposedTree, assessment: Assessment, *, staged: bool) -> set[str]:
    """The paths to speak about: of what is staged, those that differ from the last commit."""
    changes = proposed.repository.changes(proposed.before, proposed.tree) if staged else assessment.changes
    return {names.shown(change.path) for change in changes if change.new is not None}


def _within(root: Path, file: Path) -> str:
    """A path as the base sees it; empty for the root. Raises `InvalidRequest` outside it."""
    # The directory's links are followed, as Git did for the root; the file's own are not, for a link is no item.
    place = Path.cwd() / file
    place = place.resolve() if place.is_dir() else place.parent.resolve() / place.name
    if not place.is_relative_to(root.resolve()):
        raise InvalidRequest(f"{file} is outside {root}; run this in the work tree that it is in")
    found = place.relative_to(root.resolve()).as_posix()
    return "" if found == "." else names.shown(found)


def _is_below(path: str, chosen: str) -> bool:
    return not chosen or path == chosen or path.startswith(f"{chosen}/")


def _of(paths: set[str], problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if names.shown(problem.path) in paths]


def _say_if_no_item(path: str, assessment: Assessment, paths: set[str]) -> None:
    """A file that was named but is no item passes every check, which its writer may take for approval."""
    why = assessment.rules.why_no_item(path) if path in paths else "ignored by Git"
    if why:
        terminal.note(f"{path} is no item: {why}")


def _as_json(problem: Problem) -> dict[str, object]:
    return {
        "path": problem.path,
        "line": problem.line,
        "code": problem.code,
        "what": problem.what,
        "mend": problem.mend,
    }


def _lines(refusals: Sequence[Problem], tolerated: Sequence[Problem], item_count: int | None) -> Iterator[str]:
    yield from map(str, refusals)
    yield from (f"{problem} (the item would be left out)" for problem in tolerated)
    if not refusals and not tolerated and item_count is not None:
        yield f"{item_count:,} {'item' if item_count == 1 else 'items'}, no problem"
