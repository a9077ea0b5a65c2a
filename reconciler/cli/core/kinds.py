"""Reads kinds as people type them (plural, singular, short, in any case), and names of objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import click

from reconciler import errors
from reconciler.errors import Refused
from reconciler.resources import KIND_NAMES, PLURALS, SHORT_NAMES

from .app import nearest
from .hints import KINDS as ELSEWHERE

GROUP = "reconciler"
"""The part of `apiVersion` before the slash, as in `modeldeployment.reconciler/tiny`."""
RANK: Final = "Rank"
"""A read-only kind: the processes that serve a deployment."""
OPERATION = "Operation"
"""A kind without manifests in main: temporary changes of the cluster."""
READ_ONLY = {RANK: ("ranks", "rank"), OPERATION: ("operations", "operation", "ops", "op")}
"""Plural and further words of each kind that has no manifests."""
EVERYTHING = "all"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The objects that a command line names: of one kind, or of every kind if ``kind`` is None."""

    kind: str | None
    names: tuple[str, ...] = ()
    """Names; empty means all objects of the kind."""


def kind_named(word: str) -> str:
    """Return the kind that a word means. Raises ``UsageError`` with the nearest kind."""
    wanted = word.lower().removesuffix(".").removesuffix(f".{GROUP}")
    for kind in KIND_NAMES:
        if wanted in (PLURALS[kind], *SHORT_NAMES[kind]):
            return kind
    for kind, words in READ_ONLY.items():
        if wanted in words:
            return kind
    if wanted in ELSEWHERE:
        raise click.UsageError(f'unknown kind "{word}"; {ELSEWHERE[wanted]}')
    raise click.UsageError(
        f'unknown kind "{word}"{nearest(wanted, [*PLURALS.values(), *(words[0] for words in READ_ONLY.values())])}'
    )


def is_kind(word: str) -> bool:
    """Return whether a word means a kind, several kinds separated by commas, or all."""
    try:
        objects_named((word,))
    except click.UsageError:
        return word.lower() in ELSEWHERE
    return True


def plural(kind: str) -> str:
    """Return the plural of a kind, such as `modeldeployments`."""
    return PLURALS.get(kind) or READ_ONLY[kind][0]


def objects_named(words: tuple[str, ...]) -> tuple[Chosen, ...]:
    """Return the objects that `KIND`, `KIND NAME...`, `KIND/NAME...`, `KIND,KIND` or `all` name; no word names all."""
    if not words:
        return (Chosen(None),)
    if any("/" in word for word in words):
        return tuple(_pair(word) for word in words)
    kinds, names = words[0].split(","), words[1:]
    if len(kinds) > 1 and names:
        raise click.UsageError(f"names need a single kind; use KIND/NAME for each, got: {' '.join(words)}")
    if EVERYTHING in kinds:
        if names:
            raise click.UsageError(f'"{EVERYTHING}" takes no names; use KIND {" ".join(names)}')
        others = [kind_named(word) for word in kinds if word != EVERYTHING]
        return (Chosen(None), *(Chosen(kind) for kind in others if kind in READ_ONLY))
    return tuple(Chosen(kind_named(word), names) for word in kinds)


def _pair(word: str) -> Chosen:
    kind, slash, name = word.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise click.UsageError(f'"{word}" is not KIND/NAME; use KIND/NAME for all')
    return Chosen(kind_named(kind), (name,))


def object_named(words: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Return kind and name of at most one object: `KIND`, `KIND NAME` or `KIND/NAME`; `all` is every kind."""
    found = objects_named(words)
    if len(found) != 1 or len(found[0].names) > 1:
        raise click.UsageError(f"expected KIND, KIND NAME or KIND/NAME, got: {' '.join(words)}")
    return found[0].kind, found[0].names[0] if found[0].names else None


def not_found(kind: str, name: str, known: Iterable[str] = ()) -> Refused:
    """Return the error for a missing object; ``known`` are the names of existing objects."""
    return errors.not_found(plural(kind), name, known)


def ambiguous(name: str, kinds: Iterable[str]) -> str:
    """Return the error for a name alone that means objects of several kinds."""
    return f'"{name}" alone means several objects; say which: {" or ".join(f"{plural(k)[:-1]}/{name}" for k in kinds)}'


def full_name(kind: str, name: str) -> str:
    """Return an object's name as kubectl writes it: `modeldeployment.reconciler/tiny`."""
    return f"{kind.lower()}.{GROUP}/{name}"
