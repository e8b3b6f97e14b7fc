"""Users, spaces, members, tokens, the audit log, and why an access is allowed or denied."""

from __future__ import annotations

from functools import partial

from kbgit import errors as e
from kbgit.access import Action, Role, Scope
from kbgit.web.openapi.operations import PAGE, SIGNED_IN, SPACE_IN_PATH, ErrorClass, operation, parameter
from kbgit.web.openapi.shapes import (
    ANYTHING,
    CURSOR,
    TEXT,
    TEXTS,
    TIME,
    TRUTH,
    Json,
    closed,
    described,
    listed,
    nullable,
    ref,
    whole,
    words,
)

_TOKEN: Json = {
    "id": TEXT,
    "user": TEXT,
    "name": TEXT,
    "scopes": listed(ref("Scope")),
    "bases": described(nullable(TEXTS), "Keys of the only bases that it reaches; null: all that its user may see."),
    "profile": nullable(TEXT),
    "created_at": TIME,
    "expires_at": nullable(TIME),
    "revoked_at": nullable(TIME),
    "used_at": nullable(TIME),
}

SCHEMAS: Json = {
    "Role": words(Role),
    "Scope": words(Scope),
    "UserPage": closed({"users": TEXTS, "cursor": CURSOR}),
    "NewUser": closed({"name": TEXT}, {"administrator": nullable(TRUTH)}),
    "User": closed({"name": TEXT, "administrator": TRUTH}),
    "UserName": closed({"name": TEXT}),
    "Space": closed(
        {
            "space": TEXT,
            "role": described(nullable(ref("Role")), "The caller's role; null: they only administer the home."),
        }
    ),
    "SpacePage": closed({"spaces": listed(ref("Space")), "cursor": CURSOR}),
    "NewSpace": closed({"name": TEXT}, {"owner": described(nullable(TEXT), "A user. Default: the caller.")}),
    "SpaceName": closed({"space": TEXT}),
    "Member": closed({"user": TEXT, "role": ref("Role")}),
    "MemberPage": closed({"members": listed(ref("Member")), "cursor": CURSOR}),
    "NewRole": closed({"role": ref("Role")}),
    "Membership": closed({"space": TEXT, "user": TEXT, "role": ref("Role")}),
    "MembershipName": closed({"space": TEXT, "user": TEXT}),
    "Token": closed(_TOKEN),
    "TokenPage": closed({"tokens": listed(ref("Token")), "cursor": CURSOR}),
    "NewToken": closed(
        {"scopes": {**listed(ref("Scope")), "minItems": 1}},
        {
            "name": described(nullable(TEXT), "What its user knows it by."),
            "user": described(nullable(TEXT), "Nobody but the caller; for clarity."),
            "bases": described(nullable(listed(TEXT, 200)), "Keys of the only bases that it shall reach."),
            "profile": described(nullable(TEXT), "The client profile that it is for."),
            "expires_at": nullable(TIME),
        },
    ),
    "TokenWithText": closed({**_TOKEN, "token": described(TEXT, "The token itself. Shown this once.")}),
    "Me": closed(
        {
            "user": TEXT,
            "administrator": TRUTH,
            "roles": {"type": "object", "additionalProperties": ref("Role"), "description": "By space."},
            "token": nullable(TEXT),
            "scopes": listed(ref("Scope")),
            "bases": described(nullable(TEXTS), "Keys of the only bases that the token reaches; null: no limit."),
            "profile": nullable(TEXT),
        }
    ),
    "AuditEntry": closed(
        {"number": whole(1), "at": TIME, "actor": TEXT, "event": TEXT, "space": nullable(TEXT), "details": ANYTHING}
    ),
    "AuditPage": closed({"type": {"const": "audit"}, "entries": listed(ref("AuditEntry")), "cursor": CURSOR}),
    "Access": closed({"allowed": TRUTH, "rule": described(TEXT, "What decided, in words.")}),
}

_USER = parameter("user", "The user's name.", TEXT, where="path", required=True)
_OF_SPACES: tuple[ErrorClass, ...] = (e.InvalidName, e.NotFound, e.SpaceNotFound)


