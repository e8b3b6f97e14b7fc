"""What comes in from outside: whole bases, and single files turned into canonical Markdown."""

from kbgit.importing.bases import BaseOptions, Importer, identity, is_repository, refused, settings_text
from kbgit.importing.source import SourceFile, digest_of, locator_of

__all__ = [
    "BaseOptions",
    "Importer",
    "SourceFile",
    "digest_of",
    "identity",
    "is_repository",
    "locator_of",
    "refused",
    "settings_text",
]
