"""What a failure means to a shell: its exit code, and the way out where the message itself names none."""

from __future__ import annotations

from kbgit.errors import InvalidSetting, KbgitError

OK = 0
NO = 1
USAGE = 2
TROUBLE = 3
PIPE_CLOSED = 141  # 128 + SIGPIPE: what a shell reports of other programs whose reader went away
INTERRUPTED = 130  # 128 + SIGINT

EXIT_CODES = """\
Exit codes: 0 yes or done; 1 no (not found, refused, problems found); 2 wrong usage; 3 trouble with the home or the server."""

_WAYS_OUT = {
    "base_not_found": "`kbgit base list` shows the bases",
    "space_not_found": "`kbgit space list` shows the spaces, `kbgit space create NAME` makes one",
    "item_not_found": "`kbgit search` finds items by what they say",
    "revision_not_found": "`kbgit history ITEM` lists the revisions",
    "item_not_published": "`kbgit read ITEM --revision SHA` reads one revision; `kbgit history ITEM` lists them",
    "item_deleted": "`kbgit history ITEM` lists the revisions",
    "ambiguous_item": "the option --base names one",
    "unauthenticated": "put a valid token in the environment variable KBGIT_TOKEN; `kbgit token create` makes one",
    "history_rewritten": "`kbgit base accept-rewrite NAME` publishes the new history",
    "index_damaged": "`kbgit reindex --full` builds it anew from Git",
}


class ServerUnreachable(KbgitError):
    """No server answers where one should be, or what answers is no kbgit server."""

    code = "server_unreachable"
    http_status = 503


def exit_code(error: KbgitError) -> int:
    """2 for input that cannot be understood, 3 for trouble that is not the request's, 1 for a plain no."""
    if isinstance(error, InvalidSetting) or error.http_status >= 500:
        return TROUBLE
    return USAGE if error.http_status == 400 else NO


def way_out(error: KbgitError) -> str | None:
    """What to do about it, for errors whose message does not say."""
    found = _WAYS_OUT.get(error.code)
    return None if found is None or found in error.message else found
