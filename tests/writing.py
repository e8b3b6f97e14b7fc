"""What the tests of the truth layer share: writers with a clone, hand-made trees, the catalogue's tables to compare."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from kbgit.home import Home
from kbgit.store.git import clean_environment

IDENTITY = {
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
       (("NAME", "Ada Writer"), ("EMAIL", "ada@example.org"))},
}  # fmt: skip
WRITER_ENVIRONMENT = clean_environment(os.environ) | IDENTITY


def text(title: str = "A page", *, status: str = "published", body: str = "Words.\n", **fields: str) -> str:
    """A Markdown file with front matter."""
    lines = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"---\ntitle: {title}\nstatus: {status}\n{lines}---\n{body}"


@dataclass(frozen=True)
class Done:
    """A finished command: its exit code, and what it said on both streams."""

    code: int
    said: str

    @property
    def ok(self) -> bool:
        return self.code == 0


@dataclass
class Writer:
    """Somebody with a clone in `path` and the right to push to `remote`."""

    path: Path
    remote: str
    environment: dict[str, str] = field(default_factory=lambda: dict(WRITER_ENVIRONMENT))

    def run(self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> Done:
        """`git <arguments>` in the clone, whatever comes of it."""
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments],
            input=stdin,
            capture_output=True,
            env={**self.environment, **(environment or {})},
            timeout=60,
            check=False,
        )
        return Done(done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace"))

    def git(self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> str:
        """`git <arguments>` in the clone, which must succeed; its output, stripped."""
        done = self.run(*arguments, stdin=stdin, environment=environment)
        assert done.ok, f"git {' '.join(arguments)}: {done.said}"
        return done.said.strip()

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        """Write files into the clone; None removes one."""
        for name, content in files.items():
            target = self.path / name
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, files: Mapping[str, str | bytes | None] | None = None, message: str = "Change") -> str:
        """Commit everything, after writing `files`. The commit's name."""
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def push(self, *refspecs: str, environment: Mapping[str, str] | None = None) -> Done:
        """Push `refspecs` (default: the present branch); options such as `--atomic` may be among them."""
        options = [word for word in refspecs if word.startswith("-")]
        names = [word for word in refspecs if not word.startswith("-")] or ["HEAD"]
        return self.run("push", "--porcelain", *options, self.remote, *names, environment=environment)

    def publish(self, files: Mapping[str, str | bytes | None], message: str = "Change") -> str:
        """Commit and push files, which must be admitted. The commit's name."""
        commit = self.commit(files, message)
        done = self.push()
        assert done.ok, done.said
        return commit

    # Objects that no work tree can make

    def blob(self, content: str | bytes) -> str:
        """Store a blob. Its name."""
        raw = content if isinstance(content, bytes) else content.encode()
        return self.git("hash-object", "-w", "--stdin", stdin=raw)

    def tree(self, entries: Iterable[tuple[str, str | bytes, str]]) -> str:
        """Store a tree of (mode, name, object), each name one level deep and byte for byte as given. Its name."""
        kinds = {"040000": "tree", "160000": "commit"}
        rows = [
            f"{mode} {kinds.get(mode, 'blob')} {sha}\t".encode() + (name if isinstance(name, bytes) else name.encode())
            for mode, name, sha in entries
        ]
        return self.git("mktree", "-z", "--missing", stdin=b"".join(row + b"\0" for row in rows))

    def commit_tree(self, tree: str, *parents: str, message: str = "By hand") -> str:
        """A commit of a tree. Its name; no branch moves."""
        return self.git("commit-tree", tree, *(word for parent in parents for word in ("-p", parent)), "-m", message)

    def commit_entries(self, entries: Iterable[tuple[str, str | bytes, str]], *parents: str) -> str:
        """A commit whose tree has the entries of the first parent and `entries` (mode, name, object) beside them."""
        listing = self.git("ls-tree", parents[0]).splitlines() if parents else []
        kept = [(row.split()[0], row.split("\t", 1)[1], row.split()[2]) for row in listing]
        return self.commit_tree(self.tree([*kept, *entries]), *parents)


def clone(remote: Path | str, path: Path) -> Writer:
    """A new clone of `remote`, on the branch main if it is empty."""
    subprocess.run(["git", "clone", "--quiet", str(remote), str(path)], env=WRITER_ENVIRONMENT, check=True,
                   stderr=subprocess.DEVNULL)  # fmt: skip
    writer = Writer(path, str(remote))
    if writer.run("rev-parse", "HEAD").code:
        writer.git("symbolic-ref", "HEAD", "refs/heads/main")
    return writer


TABLES = ("bases", "publications", "commits", "revisions", "items", "item_fields", "problems")
Table = list[tuple[object, ...]]


def tables(home: Home, names: Sequence[str] = TABLES) -> dict[str, Table]:
    """Every row of a home's catalogue, sorted, so that two states can be compared."""
    with closing(sqlite3.connect(home.path / "catalogue.sqlite")) as connection:
        return {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}


def loose_objects(repository: Path) -> int:
    """How many objects lie in a repository, packed or not; a quarantine that was left behind counts too."""
    return sum(1 for path in (repository / "objects").rglob("*") if path.is_file())
