"""kbgit: a team's knowledge in Git, answered with exact citations."""

__version__ = "0.1.0"
