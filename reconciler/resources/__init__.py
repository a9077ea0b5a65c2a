"""The manifest kinds: frozen, versioned pydantic models, and their JSON Schemas."""

from typing import TYPE_CHECKING, Any

from .words import API_VERSION, KIND_NAMES, PLURALS, SHORT_NAMES, STOPPED

if TYPE_CHECKING:
    from .base import NAME_PATTERN, NAME_RULE, Metadata, Strict
    from .fabric import Addressing, End, Fabric, FabricSpec, Link, link_between
    from .kinds import (
        KINDS,
        Gateway,
        Growth,
        Health,
        Manifest,
        Model,
        ModelDeployment,
        Notifier,
        Parallelism,
        Webhook,
        is_loopback,
    )
    from .node import LOCAL, Access, Node, NodeSpec, SshAccess
    from .weights import HuggingFace, ModelSource, TokenRef, uncommitted

__all__ = [
    "API_VERSION",
    "KINDS",
    "KIND_NAMES",
    "LOCAL",
    "NAME_PATTERN",
    "NAME_RULE",
    "PLURALS",
    "SHORT_NAMES",
    "STOPPED",
    "Access",
    "Addressing",
    "End",
    "Fabric",
    "FabricSpec",
    "Gateway",
    "Growth",
    "Health",
    "HuggingFace",
    "Link",
    "Manifest",
    "Metadata",
    "Model",
    "ModelDeployment",
    "ModelSource",
    "Node",
    "NodeSpec",
    "Notifier",
    "Parallelism",
    "SshAccess",
    "Strict",
    "TokenRef",
    "Webhook",
    "is_loopback",
    "link_between",
    "uncommitted",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The kinds, loaded with pydantic when they are used: completing a word is to take no longer than typing."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import base, fabric, kinds, node, weights

        found = (module for module in (base, node, fabric, weights, kinds) if hasattr(module, name))
        return getattr(next(found), name)
