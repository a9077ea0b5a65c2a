"""The properties of an emulated machine that ``set`` changes, and the readers of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.errors import Invalid

_switch = {"on": True, "off": False}.__getitem__
SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "version": ("version", str),
    "build": ("build", str),
    "sleep": ("sleep_minutes", int),
    "shutdown": ("shutdown_seconds", float),
    "filevault": ("filevault", _switch),
    "firewall": ("firewall", _switch),
    "updates": ("updates", _switch),
    "indexing": ("weights_indexed", _switch),
    "backup": ("weights_backed_up", _switch),
    "managed": ("managed", _switch),
    "sudo": ("sudo", _switch),
}
"""The field of the machine and the function that reads a value, by the name that people write."""


def parse(word: str) -> tuple[str, Any]:
    """Return the field and the value in ``NAME=VALUE``. Raises ``Invalid``."""
    name, _, value = word.partition("=")
    if name not in SETTINGS:
        raise Invalid(f"{name!r} cannot be set; expected one of {', '.join(SETTINGS)}")
    field, read = SETTINGS[name]
    try:
        return field, read(value)
    except (KeyError, ValueError):
        raise Invalid(f"{value!r} is not a value of {name}; expected a number, or on or off") from None
