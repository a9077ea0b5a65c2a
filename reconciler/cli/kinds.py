"""Kinds as people type them: plural, singular, short, in any case; and `KIND/NAME`."""

from __future__ import annotations

import click

from reconciler.errors import Refused
from reconciler.resources import KINDS, PLURALS, SHORT_NAMES

from .app import nearest

GROUP = "reconciler"
"""The part of `apiVersion` before the slash, as in `modeldeployment.reconciler/tiny`."""


def kind_named(word: str) -> str:
    """The kind that a word means. Raises ``UsageError`` with the nearest right one."""
    wanted = word.lower().removesuffix(f".{GROUP}")
    for kind in KINDS:
        if wanted in (PLURALS[kind], *SHORT_NAMES[kind]):
            return kind
    if wanted in ("rank", "ranks"):
        return "Rank"
    raise click.UsageError(f'unknown kind "{word}"{nearest(wanted, [*PLURALS.values(), "ranks"])}')


def object_named(words: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Kind and name from `KIND`, `KIND NAME` or `KIND/NAME`; `all` (or nothing) is every kind."""
    parts = tuple(part for word in words for part in word.split("/", 1) if part)
    if len(parts) > 2:
        raise click.UsageError(f"expected KIND, KIND NAME or KIND/NAME, got: {' '.join(words)}")
    if not parts or parts == ("all",):
        return None, None
    return kind_named(parts[0]), parts[1] if len(parts) == 2 else None


def not_found(kind: str, name: str) -> Refused:
    """The error for an object that is not there."""
    listing = PLURALS.get(kind, "ranks")
    return Refused(
        "NotFound", f'{kind.lower()} "{name}" not found; what there is shows: reconciler get {listing}'
    )


def full_name(kind: str, name: str) -> str:
    """An object as kubectl names it: `modeldeployment.reconciler/tiny`."""
    return f"{kind.lower()}.{GROUP}/{name}"
