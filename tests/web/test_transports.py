"""One gate for every way in: the same pushes get the same verdicts over HTTP, a local path and SSH."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.web.edge import Edge
from kbgit.web.git_http import GitHttp
from tests.web.serving import SERVER_ENVIRONMENT, People, WorkTree, git_url, published, running

# A stand-in for ssh: it is given host and command, and runs the command on this machine.
_SSH = '#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nexec sh -c "$1"\n'
BAD = {
    "colon.md": "---\ntitle: Release: plan\n---\n",
    "twice.md": "---\nid: a\nid: b\n---\n",
    "status.md": "---\nstatus: Published\n---\n",
    "con.md": "x\n",
    "Start.md": "x\n",
    "copy.md": published("Copy", id="start"),
}


_SHA = re.compile(r"\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b")


def verdicts(work: WorkTree, remote: str, ssh: Path) -> list[str]:
    """What each of the same pushes is told: whether it is admitted, and kbgit's lines, without names of objects."""
    found = []

    def push(*refspecs: str) -> None:
        settings = ("-c", f"core.sshCommand={ssh}", "-c", "ssh.variant=simple")
        done = work.git(*settings, "push", remote, *refspecs, check=False)
        said = [line.split("kbgit: ", 1)[1].rstrip() for line in done.output.splitlines() if "kbgit: " in line]
        found.append(_SHA.sub("SHA", "\n".join([str(done.code), *said])))

    work.write({"start.md": published("Start", id="start")})
    push("main")
    work.write(BAD)
    push("main")
    push("HEAD:refs/heads/proposal", "HEAD:refs/notes/x")
    work.git("reset", "--quiet", "--hard", "HEAD~1")
    push("main:refs/tags/one")
    work.git("commit", "--quiet", "--amend", "--message", "rewritten")
    push("--force", "main")
    push(":main")
    push("--force", "main:refs/tags/one")
    return found


def test_the_same_pushes_get_the_same_verdicts_by_every_transport(home: Home, people: People, tmp_path: Path) -> None:
    ssh = tmp_path / "ssh-command"
    ssh.write_text(_SSH)
    ssh.chmod(stat.S_IRWXU)
    told: dict[str, list[str]] = {}
    with running(Edge(GitHttp(home, people.accounts, lambda _: None, SERVER_ENVIRONMENT))) as url:
        for name in ("http", "path", "ssh"):
            path = home.create_repository(BaseKey("team:platform", f"by-{name}")).path
            remotes = {
                "http": git_url(url, people["ada"], f"platform/by-{name}.git"),
                "path": str(path),
                "ssh": f"ssh://host{path}",
            }
            work = WorkTree(tmp_path / name)
            work.path.mkdir()
            work.git("init", "--quiet", "--initial-branch=main")
            told[name] = [said.replace(f"by-{name}", "BASE") for said in verdicts(work, remotes[name], ssh)]
    assert [said.split("\n")[0] for said in told["path"]] == ["0", "1", "1", "0", "1", "1", "1"]
    assert all(name in told["path"][1] for name in BAD)
    assert told["http"] == told["path"]
    assert told["ssh"] == told["path"]
