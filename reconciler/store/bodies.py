"""What is kept as JSON: snapshot nouns as objects of their fields, as ``dataclasses.asdict`` has them.

Without its deep copies: a status is written in nearly every pass in which something happens.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from reconciler.state.reports.status import Condition, ObjectStatus


def written(value: Any) -> str:
    """A dataclass as JSON, with all that is in it; enums by their values."""
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def status(text: str) -> ObjectStatus:
    """A status as it was written."""
    body = json.loads(text)
    conditions = tuple(Condition(**condition) for condition in body["conditions"])
    return ObjectStatus(conditions, body["generation"], body["extra"])
