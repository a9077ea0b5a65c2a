"""JSON Schemas at random: nested, with references, recursion, enumerations, patterns and unions."""

from __future__ import annotations

import random
import string
from typing import Any

PATTERNS = (
    r"^[a-z]{1,6}$",
    r"^(foo|ba[rz])-\d{1,3}$",
    r"\d",
    r"^#[0-9a-fA-F]{6}$",
    r"^[^\s]{2,8}$",
    "^.{3}$",
)
FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "email", "hostname", "duration", "ipv6")
DEPTH = 3


class Schemas:
    """Draws schemas; equal seeds give equal ones."""

    def __init__(self, seed: int) -> None:
        self._drawn = random.Random(seed)
        self._definitions: dict[str, Any] = {}

    def answer(self) -> dict[str, Any]:
        """The schema of a whole answer."""
        kinds = (self._object, self._object, self._array, self._union, self._text, self._referred)
        return self._with_definitions(self._drawn.choice(kinds)(DEPTH))

    def arguments(self) -> dict[str, Any]:
        """The schema of a tool's arguments."""
        return self._with_definitions(self._object(DEPTH))

    def _with_definitions(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def _any(self, depth: int) -> dict[str, Any]:
        simple = (
            self._text,
            self._text,
            self._integer,
            self._number,
            self._boolean,
            self._enumeration,
            self._constant,
        )
        nested = (
            self._object,
            self._array,
            self._union,
            self._referred,
            self._tuple,
            self._mapping,
            self._all,
        )
        return self._drawn.choice(simple + nested if depth > 0 else simple)(depth - 1)

    def _object(self, depth: int) -> dict[str, Any]:
        names = [self._name() for _ in range(self._drawn.randint(1, 4))]
        properties = {name: self._any(depth) for name in names}
        required = [name for name in properties if self._drawn.random() < 0.6]
        made: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
        if self._drawn.random() < 0.3:
            made["additionalProperties"] = self._drawn.choice((False, self._any(0)))
        if self._drawn.random() < 0.5:
            made |= {"title": self._name(), "description": "described"}
        return made

    def _array(self, depth: int) -> dict[str, Any]:
        least = self._drawn.randint(0, 2)
        return {"type": "array", "items": self._any(depth), "minItems": least, "maxItems": least + 2}

    def _tuple(self, depth: int) -> dict[str, Any]:
        return {"type": "array", "prefixItems": [self._any(0), self._any(0)], "items": False, "minItems": 2}

    def _mapping(self, depth: int) -> dict[str, Any]:
        return {
            "type": "object",
            "patternProperties": {"^x-[a-z]{1,3}$": self._any(0)},
            "additionalProperties": False,
        }

    def _union(self, depth: int) -> dict[str, Any]:
        return {"anyOf": [self._any(depth) for _ in range(self._drawn.randint(2, 3))]}

    def _all(self, depth: int) -> dict[str, Any]:
        one, other = self._object(0), self._object(0)
        return {
            "allOf": [
                {k: one[k] for k in ("type", "properties")},
                {k: other[k] for k in ("properties", "required")},
            ]
        }

    def _referred(self, depth: int) -> dict[str, Any]:
        name = f"D{len(self._definitions)}"
        self._definitions[name] = {}
        within = self._object(max(0, depth - 1))
        if self._drawn.random() < 0.5:  # a tree or a list of its kind
            within["properties"]["next"] = {"anyOf": [{"type": "null"}, {"$ref": f"#/$defs/{name}"}]}
        self._definitions[name] = within
        return {"$ref": f"#/$defs/{name}"}

    def _text(self, depth: int) -> dict[str, Any]:
        kind = self._drawn.random()
        if kind < 0.3:
            return {"type": "string", "pattern": self._drawn.choice(PATTERNS), "maxLength": 20}
        if kind < 0.5:
            return {"type": "string", "format": self._drawn.choice(FORMATS)}
        least = self._drawn.randint(0, 3)
        return {"type": "string", "minLength": least, "maxLength": least + self._drawn.randint(0, 8)}

    def _integer(self, depth: int) -> dict[str, Any]:
        least = self._drawn.randint(-50, 50)
        made: dict[str, Any] = {
            "type": "integer",
            "minimum": least,
            "maximum": least + self._drawn.randint(0, 1000),
        }
        if self._drawn.random() < 0.2:
            made = {
                "type": "integer",
                "multipleOf": self._drawn.choice((2, 5, 10)),
                "exclusiveMinimum": 0,
                "maximum": 1000,
            }
        return made

    def _number(self, depth: int) -> dict[str, Any]:
        return {"type": "number", "minimum": -1.5, "exclusiveMaximum": self._drawn.choice((2, 1e3, 0.25))}

    def _boolean(self, depth: int) -> dict[str, Any]:
        return {"type": self._drawn.choice(("boolean", "null", ["boolean", "null"]))}

    def _enumeration(self, depth: int) -> dict[str, Any]:
        return {"enum": self._drawn.sample(["a", 'b\n"c"', "é", 1, 2.5, None, True, ["x"], {"k": 0}, ""], 3)}

    def _constant(self, depth: int) -> dict[str, Any]:
        return {"const": self._drawn.choice(("fixed", 7, {"a": [1]}))}

    def _name(self) -> str:
        return "".join(self._drawn.choices(string.ascii_lowercase, k=self._drawn.randint(1, 6)))
