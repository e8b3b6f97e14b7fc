"""Errors that only HTTP has. They share the one shape and stand beside the tree of `kbgit.errors`."""

from __future__ import annotations

from kbgit.errors import Forbidden, KbgitError


class MethodNotAllowed(KbgitError):
    """The address is right, the method is not; `details.allowed` lists those that are."""

    code = "method_not_allowed"
    http_status = 405


class CrossSiteRequest(Forbidden):
    """A change that came with a browser's session and that none of our own pages asked for."""

    code = "cross_site_request"


class RequestTimeout(KbgitError):
    """The request's body did not arrive in time."""

    code = "request_timeout"
    http_status = 408


class UnsupportedMediaType(KbgitError):
    """A body of a type or encoding that this address does not read."""

    code = "unsupported_media_type"
    http_status = 415


class Stopping(KbgitError):
    """The server was told to stop, and this request took too long to be waited for."""

    code = "stopping"
    http_status = 503


class Overloaded(KbgitError):
    """Too much is going on at once; the same request may succeed later."""

    code = "overloaded"
    http_status = 503


class Starting(KbgitError):
    """The server does not answer yet."""

    code = "starting"
    http_status = 503


class RateLimited(KbgitError):
    """Too many requests, or too many failed sign-ins; `details.retry_after` says after how many seconds to try again."""

    code = "rate_limited"
    http_status = 429


class Misdirected(KbgitError):
    """The request names a host that this server is not."""

    code = "misdirected"
    http_status = 421


class ForeignOrigin(KbgitError):
    """The request comes from a page that may not use this server."""

    code = "foreign_origin"
    http_status = 403
