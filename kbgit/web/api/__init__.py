"""The JSON interface: addresses to calls of the library, its answers to JSON. `openapi` describes every one of them.

    knowledge   search, citations, addressed reads
    items       written
    files       made into items
    documents   uploaded, extracted, followed
    bases       listed, created, changed, archived, restored, taken out, destroyed
    people      users, spaces, members
    tokens      and who holds one; the audit log; why an access is allowed or denied
    agents      what agents ask without MCP: citations verified, changes, memory, recall
    public      what anybody may ask

An item's id may contain anything but control characters, slashes too. `/items/<id>` takes it as it is, percent-encoded where
an address needs that; only an id that itself ends like an address below it (`/revisions`, `/publish`) is out of its reach,
and every id is in that of `/item?id=<id>`, `/item/revisions?id=` and so on.
"""

from kbgit.web.api import agents, bases, documents, files, items, knowledge, people, public, tokens

BLUEPRINTS = (
    public.public,
    knowledge.knowledge,
    items.items,
    files.files,
    documents.documents,
    bases.bases,
    people.people,
    tokens.tokens,
    agents.citations,
    agents.memory,
)

__all__ = ["BLUEPRINTS"]
