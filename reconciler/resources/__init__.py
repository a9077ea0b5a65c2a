"""The manifest kinds: frozen, versioned pydantic models, and their JSON Schemas."""

from typing import TYPE_CHECKING, Any

from .words import API_VERSION, KIND_NAMES, PLURALS, SHORT_NAMES

if TYPE_CHECKING:
    from .base import NAME_PATTERN, NAME_RULE, Metadata, Strict
    from .kinds import (
        KINDS,
        Gateway,
        Health,
        Manifest,
        Model,
        ModelDeployment,
        Node,
        NodeSpec,
        Notifier,
        Parallelism,
        Webhook,
        is_loopback,
    )

__all__ = [
    "API_VERSION",
    "KINDS",
    "KIND_NAMES",
    "NAME_PATTERN",
    "NAME_RULE",
    "PLURALS",
    "SHORT_NAMES",
    "Gateway",
    "Health",
    "Manifest",
    "Metadata",
    "Model",
    "ModelDeployment",
    "Node",
    "NodeSpec",
    "Notifier",
    "Parallelism",
    "Strict",
    "Webhook",
    "is_loopback",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The kinds, loaded with pydantic when they are used: completing a word is to take no longer than typing."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import base, kinds

        return getattr(base if hasattr(base, name) else kinds, name)
