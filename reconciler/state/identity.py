"""Identities. Ids are types, so that one cannot be passed for another."""

from __future__ import annotations

from typing import NamedTuple, NewType, Self

from reconciler.resources import Manifest

NodeName = NewType("NodeName", str)
DeploymentName = NewType("DeploymentName", str)


class ObjectKey(NamedTuple):
    """An object of the cluster, as events and conditions name it."""

    kind: str
    name: str

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        return cls(manifest.kind, manifest.metadata.name)

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


CLUSTER = ObjectKey("Cluster", "main")
"""The object of events about all manifests together."""


class ReplicaId(NamedTuple):
    """One running copy of a deployment. Indexes count from 0."""

    deployment: DeploymentName
    index: int  # type: ignore[assignment]  # nobody calls this method of tuples on an id

    def __str__(self) -> str:
        return f"{self.deployment}/{self.index}"

    @property
    def key(self) -> ObjectKey:
        """Return the key of the deployment."""
        return ObjectKey("ModelDeployment", self.deployment)
