"""The manifest kinds: frozen, versioned pydantic models, and their JSON Schemas. Start with ``base.py``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import API_VERSION, KIND_NAMES, PLURALS, SHORT_NAMES, SPECS, STOPPED

if TYPE_CHECKING:
    from .base import PATTERN_RULES, Manifest, Metadata, Strict
    from .deployment import RANKS_MAX, Embedding, Growth, Health, ModelDeployment, Parallelism, RopeScaling
    from .fabric import Addressing, End, Fabric, FabricSpec, Link, link_between
    from .gateway import Gateway
    from .job import Job, JobFile, JobSpec
    from .kinds import KINDS
    from .node import LOCAL, Access, Jobs, Node, NodeSpec, SshAccess
    from .notifier import Notifier, Webhook, is_loopback
    from .weights import HuggingFace, Model, ModelSource, TokenRef, uncommitted

__all__ = [
    "API_VERSION",
    "KINDS",
    "KIND_NAMES",
    "LOCAL",
    "PATTERN_RULES",
    "PLURALS",
    "RANKS_MAX",
    "SHORT_NAMES",
    "SPECS",
    "STOPPED",
    "Access",
    "Addressing",
    "Embedding",
    "End",
    "Fabric",
    "FabricSpec",
    "Gateway",
    "Growth",
    "Health",
    "HuggingFace",
    "Job",
    "JobFile",
    "JobSpec",
    "Jobs",
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
    "RopeScaling",
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
        """Load the kinds and pydantic on first use, so that shell completion stays fast."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        modules = ("base", *(spec.module for spec in SPECS), "kinds")
        loaded = (import_module(f"{__name__}.{module}") for module in modules)
        return getattr(next(module for module in loaded if hasattr(module, name)), name)
