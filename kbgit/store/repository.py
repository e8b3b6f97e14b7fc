"""One bare repository: refs, trees, histories, blobs, commits. Names of files are bytes; nothing is decoded here."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kbgit.errors import GitFailure
from kbgit.store.git import Git

if TYPE_CHECKING:
    from kbgit.store.objects import Objects

PUBLICATION_LOG = "refs/kbgit/publications"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
NO_OBJECT = "0" * 40
SUBMODULE = "160000"
_FILES = ("100644", "100755")
_LINKS = {"120000": "a symbolic link", SUBMODULE: "a submodule"}
_SHA = re.compile(r"[0-9a-f]{40}")
_LATEST = 2**63 - 1  # a commit may claim any date; this is what Git itself can hold


def is_sha(text: str) -> bool:
    """Whether `text` is a full, lower-case object name."""
    return _SHA.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A leaf of a tree: `mode` is Git's (`100644`, `120000`, `160000` …), `path` from the repository's root."""

    mode: str
    sha: str
    path: bytes

    @property
    def is_file(self) -> bool:
        """Whether it is an ordinary file, executable or not."""
        return self.mode in _FILES

    @property
    def link(self) -> str:
        """`a symbolic link` or `a submodule` where it is one; empty for anything that has its content here."""
        return _LINKS.get(self.mode, "")


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs: `old` is None where it was added, `new` is None where it was removed."""

    path: bytes
    old: TreeEntry | None
    new: TreeEntry | None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit's own words. Times are seconds since the epoch, UTC; `signed` says that a signature is present."""

    sha: str
    parents: tuple[str, ...]
    author: str
    committer: str
    committed_at: int
    message: str
    signed: bool


