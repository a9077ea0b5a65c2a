"""Snapshots as plain JSON and back: strict, by the types of their fields."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any

from reconciler.state import JobName, ReplicaId, RunId
from reconciler.state.formed_spec import FormedSpec
from reconciler.state.formed_under import Facts
from reconciler.state.identity import ObjectKey
from reconciler.wire.launch import RankId

from .privacy import LEFT_OUT, TEXTS, Disguise, Form

JOB = "job/"
"""Begins the text of a ``RunId``, and of no other id."""
_UNIONS = (typing.Union, types.UnionType)
_WORDS: dict[Any, str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


class Malformed(ValueError):
    """A value does not fit its field; the text begins with its place."""


def outline(value: Any, disguise: Disguise) -> Any:
    """Return a snapshot as plain JSON, without fields that have their defaults, and every text in its form."""
    return _plain(value, disguise, None)


def _plain(value: Any, disguise: Disguise, form: Form | None) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case ReplicaId() | RunId() | RankId() | Facts() | FormedSpec():
            return str(value)
        case ObjectKey():
            return f"{value.kind}/{value.name}"
        case str():
            return form(disguise, value) if form is not None else ""
        case Mapping():
            return {str(key): _plain(each, disguise, form) for key, each in sorted(value.items())}
        case tuple() | list():
            return [_plain(each, disguise, form) for each in value]
        case frozenset():
            return sorted(_plain(each, disguise, form) for each in value)
        case _:
            return _of_fields(value, disguise)


def _of_fields(value: Any, disguise: Disguise) -> dict[str, Any]:
    cls = type(value)
    forms, left_out = TEXTS.get(cls, {}), LEFT_OUT.get(cls, frozenset())
    found = {}
    for each in dataclasses.fields(cls):
        here = getattr(value, each.name)
        if each.name not in left_out and here != _default(each):
            found[camel(each.name)] = _plain(here, disguise, forms.get(each.name))
    return found


def _default(each: dataclasses.Field[Any]) -> Any:
    if each.default_factory is not dataclasses.MISSING:
        return each.default_factory()
    return each.default


@cache
def camel(name: str) -> str:
    """Return a field's name in JSON."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def read(hint: Any, value: Any, place: str) -> Any:
    """Return the value of a field of this type from plain JSON. Raises ``Malformed``."""
    if hint is Any:
        return value
    hint = getattr(hint, "__supertype__", hint)
    origin = typing.get_origin(hint)
    if origin in _UNIONS:
        return _optional(typing.get_args(hint), value, place)
    if origin is not None:
        return _container(origin, typing.get_args(hint), value, place)
    if hint in (ReplicaId, RunId, RankId, ObjectKey, Facts, FormedSpec):
        return _identity(hint, value, place)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _member(hint, value, place)
    if dataclasses.is_dataclass(hint):
        return _dataclass(typing.cast(Any, hint), value, place)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise Malformed(f"{place}: expected {_WORDS.get(hint, hint)}, got {value!r:.60}")
    return value


def _optional(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    if {ReplicaId, RunId} <= {*kinds}:
        return _identity(RunId if str(value).startswith(JOB) else ReplicaId, value, place)
    (kind,) = (each for each in kinds if each is not type(None))
    return read(kind, value, place)


def _container(origin: Any, kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    if origin is tuple and kinds[-1] is not ...:
        return _pair(kinds, value, place)
    if origin in (tuple, frozenset):
        return origin(read(kinds[0], each, f"{place}[{at}]") for at, each in enumerate(_list(value, place)))
    return {
        read(kinds[0], key, place): read(kinds[1], each, f"{place}.{key}")
        for key, each in _object(value, place).items()
    }


def _pair(kinds: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    items = _list(value, place)
    if len(items) != len(kinds):
        raise Malformed(f"{place}: expected {len(kinds)} items, got {len(items)}")
    pairs = zip(kinds, items, strict=True)
    return tuple(read(kind, each, f"{place}[{at}]") for at, (kind, each) in enumerate(pairs))


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise Malformed(f"{place}: expected a list, got {value!r:.60}")
    return value


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Malformed(f"{place}: expected an object, got {value!r:.60}")
    return value


def _identity(hint: Any, value: Any, place: str) -> Any:
    try:
        if hint in (RankId, Facts):
            return hint.parse(value)
        if hint is FormedSpec and (spec := FormedSpec.parse(value)) is not None:
            return spec
        first, slash, last = value.rpartition("/")
        if slash:
            if hint is RunId and first.startswith(JOB):
                return RunId(JobName(first.removeprefix(JOB)), int(last))
            if hint is not RunId:
                return ReplicaId(first, int(last)) if hint is ReplicaId else ObjectKey(first, last)
    except (AttributeError, ValueError):
        pass
    raise Malformed(f"{place}: expected a {hint.__name__}, got {value!r:.60}")


def _member(hint: type[Enum], value: Any, place: str) -> Enum:
    try:
        return hint(value)
    except ValueError:
        expected = ", ".join(str(each.value) for each in hint)
        raise Malformed(f"{place}: expected one of {expected}, got {value!r:.60}") from None


def _dataclass(cls: Any, value: Any, place: str) -> Any:
    fields, given = _fields(cls), {}
    for name, each in _object(value, place).items():
        if name not in fields:
            close = difflib.get_close_matches(name, fields, 1)
            meant = f', did you mean "{close[0]}"?' if close else ""
            raise Malformed(f'{place}: unknown field "{name}"{meant}')
        given[fields[name].attribute] = read(fields[name].hint, each, f"{place}.{name}")
    for name, one in fields.items():
        if one.required and one.attribute not in given:
            if one.attribute not in LEFT_OUT.get(cls, frozenset()):
                raise Malformed(f"{place}: {name} is missing")
            given[one.attribute] = "" if one.hint is str else None
    return cls(**given)


class _Field(typing.NamedTuple):
    attribute: str
    hint: Any
    required: bool


@cache
def _fields(cls: Any) -> dict[str, _Field]:
    """Return the fields of a class by their names in JSON."""
    hints, missing = typing.get_type_hints(cls), dataclasses.MISSING
    return {
        camel(each.name): _Field(
            each.name, hints[each.name], each.default is missing and each.default_factory is missing
        )
        for each in dataclasses.fields(cls)
    }
