"""The parts that all kinds share: strict frozen models, and the types of quantities, names and other text."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from .registry import API_VERSION

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core.core_schema import CoreSchema

ApiVersion = Annotated[
    Literal["reconciler/v1alpha1"], Field(description="The version of the manifest's format.")
]
assert API_VERSION == "reconciler/v1alpha1"

TYPE = "x-type"
"""Keyword of the JSON Schemas: the name that people read for the type of a text, such as ``duration``."""

_BYTES = re.compile(r"^([0-9]{1,16}(?:\.[0-9]{1,12})?)[ ]*(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)?$")
_BYTE_UNITS = {
    None: 1, "B": 1,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
BYTES_MAX = 1024 * 2**40
SECONDS_MAX = 366 * 24 * 3600
_DURATION = re.compile(r"^([0-9]{1,12}(?:\.[0-9]{1,12})?)(ms|s|m|h)$")
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _docstrings(kind: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of the fields that a class itself declares."""
    (declared,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(declared, ast.ClassDef)
    found = {}
    for field, text in pairwise(declared.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = inspect.cleandoc(words)
            case _:
                continue
    return found


class Strict(BaseModel):
    """Base of every piece of a manifest. Field names are camelCase in YAML."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Fields of other tools, each with the hint for a user who writes it here: its replacement, or why there is
    none."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        defer_build=True,  # a process validates few of the kinds, and a command has to start quickly
    )

    @classmethod
    def by_default(cls) -> Self:
        """Return the default. Builds no validator, because most processes need few."""
        return super().model_construct()

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe each field by its docstring. The sources are read only when a schema is written, which few processes
        do."""
        body = handler(core_schema)
        properties = handler.resolve_ref_schema(body).get("properties", {})
        for described in properties.values():
            if write := _WRITTEN.get(described.get(TYPE)) if described.get("default") is not None else None:
                described["default"] = write(described["default"])
        for kind in cls.__mro__:
            if issubclass(kind, Strict):
                for name, text in _docstrings(kind).items():
                    properties.get(to_camel(name), {}).setdefault("description", text)
        return body


def _parse_bytes(value: Any) -> Any:
    match = _BYTES.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('expected a size such as "24GiB" or "512MiB"')
    size = round(float(match[1]) * _BYTE_UNITS[match[2]])
    if size > BYTES_MAX:
        raise ValueError(f"expected a size of at most {_write_bytes(BYTES_MAX)}")
    return size


def _parse_seconds(value: Any) -> Any:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('expected a duration such as "30s", "5m" or "1h"')
    seconds = round(float(match[1]) * _DURATION_UNITS[match[2]], 6)
    if seconds > SECONDS_MAX:
        raise ValueError(f"expected a duration of at most {SECONDS_MAX // 3600}h")
    return seconds


def _write_seconds(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") + "s"


def _write_bytes(value: int) -> str:
    unit = next((u for u in ("TiB", "GiB", "MiB", "KiB") if value and value % _BYTE_UNITS[u] == 0), "B")
    return f"{value // _BYTE_UNITS[unit]}{unit}"


_WRITTEN: Mapping[str | None, Callable[[Any], str]] = {"bytes": _write_bytes, "duration": _write_seconds}
"""The functions that write a quantity for a manifest, by the type that its schema names."""

Bytes = Annotated[
    int,
    BeforeValidator(_parse_bytes),
    PlainSerializer(_write_bytes, return_type=str),
    WithJsonSchema({"type": "string", TYPE: "bytes", "pattern": _BYTES.pattern, "examples": ["24GiB"]}),
]
"""A size in bytes, written with a unit."""

Seconds = Annotated[
    float,
    BeforeValidator(_parse_seconds),
    PlainSerializer(_write_seconds, return_type=str),
    WithJsonSchema({"type": "string", TYPE: "duration", "pattern": _DURATION.pattern, "examples": ["30s"]}),
]
"""A duration in seconds, written with a unit."""


@dataclass(frozen=True, slots=True)
class Text:
    """A form of text in manifests."""

    type: str
    """Its name in `explain` and in the schemas."""
    rule: str
    """``pattern`` in words, for messages: it follows "expected"."""
    pattern: str
    max_length: int
    example: str | None = None

    def field(self) -> Any:
        """Return the constraints for ``Annotated[str, …]``."""
        extra: dict[str, Any] = {TYPE: self.type, **({"examples": [self.example]} if self.example else {})}
        return Field(pattern=self.pattern, max_length=self.max_length, json_schema_extra=extra)


NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
NAME_RULE = 'lower-case letters, digits, "-" and ".", with a letter or digit at both ends'
NAME = Text("name", NAME_RULE, NAME_PATTERN, 63)
PATH = Text("path", 'an absolute path, or one that begins with "~"', r"^[/~]", 1024)
ABSOLUTE_PATH = Text("path", "an absolute path", r"^/", 1024)
VARIABLE = Text("variable", "the name of an environment variable", r"^[A-Za-z_][A-Za-z0-9_]{0,127}$", 128)
HOST = Text("host", "a host name or an address", r"^[A-Za-z0-9][A-Za-z0-9.:%_-]*$", 253)
USER = Text("user", "the name of a user", r"^[A-Za-z0-9_][A-Za-z0-9_.@-]*$", 64)
REPOSITORY = Text(
    "repository",
    'a repository such as "owner/name"',
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}$",
    128,
    "mlx-community/Llama-3.2-1B-Instruct-4bit",
)
HASH = Text("hash", '"sha256:" and 64 hexadecimal digits', r"^sha256:[0-9a-f]{64}$", 71)
ORIGIN = Text(
    "origin",
    'the origin of a web page such as "https://app.example.com", without a path, or "*"',
    r"^(\*|https?://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?)$",
    300,
    "https://app.example.com",
)
STORE_ADDRESS = Text(
    "host:port",
    "a host name or an address, and a port",
    r"^([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$",
    260,
    "limits.example.com:6379",
)
NAMES = Text(
    "pattern of names",
    'a name, in which "*" and "?" stand for other characters',
    r"^[a-z0-9*?][-a-z0-9.*?]*$",
    63,
    "chat-*",
)
LABEL_KEY = Text(
    "label key",
    'letters, digits, "-", "_", "." and "/", with a letter or digit at both ends',
    r"^[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?$",
    253,
)
LABEL_VALUE = Text(
    "label value",
    'letters, digits, "-", "_" and ".", with a letter or digit at both ends',
    r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
    63,
)
OPERATION_NAME = Text("operation name", "VERB.KIND.NAME in lower case", r"^[a-z]+\.[a-z]+\.[-a-z0-9.]+$", 128)
TARGET_NAME = Text("name", "the name of an object, or the full id of a commit", r"^[a-z0-9][-a-z0-9.]*$", 64)
PATTERN_RULES = {text.pattern: text.rule for text in tuple(globals().values()) if isinstance(text, Text)}
"""Each pattern in words: messages never show a regular expression."""

Name = Annotated[str, NAME.field()]
"""Lower-case letters, digits, ``-`` and ``.``; at most 63 characters, as in DNS labels."""
Path = Annotated[str, PATH.field()]
Variable = Annotated[str, VARIABLE.field()]
Label = Annotated[str, Field(max_length=63)]


class Metadata(Strict):
    """The name and labels of an object."""

    name: Name
    """Name of the object, unique within its kind."""
    labels: dict[str, Label] = Field(default_factory=dict)
    """Labels by which objects are selected: `reconciler get nodes -l pool=studios`."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Notes for people and other tools. The reconciler ignores them."""


class Manifest(Strict):
    """The fields of every object. Each kind narrows ``kind`` and adds its ``spec``."""

    api_version: ApiVersion
    kind: str
    """The kind of the object, which decides the fields of its spec."""
    metadata: Metadata

    def body(self, *, defaults: bool = True) -> dict[str, Any]:
        """Return it as its author could have written it, with all ``defaults`` or with only what is set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=defaults, exclude_unset=not defaults)