@dataclass
class Repository:
    """A bare repository at `path`."""

    path: Path
    git: Git
    _objects: Objects | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _last_changes: tuple[tuple[str | None, str], list[Change]] | None = field(default=None, repr=False)

    @classmethod
    def at(cls, path: Path, git: Git | None = None) -> Repository:
        """The repository at `path`, which must exist."""
        if not (path / "HEAD").is_file():
            raise GitFailure(f"{path.name} is not a Git repository")
        return cls(path, git or Git(path))

    @classmethod
    def create(cls, path: Path, *, branch: str = "main") -> Repository:
        """A new, empty bare repository."""
        path.mkdir(parents=True, exist_ok=False)
        Git(path).run("init", "--quiet", "--bare", "--template=", f"--initial-branch={branch}", ".")
        return cls(path, Git(path))

    @contextmanager
    def kept(self) -> Iterator[Repository]:
        """This repository for one piece of work of one thread: questions about objects go to one process, ended with it.

        Worth it where several are asked. What needs no process then is found out without one.
        """
        if self.git.is_kept:
            yield self
            return
        with self.git.kept() as git:
            yield Repository(self.path, git)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set `settings` (`section.key` → value) in the repository's own configuration."""
        for key, value in settings.items():
            self.git.run("config", "--local", key, value)

    # Refs

    def published_branch(self) -> str:
        """The full name of the branch that HEAD names, whether or not it exists yet."""
        target = (self._read("HEAD") or "").strip()
        if not target.startswith("ref: refs/heads/"):
            raise GitFailure(
                f"HEAD of {self.path.name} names no branch; git symbolic-ref HEAD refs/heads/main mends it"
            )
        return target.removeprefix("ref: ")

    def head(self) -> str | None:
        """The commit of the published branch; None while it does not exist."""
        return self.ref(self.published_branch())

    def ref(self, name: str) -> str | None:
        """The object a ref names, read as Git reads it: the loose file, then the packed refs."""
        # Twice, because `git pack-refs` may move a ref from one place to the other between the two looks.
        for _ in range(2):
            loose = self._read(name)
            found = loose.strip() if loose is not None else self._packed_ref(name)
            if is_sha(found):
                return found
        return None

    def _packed_ref(self, name: str) -> str:
        for line in (self._read("packed-refs") or "").split("\n"):  # Python takes more characters for line ends
            sha, _, ref = line.partition(" ")
            if ref == name:
                return sha
        return ""

    def _read(self, name: str) -> str | None:
        """One of Git's own files as text; None where there is none."""
        try:
            return (self.path / name).read_text("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise GitFailure(f"{name} of {self.path.name} cannot be read: {error.strerror or error}") from error

    def refs(self) -> dict[str, str]:
        """Every ref and its object."""
        listing = self.git.run("for-each-ref", "--format=%(objectname) %(refname)").decode("utf-8", "surrogateescape")
        return {name: sha for sha, _, name in (line.partition(" ") for line in listing.split("\n") if line)}

    def move_ref(self, name: str, new: str, old: str | None) -> None:
        """Compare-and-set: from `old` (None: must not exist) to `new`. Raises `GitFailure` when it moved meanwhile."""
        self.git.run("update-ref", name, new, old or NO_OBJECT)

    def name_published_branch(self, ref: str) -> None:
        """Make `ref` the published branch."""
        self.git.run("symbolic-ref", "HEAD", ref)

    # Histories and trees

    def has(self, name: str) -> bool:
        """Whether an object of that name (`<commit>:<path>`, say) is stored."""
        return self.git.fact(name).kind != "missing"

    def has_commit(self, sha: str) -> bool:
        """Whether a commit of that name is stored."""
        return self.commit_of(sha) is not None

    def commit_of(self, sha: str) -> str | None:
        """The commit that an object is or, for a tag, names; None for anything else."""
        return self.git.fact(f"{sha}^{{commit}}").sha or None

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `old` is in the history of `new`."""
        if old in self._parents_at_hand(new) and self.has_commit(old):
            return True
        return self.git.succeeds("merge-base", "--is-ancestor", old, new)

    def history(self, new: str, without: Sequence[str] = ()) -> list[str]:
        """Commits reachable from `new` and from none of `without`, parents before children."""
        if without and self._parents_at_hand(new) == tuple(without):
            return [new]
        hidden = [f"^{sha}" for sha in without]
        return self.git.run("rev-list", "--topo-order", "--reverse", new, *hidden, "--").decode().split()

    def _parents_at_hand(self, sha: str) -> tuple[str, ...]:
        """A commit's parents, where asking for them costs next to nothing. Most steps are from a commit to its child."""
        if not self.git.is_kept:
            return ()
        ((_, kind, content),) = self.git.objects([sha])
        return _parse_commit(sha, content).parents if kind == "commit" else ()

    def commits(self, shas: Iterable[str]) -> Iterator[Commit]:
        """Each commit, parsed."""
        for sha, kind, content in self.git.objects(shas):
            if kind != "commit":
                raise GitFailure(f"{sha} is no commit but {kind}")
            yield _parse_commit(sha, content)

    def tree(self, commit: str) -> list[TreeEntry]:
        """Every leaf of a commit's tree, in Git's order."""
        listing = self.git.run("ls-tree", "-r", "-z", "--full-tree", commit)
        entries = []
        for row in listing.split(b"\0"):
            if row:
                facts, _, path = row.partition(b"\t")
                mode, _, sha = facts.decode().split(" ")
                entries.append(TreeEntry(mode, sha, path))
        return entries

    def changes(self, old: str | None, new: str) -> list[Change]:
        """Paths whose entry differs between two commits; from nothing when `old` is None. No rename detection."""
        step = (old, new)
        if self._last_changes is None or self._last_changes[0] != step:
            raw = self.git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old or EMPTY_TREE, new)
            found = [change for _, changes in _raw_differences(b"-\0" + raw) for change in changes]
            if not self.git.is_kept:
                return found
            # Admission, history and receipt each ask for the same step.
            self._last_changes = (step, found)
        return list(self._last_changes[1])

    def commit_changes(self, shas: Sequence[str]) -> Iterator[tuple[str, list[Change]]]:
        """For each commit, the paths whose entry differs from that in **every** parent (for a root: every path).

        This is Git's combined difference (`git log -c`), and the definition of a revision. `old` of a merge's change is the
        entry in its first parent.
        """
        if len(shas) == 1 and len(parents := self._parents_at_hand(shas[0])) == 1:
            yield shas[0], self.changes(parents[0], shas[0])
            return
        raw = self.git.run(
            "diff-tree",
            *("--stdin", "-r", "-z", "-c", "--root", "--raw", "--no-renames", "--no-abbrev", "--always"),
            stdin="".join(f"{sha}\n" for sha in shas).encode(),
        )
        yield from _raw_differences(raw)

    def difference(self, old: str, new: str, old_path: str, new_path: str) -> str:
        """A unified difference of two blobs, under the names their files had."""
        shown = self.git.run("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--text", old, new)
        text = shown.decode("utf-8", "replace")
        return text.replace(f"a/{old}", f"a/{old_path}").replace(f"b/{new}", f"b/{new_path}")

    # Blobs

    def blobs(self, shas: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """(name, content) of each blob. Raises `GitFailure` for one that is missing."""
        for sha, kind, content in self.git.objects(shas):
            if kind != "blob":
                raise GitFailure(f"{sha} is no blob but {kind}")
            yield sha, content

    def blob(self, sha: str) -> bytes:
        """One blob's content, read in this process or by one that is kept."""
        if self.git.is_kept:
            ((_, content),) = self.blobs([sha])
            return content
        with self._lock:
            if self._objects is None:
                # Here, because dulwich takes longer to load than a hook or a command for all it does.
                from kbgit.store.objects import Objects

                self._objects = Objects(self.path)
            found = self._objects.blob(sha)
        # Where `git gc` may just have replaced the packs, Git has the last word.
        return found if found is not None else next(self.blobs([sha]))[1]

    def close(self) -> None:
        """Release open packs."""
        with self._lock:
            if self._objects is not None:
                self._objects.close()

    # Writing

    def commit_files(
        self,
        files: Mapping[str, bytes | None],
        *,
        parent: str | None,
        message: str,
        author: str,
        when: int | None = None,
    ) -> str:
        """A new commit: the tree of `parent` with `files` replaced (None removes). No ref moves.

        `author`, who also commits, is `Name <address>`; `when` is seconds since the epoch, UTC (default: now). Raises
        `GitFailure`.
        """
        stream = [b"feature done\n", b"commit refs/kbgit/new\n", b"mark :1\n"]
        stamp = f"{when} +0000" if when is not None else "now"
        stream.append(f"author {author} {stamp}\n".encode())
        stream.append(f"committer {author} {stamp}\n".encode())
        text = message.encode()
        stream.append(b"data %d\n%s\n" % (len(text), text))
        if parent:
            stream.append(b"from %s\n" % parent.encode())
        for path, content in files.items():
            quoted = _quoted(path)
            if content is None:
                stream.append(b"D %s\n" % quoted)
            else:
                stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (quoted, len(content), content))
        # The commit is read back through its mark; the scratch ref lives only within the command.
        stream.append(b"get-mark :1\nreset refs/kbgit/new\nfrom %s\n\ndone\n" % NO_OBJECT.encode())
        date_format = "now" if when is None else "raw"
        printed = self.git.run(
            *("fast-import", "--quiet", f"--date-format={date_format}", "--cat-blob-fd=1"), stdin=b"".join(stream)
        )
        return printed.decode().strip()

    def append_to_log(self, message: str, head: str, previous: str | None, when: int) -> str:
        """Add an entry to the publication log: a commit with the empty tree, whose last parent is `head`."""
        # Git has the empty tree whether or not it is stored.
        parents = [argument for sha in (previous, head) if sha for argument in ("-p", sha)]
        identity = {  # with the @, because Git takes a short number for a date of another form
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "kbgit"), ("EMAIL", "kbgit@localhost"), ("DATE", f"@{when} +0000"))
        }
        entry = self.git.run("commit-tree", EMPTY_TREE, *parents, stdin=message.encode(), extra=identity)
        sha = entry.decode().strip()
        self.move_ref(PUBLICATION_LOG, sha, previous)
        return sha

    def log_entries(self, after: str | None = None) -> list[Commit]:
        """The publication log's entries, oldest first; only those after the entry `after` when it is given."""
        last = self.ref(PUBLICATION_LOG)
        if last is None or last == after:
            return []
        if after is not None and self._parents_at_hand(last)[:-1] == (after,):
            return list(self.commits([last]))
        listing = self.git.run("rev-list", "--first-parent", "--parents", last, *([f"^{after}"] if after else []), "--")
        chain = []
        for line in listing.decode().splitlines():
            sha, *parents = line.split()
            chain.append(sha)
            # The first entry's only parent is a published head: there the log ends and ordinary history begins.
            if len(parents) == 1 or after in parents:
                break
        return list(self.commits(chain[::-1]))


