"""Users, spaces and their members."""

from __future__ import annotations

from flask import Response

from kbgit.access import Role
from kbgit.web.answers import json_response
from kbgit.web.api.blueprints import signed_in, signed_in_blueprint
from kbgit.web.api.paging import page
from kbgit.web.fields import json_object
from kbgit.web.incoming import parameters, runtime, space_key

people = signed_in_blueprint("people")


# Users


@people.get("/users")
def list_users() -> Response:
    """A page of users, by name."""
    given = parameters("cursor", "limit")
    shown, cursor = page({name: name for name in runtime().people.users(signed_in())}, given)
    return json_response({"users": shown, "cursor": cursor})


@people.post("/users")
def add_user() -> Response:
    """A new user, with a personal space."""
    parameters()
    body = json_object("administrator", required=("name",))
    name, administrator = body.required_text("name"), body.truth("administrator", False)
    runtime().people.add_user(signed_in(), name, administrator=administrator)
    return json_response({"name": name, "administrator": administrator}, 201)


@people.delete("/users/<name>")
def remove_user(name: str) -> Response:
    """Close a user's account."""
    parameters()
    runtime().people.remove_user(signed_in(), name)
    return json_response({"name": name})


# Spaces


@people.get("/spaces")
def list_spaces() -> Response:
    """A page of the spaces that the caller may know, by key."""
    given = parameters("cursor", "limit")
    shown, cursor = page({view.key: view.as_json() for view in runtime().people.spaces(signed_in())}, given)
    return json_response({"spaces": shown, "cursor": cursor})


@people.post("/spaces")
def create_space() -> Response:
    """A new team space."""
    parameters()
    body = json_object("owner", required=("name",))
    key = runtime().people.create_team(signed_in(), body.required_text("name"), body.text("owner"))
    return json_response({"space": key}, 201)


# Members


@people.get("/spaces/<space>/members")
def list_members(space: str) -> Response:
    """A page of a space's members, by name."""
    given = parameters("cursor", "limit")
    members = runtime().people.members(signed_in(), space_key(space))
    shown, cursor = page({user: {"user": user, "role": role.value} for user, role in members}, given)
    return json_response({"members": shown, "cursor": cursor})


@people.put("/spaces/<space>/members/<user>")
def set_member(space: str, user: str) -> Response:
    """Give a user a role in a team."""
    parameters()
    role = json_object(required=("role",)).required_word("role", Role)
    runtime().people.set_member(signed_in(), space_key(space), user, role)
    return json_response({"space": space_key(space), "user": user, "role": role.value})


@people.delete("/spaces/<space>/members/<user>")
def remove_member(space: str, user: str) -> Response:
    """Take a user out of a team."""
    parameters()
    runtime().people.remove_member(signed_in(), space_key(space), user)
    return json_response({"space": space_key(space), "user": user})
