"""A model's own sampling defaults: ``generation_config.json``, as ``transformers`` and vLLM read it."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reconciler.wire.sampling import SamplingDefaults

NAME = "generation_config.json"

log = logging.getLogger("reconciler.runner")


def read_sampling(directory: Path) -> SamplingDefaults:
    """Return a model's defaults. An invalid value is left out, and named in the log."""
    try:
        content = json.loads((directory / NAME).read_bytes())
    except FileNotFoundError:
        return SamplingDefaults()
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s cannot be read, so the model has no defaults of its own: %s", NAME, error)
        return SamplingDefaults()
    defaults, odd = sampling_of(content if isinstance(content, dict) else {})
    for name in odd:
        log.warning("%s: %s is %.80r, which is left out", NAME, name, content[name])
    return defaults


def sampling_of(content: Mapping[str, Any]) -> tuple[SamplingDefaults, tuple[str, ...]]:
    """Return the defaults in a file's content, and the names of invalid values."""
    given = {name: content[name] for name in _FIELDS if content.get(name) is not None}
    odd = tuple(name for name, value in given.items() if not (_is_number(value) and _FIELDS[name](value)))
    known = {name: value for name, value in given.items() if name not in odd}
    if "top_k" in known:
        known["top_k"] = max(0, known["top_k"])
    return SamplingDefaults(**known), odd


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "temperature": lambda value: 0 <= value <= 2,
    "top_p": lambda value: 0 <= value <= 1,
    "top_k": lambda value: isinstance(value, int) and value >= -1,
    "min_p": lambda value: 0 <= value <= 1,
    "repetition_penalty": lambda value: 0.01 <= value <= 100,
}
"""Valid values, as in a request. A ``top_k`` of -1 is off, as 0 is."""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
