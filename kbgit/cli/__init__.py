"""The command line: parse, call, render; nothing else.

One file per group of commands. `client` is how a command reaches a library (a server over HTTP, or the home in this
process), and both ways answer with the JSON of the API, so that `render` shows either alike.
"""

from kbgit.cli.program import main

__all__ = ["main"]
