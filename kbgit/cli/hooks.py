"""`kbgit hooks`."""

from __future__ import annotations

from pathlib import Path

import click

from kbgit.cli.homes import home_of
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.cli.terminal import note
from kbgit.cli.work_tree import WorkTree
from kbgit.errors import AlreadyExists, InvalidRequest
from kbgit.home import SERVER_HOOKS, hook_script

_NAME = "pre-commit"
_MARK = b"`kbgit hooks install`"


@click.group(short_help="Install Git hooks: a writer's, or a home's.")
def hooks() -> None:
    """Git hooks: a writer's, which checks a commit before it is made, and a home's, which check every push.

    \b
    Examples:
      kbgit hooks install
      kbgit hooks install --server
    """


@hooks.command(short_help="Install pre-commit here, or with --server the hooks of a home.")
@click.option("--server", "is_server", is_flag=True, help="Restore the hooks of the home, which check every push.")
@click.option("--force", is_flag=True, help="Replace a pre-commit hook that is not kbgit's.")
@home_option
@json_option
@pass_session
def install(session: Session, is_server: bool, force: bool, as_json: bool) -> None:
    """Install the pre-commit hook in the Git work tree around the current directory.

    It runs `kbgit check --staged` before every commit. `git commit --no-verify` goes past it: what counts is the
    check of the push. With --server, write the hooks of the home anew and make every base use them.

    \b
    Examples:
      kbgit hooks install
      kbgit hooks install --force
      kbgit hooks install --server --home /srv/kbgit
    """
    installed = _install_server_hooks(session) if is_server else [_install_pre_commit(session, force=force)]
    found = {"type": "hooks_installed", "hooks": [str(path) for path in installed]}
    answer(found, [f"installed {path}" for path in installed], as_json=as_json)


def _install_server_hooks(session: Session) -> list[Path]:
    home = home_of(session)
    home.install_hooks()
    home.check_hooks()
    return [home.hooks / name for name in SERVER_HOOKS]


def _install_pre_commit(session: Session, *, force: bool) -> Path:
    work_tree = WorkTree.around(Path.cwd(), session.environment)
    if work_tree.git is None:
        raise InvalidRequest(f"{Path.cwd()} is in no Git work tree; run this in a clone of a base")
    directory = work_tree.hooks()
    target = directory / _NAME
    # A link that leads nowhere is a foreign hook too.
    if (target.exists() or target.is_symlink()) and not force and not _is_ours(target):
        raise AlreadyExists(
            f"{target} is a hook already; add the line `kbgit check --staged` to it, or replace it with --force"
        )
    directory.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.write_bytes(hook_script(_NAME))
    target.chmod(0o755)
    if directory.resolve() != work_tree.private_hooks().resolve():
        note(f"core.hooksPath sends every repository that shares this setting to {directory}")
    return target


def _is_ours(hook: Path) -> bool:
    return hook.is_file() and _MARK in hook.read_bytes()
