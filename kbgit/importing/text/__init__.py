"""Text and code files as Markdown: `convert` does it, `kinds.KINDS` says which."""

from kbgit.importing.text.convert import Converted, convert
from kbgit.importing.text.kinds import KINDS, Kind, suffix_of

__all__ = ["KINDS", "Converted", "Kind", "convert", "suffix_of"]
