"""Git bundles of exactly the refs that a caller names, and repositories made of them.

`git bundle create` reads the refs when it runs. Here they are given, so that several refs are of one moment whatever is
pushed meanwhile: a bundle is a list of refs and a pack, and Git makes the pack.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kbgit.errors import GitFailure
from kbgit.store.repository import Repository, is_sha

_SIGNATURE = b"# v2 git bundle\n"
_LONGEST_LINE = 1 << 16


def write_bundle(repository: Repository, target: Path, refs: Mapping[str, str]) -> None:
    """Write a bundle of `refs` (name → object, at least one) with all that they reach. Raises `GitFailure`, `TimedOut`."""
    with tempfile.TemporaryDirectory(prefix=".packing-", dir=target.parent) as scratch:
        objects = "".join(f"{sha}\n" for sha in sorted(set(refs.values())))
        repository.git.run(
            *("pack-objects", "--revs", "--delta-base-offset", "--quiet", str(Path(scratch).resolve() / "pack")),
            stdin=objects.encode(),
        )
        (pack,) = Path(scratch).glob("*.pack")
        with open(pack, "rb") as packed, open(target, "xb") as bundle:
            target.chmod(0o600)
            bundle.write(_SIGNATURE)
            for name, sha in sorted(refs.items()):
                bundle.write(f"{sha} {name}\n".encode("utf-8", "surrogateescape"))
            bundle.write(b"\n")
            shutil.copyfileobj(packed, bundle)


def bundle_refs(bundle: Path) -> dict[str, str]:
    """The refs that a bundle names, name → object. Raises `GitFailure` for what is no bundle of a whole history."""
    refs: dict[str, str] = {}
    with open(bundle, "rb") as file:
        if file.readline(_LONGEST_LINE) != _SIGNATURE:
            raise GitFailure(f"{bundle.name} is no Git bundle")
        while (line := file.readline(_LONGEST_LINE)) != b"\n":
            sha, _, name = line.decode("utf-8", "surrogateescape").removesuffix("\n").partition(" ")
            if not is_sha(sha) or not name.startswith("refs/"):
                raise GitFailure(f"{bundle.name} is no Git bundle of a whole history")
            refs[name] = sha
    return refs


def unpack_bundle(bundle: Path, repository: Repository) -> None:
    """Bring everything in a bundle into a repository, each ref under its own name.

    Raises `GitFailure` unless every object is there and is what its name says.
    """
    repository.git.run(
        "fetch", "--quiet", "--no-write-fetch-head", "--no-tags", str(bundle.resolve()), "+refs/*:refs/*"
    )
    if repository.refs() != bundle_refs(bundle):
        raise GitFailure(f"{bundle.name} does not give the refs that it names")
