"""What is not of one base: accounts, memory, documents, hooks, modes, and what crashes left behind."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from kbgit.access import PERSONAL, Role, Scope
from kbgit.base import BaseKey
from kbgit.errors import HomeProblem
from kbgit.home import SERVER_FILE, Home
from kbgit.index.embedded import directory_name
from kbgit.memory.files import ProjectFiles, projects_in, spaces_in
from kbgit.rebuilding import SCRATCH
from kbgit.upkeep.finding import Finding
from kbgit.upkeep.indexes import check_vector_cache
from kbgit.upkeep.reading import damage_of, read_only

ACCOUNTS = "accounts.sqlite"
DOCUMENTS = "documents"
QUEUE = f"{DOCUMENTS}/queue.sqlite"
_PRIVATE = ("owner-token", SERVER_FILE, "sessions.sqlite", "index", "memory", DOCUMENTS, "orders")
_LEFTOVERS = (f"{SCRATCH}*", f".{SERVER_FILE}.*", "orders/.*", "orders/*.done", "index/dropped-*")


def check_stores(
    home: Home, keys: Collection[BaseKey], known: Collection[str] | None, *, is_served: bool
) -> Iterator[Finding]:
    """Everything that this module checks. `keys` are the home's bases, `known` those of the catalogue if it is read."""
    yield from check_accounts(home, {key.space for key in keys})
    yield from check_memory(home, is_served=is_served)
    if (home.path / QUEUE).is_file() and (damage := damage_of(home.path / QUEUE)):
        yield Finding("documents_damaged", damage, QUEUE)
    yield from check_vector_cache(home.path / "vectors.sqlite")
    yield from check_vector_cache(home.path / "memory-vectors.sqlite")
    try:
        home.check_hooks()
    except (HomeProblem, OSError) as error:
        yield Finding("hooks_wrong", str(error), "hooks")
    yield from check_modes(home)
    yield from check_leftovers(home, keys, known, is_served=is_served)


def check_accounts(home: Home, spaces: Collection[str]) -> Iterator[Finding]:
    """Whether the accounts can be read, and agree with themselves and with the `spaces` that there are bases in."""
    path = home.path / ACCOUNTS
    if not path.is_file() or not path.stat().st_size:
        yield Finding("accounts_missing", f"{path} is {'empty' if path.is_file() else 'not there'}", ACCOUNTS)
        return
    if damage := damage_of(path):
        yield Finding("accounts_damaged", damage, ACCOUNTS)
        return
    try:
        with read_only(path) as connection:
            yield from _contradictions(connection)
            known = {row[0] for row in connection.execute("SELECT key FROM spaces")}
    except (sqlite3.Error, ValueError, TypeError) as error:
        yield Finding("accounts_damaged", str(error), ACCOUNTS)
        return
    for space in sorted(set(spaces) - known):
        yield Finding("space_unknown", f"{space} has bases and no account", ACCOUNTS)


def _contradictions(connection: sqlite3.Connection) -> Iterator[Finding]:
    owned = {row[0] for row in connection.execute("SELECT space FROM members WHERE role = ?", (Role.OWNER,))}
    users = {row[0] for row in connection.execute("SELECT name FROM users")}
    for (space,) in connection.execute("SELECT key FROM spaces ORDER BY key"):
        if space not in owned:
            yield Finding("accounts_inconsistent", f"{space} has no owner", ACCOUNTS)
        if space.startswith(PERSONAL) and space.removeprefix(PERSONAL) not in users:
            yield Finding("accounts_inconsistent", f"{space} is of no user", ACCOUNTS)
    for token, scopes, bases, digest in connection.execute("SELECT id, scopes, bases, hash FROM tokens"):
        if set(scopes.split()) - set(Scope) or len(digest) != 64 or not isinstance(json.loads(bases or "[]"), list):
            yield Finding("accounts_inconsistent", f"token {token} is none that kbgit gives", ACCOUNTS)
    for number, details in connection.execute("SELECT number, details FROM audit"):
        if not isinstance(json.loads(details), dict):
            yield Finding("accounts_inconsistent", f"entry {number} of the audit log cannot be read", ACCOUNTS)


def check_memory(home: Home, *, is_served: bool) -> Iterator[Finding]:
    """Whether every record can be read."""
    root = home.path / "memory"
    try:
        projects = [key for space in spaces_in(root) for key in projects_in(root, space)]
    except HomeProblem as error:
        yield Finding("memory_unreadable", error.message, "memory")
        return
    for key in projects:
        where = f"memory/{key.relative_path}"
        files = ProjectFiles(root, key)
        try:
            for problem in files.read().problems:
                yield Finding("memory_unreadable", f"line {problem.line}: {problem.what}", f"{where}/{problem.file}")
        except HomeProblem as error:
            yield Finding("memory_unreadable", error.message, where)
        for path in sorted(files.path.glob(".writing-*")) if not is_served else ():
            yield Finding("memory_leftover", f"{path.name} was never finished", where)


def check_modes(home: Home) -> Iterator[Finding]:
    """Whether the home, and in it what is secret, is closed to everybody but its owner."""
    yield from _open_to_others(home, home.path)
    for name in _PRIVATE:
        top = home.path / name
        if top.is_symlink() or not top.exists():
            continue
        if name == "memory":
            for path in (top, *sorted(top.glob("*/*")), *sorted(top.glob("*/*/mem_*.md"))):
                yield from _open_to_others(home, path)
        else:
            yield from _open_to_others(home, top)


def _open_to_others(home: Home, path: Path) -> Iterator[Finding]:
    try:
        mode = stat.S_IMODE(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if mode & 0o077:
        where = "" if path == home.path else str(path.relative_to(home.path))
        yield Finding("mode_open", f"{path} has the mode {mode:04o}", where)


def check_leftovers(
    home: Home, keys: Collection[BaseKey], known: Collection[str] | None, *, is_served: bool
) -> Iterator[Finding]:
    """What crashes left behind. While a server runs, only what cannot be of its present doing."""
    if (home.path / SERVER_FILE).exists() and not is_served:
        yield Finding("server_file_stale", "no server answers where it says", SERVER_FILE)
    if is_served:
        return
    for pattern in _LEFTOVERS:
        for path in sorted(home.path.glob(pattern)):
            if not _is_in_use(path):
                yield Finding("leftover", f"{path.name} is of a process that ended", str(path.relative_to(home.path)))
    for path in sorted(home.doomed.glob("*/*.git")):
        key = BaseKey.from_path(path.parent.name, path.name)
        yield Finding("purge_unfinished", "its deletion was interrupted", str(path.relative_to(home.path)), str(key))
    if known is None:
        return
    # What the catalogue knows was not deleted: the index of a repository that vanished is kept until that is back.
    kept = {directory_name(key) for key in {*map(str, keys), *known}}
    for path in sorted(home.index_directory.glob("*%3A*")):
        if path.is_dir() and path.name not in kept and not path.name.startswith("dropped-"):
            yield Finding("index_orphaned", "there is no such base", str(path.relative_to(home.path)))


def _is_in_use(path: Path) -> bool:
    """Whether a scratch directory is of a process that lives: another command may be looking at the home right now."""
    owner = path.name.removeprefix(SCRATCH).partition("-")[0]
    if not path.name.startswith(SCRATCH) or not owner.isdecimal():
        return False
    try:
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
