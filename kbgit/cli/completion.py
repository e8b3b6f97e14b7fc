"""`kbgit completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print a script that completes kbgit commands.")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that makes SHELL complete the commands and options of kbgit.

    \b
    Examples:
      kbgit completion bash > ~/.local/share/bash-completion/completions/kbgit
      kbgit completion zsh > "${fpath[1]}/_kbgit"
      kbgit completion fish > ~/.config/fish/completions/kbgit.fish
    """
    root = context.find_root()
    found = get_completion_class(shell)
    assert found is not None
    assert root.info_name is not None
    click.echo(found(root.command, {}, root.info_name, f"_{root.info_name.upper()}_COMPLETE").source())
