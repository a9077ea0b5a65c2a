"""Converts stored JSON: dataclasses as objects of their fields, like ``dataclasses.asdict``.

Avoids its deep copies, because statuses are written in nearly every pass with changes.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from reconciler.state.reports.status import Condition, ObjectStatus
from reconciler.state.subjects import Subject
from reconciler.wire.launch import RankId


def written(value: Any) -> str:
    """Return a dataclass and its contents as JSON; enums as their values, subjects and ids of ranks as text."""
    return _ENCODER.encode(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Subject | RankId):
        return str(value)
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


_ENCODER = json.JSONEncoder(default=_plain)
"""Made once, because ``json.dumps`` makes an encoder for each value."""


def status(text: str) -> ObjectStatus:
    """Return a status from JSON."""
    body = json.loads(text)
    conditions = tuple(Condition(**condition) for condition in body["conditions"])
    return ObjectStatus(conditions, body["generation"], body["extra"])
