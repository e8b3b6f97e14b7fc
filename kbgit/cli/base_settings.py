"""The settings of a base, as options of the commands that make or change one."""

from __future__ import annotations

import click

from kbgit.base import Admission
from kbgit.importing import BaseOptions
from kbgit.item import ItemStatus

title_option = click.option("--title", metavar="TEXT", help="Its name for people, which without this is its own.")
description_option = click.option("--description", metavar="TEXT", help="What it is about, in a line.")
status_option = click.option(
    "--default-status",
    type=click.Choice([status.value for status in ItemStatus]),
    help="The status of items that name none; a new base says draft.",
)
admission_option = click.option(
    "--admission",
    type=click.Choice([admission.value for admission in Admission]),
    help="strict refuses a push with a bad item, lenient publishes the others; a new base is strict.",
)


def base_options(
    name: str | None, description: str | None, status: str | None, admission: str | None, subdir: str | None = None
) -> BaseOptions:
    """What the options say; None leaves a setting as it is."""
    return BaseOptions(
        name=name,
        description=description,
        default_status=ItemStatus(status) if status else None,
        admission=Admission(admission) if admission else None,
        subdir=subdir,
    )