# For signed-in callers, whether the knowledge runtime is on or off.
_operation = partial(operation, callers=SIGNED_IN)


PATHS: Json = {
    "/api/v1/me": {"get": _operation("showMe", "Who is calling, and what their token is good for.", "Me")},
    "/api/v1/users": {
        "get": _operation("listUsers", "A page of users, by name.", "UserPage", parameters=PAGE),
        "post": _operation(
            "addUser",
            "A new user, with a personal space.",
            "User",
            body="NewUser",
            status=201,
            errors=(e.InvalidName, e.AlreadyExists),
        ),
    },
    "/api/v1/users/{name}": {
        "delete": _operation(
            "removeUser",
            "Close a user's account: from the next request on their tokens are no credentials.",
            "UserName",
            parameters=[parameter("name", "The user's name.", TEXT, where="path", required=True)],
            errors=(e.NotFound, e.Conflict),
        )
    },
    "/api/v1/spaces": {
        "get": _operation(
            "listSpaces", "A page of the spaces that the caller may know, by key.", "SpacePage", parameters=PAGE
        ),
        "post": _operation(
            "createSpace",
            "A new team space.",
            "SpaceName",
            body="NewSpace",
            status=201,
            errors=(e.InvalidName, e.NotFound, e.AlreadyExists),
        ),
    },
    "/api/v1/spaces/{space}/members": {
        "get": _operation(
            "listMembers",
            "A page of a space's members, by name.",
            "MemberPage",
            parameters=[SPACE_IN_PATH, *PAGE],
            errors=_OF_SPACES,
        )
    },
    "/api/v1/spaces/{space}/members/{user}": {
        "put": _operation(
            "setMember",
            "Give a user a role in a team.",
            "Membership",
            parameters=[SPACE_IN_PATH, _USER],
            body="NewRole",
            errors=(*_OF_SPACES, e.Conflict),
        ),
        "delete": _operation(
            "removeMember",
            "Take a user out of a team; everybody may leave by themselves, but the last owner.",
            "MembershipName",
            parameters=[SPACE_IN_PATH, _USER],
            errors=(*_OF_SPACES, e.Conflict),
        ),
    },
    "/api/v1/tokens": {
        "get": _operation(
            "listTokens",
            "A page of the caller's tokens, by id.",
            "TokenPage",
            parameters=[parameter("user", "Whose; another than the caller for administrators.", TEXT), *PAGE],
            errors=(e.NotFound,),
        ),
        "post": _operation(
            "createToken",
            "A new token of the caller's, which gives at most what theirs gives. Its text is in this answer only.",
            "TokenWithText",
            body="NewToken",
            status=201,
            errors=(e.InvalidName, e.NotFound),
        ),
    },
    "/api/v1/tokens/{token_id}": {
        "delete": _operation(
            "revokeToken",
            "End a token, from the next request on.",
            "Token",
            parameters=[parameter("token_id", "The token's id.", TEXT, where="path", required=True)],
            errors=(e.NotFound,),
        )
    },
    "/api/v1/audit": {
        "get": _operation(
            "readAudit",
            "A page of the audit log, newest first: what happened in the spaces that the caller manages and, for "
            "administrators, in the home.",
            "AuditPage",
            parameters=[parameter("space", "Only what happened in this space.", TEXT), *PAGE],
            errors=_OF_SPACES,
        )
    },
    "/api/v1/access": {
        "get": _operation(
            "explainAccess",
            "Whether a user, with every scope, may do something, and the rule that says so.",
            "Access",
            parameters=[
                parameter("user", "Whose access; another than the caller for those who manage the space.", TEXT),
                parameter(
                    "action",
                    "What they would do; by name, or in the words of the rules.",
                    {"type": "string", "enum": [word for one in Action for word in (one.name.lower(), one.value)]},
                    required=True,
                ),
                parameter("space", "Where; in the home itself nowhere.", TEXT),
                parameter("base", "The slug of a base there.", TEXT),
            ],
            errors=_OF_SPACES,
        )
    },
}