def _parse_commit(sha: str, content: bytes) -> Commit:
    head, _, message = content.partition(b"\n\n")
    fields: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\n"):
        if not line.startswith(b" "):  # continuation lines belong to signatures
            key, _, value = line.partition(b" ")
            fields.setdefault(key, []).append(value)
    encoding = fields.get(b"encoding", [b"utf-8"])[0].decode("ascii", "replace")
    committer, seconds = _identity(_decoded(fields.get(b"committer", [b""])[0], encoding))
    author, _ = _identity(_decoded(fields.get(b"author", [b""])[0], encoding))
    parents = tuple(parent.decode("ascii", "replace") for parent in fields.get(b"parent", ()))
    signed = b"gpgsig" in fields or b"gpgsig-sha256" in fields
    return Commit(sha, parents, author, committer, seconds, _decoded(message, encoding).strip("\n"), signed)


def _decoded(raw: bytes, encoding: str) -> str:
    """A commit's words in the encoding that it claims, if that is one and they are in it; else in UTF-8."""
    try:
        text = raw.decode(encoding)
        text.encode()  # some encodings can spell what is no text, a lone surrogate
        return text
    except (LookupError, UnicodeError):
        return raw.decode("utf-8", "replace")


def _identity(text: str) -> tuple[str, int]:
    """`Name <address> seconds zone` → (`Name <address>`, seconds)."""
    match = re.fullmatch(r"(.*>) (-?\d+) [+-]\d+", text)
    return (match[1], max(-_LATEST, min(int(match[2]), _LATEST))) if match else (text, 0)


def _raw_differences(raw: bytes) -> Iterator[tuple[str, list[Change]]]:
    """Parse `diff-tree --raw -z` output with a commit's name (or `-`) before each run of entries."""
    tokens = iter(raw.split(b"\0"))
    sha: str | None = None
    changes: list[Change] = []
    for token in tokens:
        if not token:
            continue
        if not token.startswith(b":"):
            if sha is not None:
                yield sha, changes
            sha, changes = token.decode(), []
            continue
        path = next(tokens)
        colons = len(token) - len(token.lstrip(b":"))
        facts = token[colons:].decode().split(" ")
        modes, shas = facts[: colons + 1], facts[colons + 1 : 2 * colons + 2]
        changes.append(Change(path, _entry(modes[0], shas[0], path), _entry(modes[-1], shas[-1], path)))
    if sha is not None:
        yield sha, changes


def _entry(mode: str, sha: str, path: bytes) -> TreeEntry | None:
    return None if mode == "000000" else TreeEntry(mode, sha, path)


def _quoted(path: str) -> bytes:
    """A path as fast-import reads it: C-style quotes around everything that needs them."""
    text = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'.encode("utf-8", "surrogateescape")
