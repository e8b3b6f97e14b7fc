"""The life of a base."""

from __future__ import annotations

from functools import partial
from itertools import chain

from flask import Response

from kbgit.base import Admission, BaseKey, BaseStatus
from kbgit.importing import BaseOptions
from kbgit.item import ItemStatus
from kbgit.revision import Via
from kbgit.web.answers import answer, json_response
from kbgit.web.api.blueprints import knowledge_blueprint, signed_in
from kbgit.web.fields import Fields, json_object, optional_json_object
from kbgit.web.incoming import base_key, parameters, runtime, truth

bases = knowledge_blueprint("bases")

VERBS = {"archive": BaseStatus.ARCHIVED, "restore": BaseStatus.ACTIVE}
_SETTINGS = ("name", "description", "default_status", "admission")
_BUNDLE = "application/x-git-bundle"


@bases.get("/bases")
def list_bases() -> Response:
    """The bases the caller may see."""
    parameters()
    return json_response({"bases": [base.as_json() for base in runtime().library.bases(signed_in())]})


@bases.post("/bases")
def create_base() -> Response:
    """A new base."""
    parameters()
    body = json_object(*_SETTINGS, required=("space", "slug"))
    key = base_key(body.required_text("space"), body.required_text("slug"))
    runtime().bases.create(BaseKey.parse(key), signed_in(), _options(body))
    return answer(runtime().library.base(key, signed_in()), 201)


@bases.get("/bases/<space>/<slug>")
def show_base(space: str, slug: str) -> Response:
    """One base."""
    parameters()
    return answer(runtime().library.base(base_key(space, slug), signed_in()))


@bases.patch("/bases/<space>/<slug>")
def change_base(space: str, slug: str) -> Response:
    """Change what the body names of a base's settings."""
    parameters()
    body = json_object(*_SETTINGS)
    return answer(runtime().bases.update(base_key(space, slug), signed_in(), _options(body), Via.API))


def _set_status(status: BaseStatus, space: str, slug: str) -> Response:
    parameters()
    optional_json_object()
    return answer(runtime().bases.set_status(base_key(space, slug), signed_in(), status, Via.API))


for _verb, _status in VERBS.items():
    bases.add_url_rule(
        f"/bases/<space>/<slug>/{_verb}", f"{_verb}_base", partial(_set_status, _status), methods=["POST"]
    )


@bases.get("/bases/<space>/<slug>/bundle")
def export_base(space: str, slug: str) -> Response:
    """A base with its history, as a Git bundle."""
    parameters()
    pieces = runtime().bases.export(base_key(space, slug), signed_in())
    first = next(pieces)  # whatever refuses it does so here, while an error can still be answered
    name = BaseKey.parse(base_key(space, slug)).slug
    disposition = {"Content-Disposition": f'attachment; filename="{name}.bundle"'}
    return Response(chain([first], pieces), headers=disposition, content_type=_BUNDLE)


@bases.delete("/bases/<space>/<slug>")
def delete_base(space: str, slug: str) -> Response:
    """Destroy a base for good, or say what that would take."""
    given = parameters("name", "dry_run")
    purge = runtime().bases.purge(
        base_key(space, slug),
        signed_in(),
        typed_name=given.get("name", ""),
        dry_run=truth("dry_run", given.get("dry_run"), False),
    )
    return answer(purge)


def _options(body: Fields) -> BaseOptions:
    return BaseOptions(
        name=body.text("name"),
        description=body.text("description"),
        default_status=body.word("default_status", ItemStatus),
        admission=body.word("admission", Admission),
    )
