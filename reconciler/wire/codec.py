"""Converts frozen dataclasses to JSON objects and back, and checks them.

A message is a class decorated with ``@message("type")``, which makes it a frozen dataclass. Decoding is strict about
known fields (a missing field or a wrong type is a ``WireError``). Unknown fields come from a newer peer and are ignored.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Tuple, Type, TypeVar, Union

M = TypeVar("M")

if TYPE_CHECKING:
    from typing import dataclass_transform
else:  # Python 3.9 has none, and only the checker of types needs it

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda function: function


class WireError(Exception):
    """A frame that violates the protocol. Its connection is of no more use."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def message(type_name: str) -> Callable[[Type[M]], Type[M]]:
    """Make a class a frozen dataclass with a name on the wire: its frames carry ``"type": type_name``."""

    def mark(cls: Type[M]) -> Type[M]:
        cls.TYPE = type_name  # type: ignore[attr-defined]
        return dataclasses.dataclass(frozen=True)(cls)

    return mark


def vocabulary(*messages: type) -> Dict[str, type]:
    """Return the messages that one side of a conversation may receive, by type name."""
    return {cls.TYPE: cls for cls in messages}  # type: ignore[attr-defined]


_SIMPLE = frozenset((str, int, float, bool, type(None)))


def to_wire(value: Any, brief: bool = False) -> Dict[str, Any]:
    """Return a message as a JSON object, with its ``type`` if it has one.

    ``brief`` leaves out fields that have their defaults, for messages that come by the thousand.
    """
    cls = type(value)
    name = getattr(cls, "TYPE", None)
    made: Dict[str, Any] = {} if name is None else {"type": name}
    for field, default in _defaults(typing.cast(Any, cls)):
        found = getattr(value, field)
        if not (brief and found == default):
            made[field] = found if type(found) in _SIMPLE else _plain(found)
    return made


@functools.lru_cache(maxsize=None)
def _defaults(cls: Any) -> Tuple[Tuple[str, Any], ...]:
    return tuple((f.name, f.default) for f in dataclasses.fields(cls))


def _plain(value: Any) -> Any:
    if type(value) in _SIMPLE:  # nearly every value; the checks below cost ten times as much
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_wire(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def decode(frame: Mapping[str, Any], known: Mapping[str, type]) -> Any:
    """Return the message in a frame. Raises ``WireError`` for an unknown type or malformed fields."""
    name = frame.get("type")
    cls = known.get(name) if isinstance(name, str) else None
    if cls is None:
        raise WireError("unknown message type {!r}, expected one of {}".format(name, sorted(known)))
    return from_wire(cls, frame)


Reader = Callable[[Any], Any]
"""Checks one plain value and converts it for a field. Built once per field, because events come by the thousand."""


def from_wire(cls: Type[M], frame: Mapping[str, Any]) -> M:
    """Build one dataclass from a JSON object. Raises ``WireError`` naming the field that does not fit."""
    # the second check alone would take a microsecond for each event
    if type(frame) is not dict and not isinstance(frame, Mapping):
        raise WireError("{}: expected an object, got {}".format(cls.__name__, type(frame).__name__))
    shape = _shape(typing.cast(Any, cls))
    plain, readers = shape.plain, shape.readers
    values: Dict[str, Any] = {}
    for name, value in frame.items():
        if type(value) is plain.get(name):  # nearly every value
            values[name] = value
        elif name in readers:
            values[name] = readers[name](value)
    if not values.keys() >= shape.required:
        missing = next(name for name in readers if name in shape.required and name not in values)
        raise WireError("{}: field {!r} is missing".format(cls.__name__, missing))
    made: M = shape.make(values)
    return made


class _Shape:
    """The reader of one dataclass."""

    def __init__(self, cls: Any) -> None:
        hints = typing.get_type_hints(cls)
        fields = dataclasses.fields(cls)
        missing = dataclasses.MISSING
        self.readers = {f.name: _reader(hints[f.name], cls.__name__ + "." + f.name) for f in fields}
        self.plain = {f.name: hints[f.name] for f in fields if hints[f.name] in _SIMPLE}
        """The types of fields whose values are taken as they are, if they have that type."""
        self.required = frozenset(
            f.name for f in fields if f.default is missing and f.default_factory is missing
        )
        self._cls = cls
        self._defaults = {f.name: f.default for f in fields if f.default is not missing}
        self._factories = {f.name: f.default_factory for f in fields if f.default_factory is not missing}
        assert not hasattr(cls, "__post_init__"), "make() would pass it over"

    def make(self, values: Dict[str, Any]) -> Any:
        """Return an object with these values, without ``__init__``, which takes several times as long in a frozen class
        because it may not simply set the fields."""
        made = object.__new__(self._cls)
        made.__dict__.update(self._defaults)
        made.__dict__.update(values)
        for name, factory in self._factories.items():
            if name not in values:
                made.__dict__[name] = factory()
        return made


@functools.lru_cache(maxsize=None)
def _shape(cls: Any) -> _Shape:
    return _Shape(cls)


def _reader(hint: Any, where: str) -> Reader:
    if hint is Any:
        return _as_it_is
    origin = typing.get_origin(hint)
    if origin is Union:
        return _optional(typing.get_args(hint), where)
    if origin is tuple:
        return _tuple(typing.get_args(hint)[0], where)
    if origin is not None and issubclass(origin, typing.cast(type, Mapping)):
        return _mapping(typing.get_args(hint)[1], where)
    if dataclasses.is_dataclass(hint):
        return functools.partial(from_wire, typing.cast(type, hint))
    return _scalar(hint, where)


def _as_it_is(value: Any) -> Any:
    return value


def _optional(options: Tuple[Any, ...], where: str) -> Reader:
    """Return the reader of an ``Optional[T]``, the only union on the wire: tagged messages have vocabularies
    instead."""
    (option,) = [o for o in options if o is not type(None)]
    inner = _reader(option, where)
    return lambda value: None if value is None else inner(value)


def _tuple(item: Any, where: str) -> Reader:
    inner = _reader(item, where)
    plain = {item} if item in _SIMPLE else set()

    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise WireError("{}: expected a list, got {}".format(where, type(value).__name__))
        if plain.issuperset(map(type, value)):
            return tuple(value)
        return tuple([inner(entry) for entry in value])

    return read


def _mapping(item: Any, where: str) -> Reader:
    inner = _reader(item, where)

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise WireError("{}: expected an object, got {}".format(where, type(value).__name__))
        return {str(key): inner(entry) for key, entry in value.items()}

    return read


def _scalar(hint: type, where: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is hint:
            return value
        if hint is float and type(value) is int:
            return float(value)
        raise WireError("{}: expected {}, got {!r:.80}".format(where, hint.__name__, value))

    return read


@message("hello")
class Hello:
    """The first frame of either side of every connection."""

    role: str
    versions: Tuple[int, ...]


@message("refused")
class Refused:
    """An error as an answer. ``code`` is a CamelCase reason for programs, ``text`` a sentence for people."""

    code: str
    text: str


def agree(mine: Tuple[int, ...], theirs: Tuple[int, ...]) -> int:
    """Return the newest version that both sides support. Raises ``WireError`` if there is none."""
    common: Optional[int] = max(set(mine) & set(theirs), default=None)
    if common is None:
        raise WireError("no common protocol version: this side speaks {}, the other {}".format(mine, theirs))
    return common
