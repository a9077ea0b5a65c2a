"""Refuses by name the parameters that another server knows and that do nothing here. Pure.

A parameter in no row of the table is known to nobody and is ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from reconciler.gateway.errors import ApiError, unsupported

from .fields import Fields
from .parameter_table import INSIDE, ROWS, Row

_KNOWN: Mapping[tuple[str, str], Row] = {
    (path, name): row for row in ROWS for path in row.on for name in row.names
}
_KNOWN_INSIDE: Mapping[tuple[str, str], Row] = {
    (where, name): row for where, rows in INSIDE.items() for row in rows for name in row.names
}


def refuse_unsupported(fields: Fields, path: str) -> None:
    """Raise ``ApiError`` (400) for a parameter that another server knows and that has no effect on this path, unless
    its value has no effect anywhere. ``path`` is one of ``PATHS``."""
    for name in fields.names():
        row = _KNOWN.get((path, name))
        if row is not None and path not in row.works and not row.accepts(name, fields.value(name)):
            raise _refused(fields, name, row)


def refuse_unsupported_inside(fields: Fields, where: str) -> None:
    """Raise the same for a field of an object within the request. ``where`` is a key of ``INSIDE``."""
    for name in fields.names():
        row = _KNOWN_INSIDE.get((where, name))
        if row is not None and not row.works and not row.accepts(name, fields.value(name)):
            raise _refused(fields, name, row)


def _refused(fields: Fields, name: str, row: Row) -> ApiError:
    elsewhere = " and ".join(sorted(row.works))
    why = f"only {elsewhere} have it" if elsewhere else row.note
    return dataclasses.replace(unsupported(name, fields.path(name), why), code=row.code)
