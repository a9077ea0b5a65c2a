"""What a pass remembers of the store, asked for again only when something was written since."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reconciler.resources import Access
from reconciler.state import (
    Attempt,
    DeploymentName,
    GroupRecord,
    Leaving,
    NodeName,
    Reboot,
    ReplicaId,
    RungFailure,
    VerbsAttempts,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.notice import Delivery
from reconciler.state.setbacks import Setback

from .connection import Connection


@dataclass(frozen=True, slots=True)
class Content:
    """What is in the store, as ``state.Memory`` has it. Nobody changes the mappings."""

    groups: Mapping[ReplicaId, GroupRecord]
    last_epochs: Mapping[ReplicaId, int]
    agents: Mapping[NodeName, Access]
    leaving: Mapping[ObjectKey, Leaving]
    attempts: Mapping[ReplicaId, tuple[Attempt, ...]]
    deliveries: Mapping[str, Delivery]
    reboots: Mapping[NodeName, Reboot]
    rungs: Mapping[ReplicaId, tuple[RungFailure, ...]]
    verbs: Mapping[NodeName, VerbsAttempts]
    setbacks: Mapping[DeploymentName, Setback]


class Contents:
    """The newest content. What another controller has written is none of it: who is deposed plans no more."""

    def __init__(self, ask: Callable[[], Content], db: Connection) -> None:
        self._ask = ask
        self._db = db
        self._changes = -1
        self._content: Content | None = None

    def read(self) -> Content:
        """What is in the store now. Only between transactions: one may still be rolled back."""
        assert not self._db.in_transaction
        changes = self._db.total_changes
        if self._content is None or changes != self._changes:
            self._content = self._ask()
            self._changes = changes
        return self._content
