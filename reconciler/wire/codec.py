"""Frozen dataclasses to JSON objects and back, checked.

A message is a frozen dataclass decorated with ``@message("type")``. Decoding is strict about what it
knows (a missing field or a wrong type is a ``WireError``) and lenient about what it does not: an unknown
field comes from a newer peer and is ignored.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Type, TypeVar, Union

M = TypeVar("M")


class WireError(Exception):
    """A frame that is not what the protocol says. The connection it came from is of no more use."""


def message(type_name: str) -> Callable[[Type[M]], Type[M]]:
    """Name a dataclass on the wire: its frames carry ``"type": type_name``."""

    def mark(cls: Type[M]) -> Type[M]:
        cls.TYPE = type_name  # type: ignore[attr-defined]
        return cls

    return mark


def vocabulary(*messages: type) -> Dict[str, type]:
    """The messages that one side of a conversation may receive, by their type's name."""
    return {cls.TYPE: cls for cls in messages}  # type: ignore[attr-defined]


def to_wire(value: Any) -> Dict[str, Any]:
    """A message as a JSON object, with its ``type`` where it has one."""
    fields = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    name = getattr(value, "TYPE", None)
    return fields if name is None else {"type": name, **fields}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_wire(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def decode(frame: Mapping[str, Any], known: Mapping[str, type]) -> Any:
    """The message in a frame. Raises ``WireError`` for an unknown type or malformed fields."""
    name = frame.get("type")
    cls = known.get(name) if isinstance(name, str) else None
    if cls is None:
        raise WireError("unknown message type {!r}, expected one of {}".format(name, sorted(known)))
    return from_wire(cls, frame)


def from_wire(cls: Type[M], frame: Mapping[str, Any]) -> M:
    """Build one dataclass from a JSON object. Raises ``WireError`` naming the field that does not fit."""
    if not isinstance(frame, Mapping):
        raise WireError("{}: expected an object, got {}".format(cls.__name__, type(frame).__name__))
    values: Dict[str, Any] = {}
    for name, hint, required in _fields(typing.cast(Any, cls)):
        if name in frame:
            values[name] = _typed(hint, frame[name], cls.__name__ + "." + name)
        elif required:
            raise WireError("{}: field {!r} is missing".format(cls.__name__, name))
    return cls(**values)


@functools.lru_cache(maxsize=None)
def _fields(cls: Any) -> Tuple[Tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(cls)
    missing = dataclasses.MISSING
    return tuple(
        (f.name, hints[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(cls)
    )


def _typed(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    origin = typing.get_origin(hint)
    if origin is Union:
        return _union(typing.get_args(hint), value, where)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise WireError("{}: expected a list, got {}".format(where, type(value).__name__))
        item = typing.get_args(hint)[0]
        return tuple(_typed(item, entry, where) for entry in value)
    if origin is not None and issubclass(origin, typing.cast(type, Mapping)):
        if not isinstance(value, Mapping):
            raise WireError("{}: expected an object, got {}".format(where, type(value).__name__))
        item = typing.get_args(hint)[1]
        return {str(key): _typed(item, entry, where) for key, entry in value.items()}
    if dataclasses.is_dataclass(hint):
        return from_wire(typing.cast(type, hint), value)
    return _scalar(hint, value, where)


def _union(options: Tuple[Any, ...], value: Any, where: str) -> Any:
    """Only ``Optional[T]`` is used on the wire: tagged messages have vocabularies instead."""
    if value is None and type(None) in options:
        return None
    (option,) = [o for o in options if o is not type(None)]
    return _typed(option, value, where)


def _scalar(hint: type, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    fits = isinstance(value, hint) and not (hint is int and isinstance(value, bool))
    if not fits:
        raise WireError("{}: expected {}, got {!r:.80}".format(where, hint.__name__, value))
    return value


@message("hello")
@dataclasses.dataclass(frozen=True)
class Hello:
    """The first frame of either side of every connection."""

    role: str
    versions: Tuple[int, ...]


@message("refused")
@dataclasses.dataclass(frozen=True)
class Refused:
    """An error as an answer. ``code`` is a CamelCase reason for programs, ``text`` a sentence for people."""

    code: str
    text: str


def agree(mine: Tuple[int, ...], theirs: Tuple[int, ...]) -> int:
    """The newest version that both sides speak. Raises ``WireError`` where there is none."""
    common: Optional[int] = max(set(mine) & set(theirs), default=None)
    if common is None:
        raise WireError("no common protocol version: this side speaks {}, the other {}".format(mine, theirs))
    return common
