"""Kinds as people type them: plural, singular, short, in any case; and the objects that words name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import click

from reconciler.errors import Refused
from reconciler.resources import KIND_NAMES, PLURALS, SHORT_NAMES

from .app import nearest
from .hints import KINDS as ELSEWHERE

GROUP = "reconciler"
"""The part of `apiVersion` before the slash, as in `modeldeployment.reconciler/tiny`."""
RANK = "Rank"
"""A kind that is only read: the processes that serve a deployment."""
EVERYTHING = "all"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Objects as a command line names them: of one kind, or of every kind where it is None."""

    kind: str | None
    names: tuple[str, ...] = ()
    """Empty: all of the kind."""


def kind_named(word: str) -> str:
    """The kind that a word means. Raises ``UsageError`` with the nearest right one."""
    wanted = word.lower().removesuffix(".").removesuffix(f".{GROUP}")
    for kind in KIND_NAMES:
        if wanted in (PLURALS[kind], *SHORT_NAMES[kind]):
            return kind
    if wanted in ("rank", "ranks"):
        return RANK
    if wanted in ELSEWHERE:
        raise click.UsageError(f'unknown kind "{word}"; {ELSEWHERE[wanted]}')
    raise click.UsageError(f'unknown kind "{word}"{nearest(wanted, [*PLURALS.values(), "ranks"])}')


def plural(kind: str) -> str:
    """The word for many of a kind: `modeldeployments`."""
    return PLURALS.get(kind, "ranks")


def objects_named(words: tuple[str, ...]) -> tuple[Chosen, ...]:
    """What `KIND`, `KIND NAME...`, `KIND/NAME...`, `KIND,KIND` or `all` mean; no word is everything."""
    if not words:
        return (Chosen(None),)
    if any("/" in word for word in words):
        return tuple(_pair(word) for word in words)
    kinds, names = words[0].split(","), words[1:]
    if len(kinds) > 1 and names:
        raise click.UsageError(f"names go with one kind: say KIND/NAME for each, not {' '.join(words)}")
    if EVERYTHING in kinds:
        if names:
            raise click.UsageError(f'"{EVERYTHING}" takes no names: say KIND {" ".join(names)}')
        others = [kind_named(word) for word in kinds if word != EVERYTHING]
        return (Chosen(None), *(Chosen(kind) for kind in others if kind == RANK))
    return tuple(Chosen(kind_named(word), names) for word in kinds)


def _pair(word: str) -> Chosen:
    kind, slash, name = word.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise click.UsageError(f'"{word}" is not KIND/NAME, as the others are; say them all like that')
    return Chosen(kind_named(kind), (name,))


def object_named(words: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Kind and name of at most one object: `KIND`, `KIND NAME` or `KIND/NAME`; `all` is every kind."""
    found = objects_named(words)
    if len(found) != 1 or len(found[0].names) > 1:
        raise click.UsageError(f"expected KIND, KIND NAME or KIND/NAME, got: {' '.join(words)}")
    return found[0].kind, found[0].names[0] if found[0].names else None


def not_found(kind: str, name: str, known: Iterable[str] = ()) -> Refused:
    """The error for an object that is not there; ``known`` are the names of those that are."""
    import difflib

    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    advice = f'did you mean "{close[0]}"?' if close else f"what there is shows: reconciler get {plural(kind)}"
    return Refused("NotFound", f'{plural(kind)} "{name}" not found; {advice}')


def full_name(kind: str, name: str) -> str:
    """An object as kubectl names it: `modeldeployment.reconciler/tiny`."""
    return f"{kind.lower()}.{GROUP}/{name}"
