"""The parts of an answer's text."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Content:
    """Text for the user."""

    text: str


@dataclasses.dataclass(frozen=True)
class Reasoning:
    """Text that the model writes for itself."""

    text: str


@dataclasses.dataclass(frozen=True)
class CallBegun:
    """A tool call whose arguments follow. ``id`` is the model's own; empty where it gives none."""

    name: str
    id: str = ""


@dataclasses.dataclass(frozen=True)
class Arguments:
    """A fragment of the JSON text of the call that was begun last."""

    text: str


@dataclasses.dataclass(frozen=True)
class CallEnded:
    """The call that was begun last is complete: its fragments joined are one JSON object."""


@dataclasses.dataclass(frozen=True)
class CallWithdrawn:
    """The call that was begun last turned out to be none: its text follows as content.

    Its fragments joined are no JSON, because the last brace of arguments is held back until the call is complete.
    """


Part = Content | Reasoning | CallBegun | Arguments | CallEnded | CallWithdrawn
