"""Git repositories, as kbgit needs them. The only package that touches Git's stored state.

Git's own plumbing does what it does fastest (histories, tree differences, batches of objects, everything in a hook,
where quarantined objects are visible to it alone); dulwich reads single objects inside a long-lived process, where
starting a command for each would cost more than the read. A piece of work that asks much (a hook, a publication, a write)
keeps one `git cat-file` for as long as it lasts, and is spared what the parents of a commit tell already.
"""

from kbgit.store.git import Git
from kbgit.store.repository import Change, Commit, Repository, TreeEntry

__all__ = ["Change", "Commit", "Git", "Repository", "TreeEntry"]
