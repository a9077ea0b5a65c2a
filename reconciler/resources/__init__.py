"""The manifest kinds: frozen, versioned pydantic models, and their JSON Schemas."""

from .base import API_VERSION, NAME_PATTERN, NAME_RULE, Metadata, Strict
from .kinds import (
    KINDS,
    PLURALS,
    SHORT_NAMES,
    Gateway,
    Health,
    Manifest,
    Model,
    ModelDeployment,
    Node,
    Parallelism,
)

__all__ = [
    "API_VERSION",
    "KINDS",
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
    "Parallelism",
    "Strict",
]
