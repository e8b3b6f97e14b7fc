"""The web page, for writers and curious readers: HTML from templates, real forms and links; scripts only add comfort.

    session     signing in and out
    search      the first page: search, and the bases one may see
    bases       a base, its items, its state; new bases
    items       an item, its history and differences, its state
    citations   what became of a citation
    editor      items written: text, preview, what is wrong with it
    uploads     files in, and what becomes of documents
    members     spaces, who is in them, and the audit log
    tokens      one's own tokens
    files       scripts, styles and pictures
    errors      what went wrong, as a page

A page calls the library as the JSON interface does, so it shows and does nothing that its reader may not.
"""

from kbgit.web.pages import bases, citations, editor, files, items, members, search, session, tokens, uploads
from kbgit.web.pages.access import prepare
from kbgit.web.pages.errors import error_page, wants_page

PAGES = (
    files.files,
    session.session,
    search.search,
    bases.bases,
    items.items,
    citations.citations,
    editor.editor,
    uploads.uploads,
    members.members,
    tokens.tokens,
)

__all__ = ["PAGES", "error_page", "prepare", "wants_page"]
