"""Every kind by its name. What a kind cannot do yet it does not accept."""

from __future__ import annotations

from importlib import import_module

from .base import Manifest
from .registry import SPECS

KINDS: dict[str, type[Manifest]] = {
    spec.name: getattr(import_module(f"{__package__}.{spec.module}"), spec.name) for spec in SPECS
}
"""In the order in which lists show them."""
