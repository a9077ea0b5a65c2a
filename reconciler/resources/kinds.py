"""Every kind by its name. A kind has no fields for features that do not exist yet."""

from __future__ import annotations

from importlib import import_module

from .base import Manifest
from .registry import SPECS

KINDS: dict[str, type[Manifest]] = {
    spec.name: getattr(import_module(f"{__package__}.{spec.module}"), spec.name) for spec in SPECS
}
"""The class of each kind, in the order of lists."""
