"""The snapshots of one pass, and the questions that every decision asks of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, TypeVarTuple

from reconciler.resources import LOCAL, Access
from reconciler.state import (
    Contact,
    DeploymentName,
    Desired,
    Memory,
    NodeName,
    NodeObservation,
    Observed,
    ReplicaId,
)
from reconciler.wire.node import NodeReport

CLOCK_JUMP_SECONDS = 120.0
"""Nothing within one controller's life waits longer: a later time was set before the clock went back."""
DECIDED = frozenset({"groups", "transport_failures", "verbs"})
"""The fields of the memory that decisions of a pass change before its end."""
T = TypeVar("T")
About = TypeVarTuple("About")


def due(at: float, now: float) -> bool:
    """Return whether a time that this controller has set has come, or was set before the clock went back."""
    return at <= now or at - now > CLOCK_JUMP_SECONDS


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a plan is made from."""

    desired: Desired
    observed: Observed
    memory: Memory
    now: float
    """Seconds of the controller's clock."""
    entropy: str
    """Secret randomness of this pass, from which groups' secrets are derived."""
    no_extra: Mapping[DeploymentName, str] = field(default_factory=dict)
    """Why a deployment gets no extra replica during a change, as decided so far in this pass."""
    cramped: frozenset[DeploymentName] = frozenset()
    """Deployments with a replica that has found too few nodes or too little memory, as decided so far in this pass."""
    answers: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The answers of ``once``. Every new world begins without answers, except one that ``decided`` returns."""
    momentary: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The answers of ``once_as_decided``."""

    def once(self, ask: Callable[[World, *About], T], *about: *About, key: Hashable = None) -> T:
        """Return ``ask(world, *about)``, asked once in a pass: for each node, or for all, whatever is decided meanwhile.

        ``ask`` must not depend on the ``DECIDED`` fields of the memory. ``about`` is hashable; ``key`` stands for it, if
        given: it is equal wherever the answers are.
        """
        return self._answer(self.answers, ask, about, key)

    def once_as_decided(self, ask: Callable[[World, *About], T], *about: *About) -> T:
        """Return ``ask(world, *about)``, asked again after each decision that changes the ``DECIDED`` fields."""
        return self._answer(self.momentary, ask, about, None)

    def _answer(
        self,
        known: dict[tuple[Any, ...], Any],
        ask: Callable[[World, *About], T],
        about: tuple[*About],
        key: Hashable,
    ) -> T:
        entry = (ask, *about) if key is None else (ask, key)
        if entry not in known:
            known[entry] = ask(self, *about)
        found: T = known[entry]
        return found

    def decided(self, **changed: Any) -> World:
        """Return this world after a decision that changes some of the ``DECIDED`` fields; the answers of ``once`` stay."""
        assert changed.keys() <= DECIDED
        return self._after(memory=replace(self.memory, **changed))

    def without_extra(self, name: DeploymentName, why: str) -> World:
        """Return this world with the reason why a deployment gets no extra replica."""
        return self._after(no_extra={**self.no_extra, name: why})

    def without_room(self, name: DeploymentName) -> World:
        """Return this world after a replica of a deployment has found no place."""
        return self._after(cramped=self.cramped | {name})

    def _after(self, **changed: Any) -> World:
        after = replace(self, **changed)
        object.__setattr__(after, "answers", self.answers)
        return after

    def node(self, name: NodeName) -> NodeObservation:
        """Return the observation of a node. A node that was never seen has an unknown contact."""
        return self.observed.nodes.get(name) or NodeObservation(name, Contact.UNKNOWN, self.now)

    def access(self, name: NodeName) -> Access:
        """Return how a node is reached: as its manifest says, else as its agent was reached when it was started."""
        return self.desired.accesses.get(name) or self.memory.agents.get(name, LOCAL)

    def reached(self, name: NodeName) -> bool:
        """Return whether the node's agent answers now."""
        return self._current_report(name) is not None

    def _current_report(self, name: NodeName) -> NodeReport | None:
        node = self.node(name)
        return node.report if node.contact is Contact.REACHED else None

    def boot(self, name: NodeName) -> str:
        """Return the boot id that the machine was last seen with; empty if it was never seen."""
        node = self.node(name)
        return node.report.boot_id if node.report else node.facts.boot_id

    def seen_since_last_write(self, name: NodeName) -> bool:
        """Return whether the node was seen after this controller's last change to it, and with its newest token.

        Compares the number of the connection and the agent's own sequence, never clocks: a decision on an older
        observation could undo what has just been done. A connection ends with its agent and with the machine's boot,
        and the next has a higher number. An agent that was looked at with a token refuses every request with an older
        one.
        """
        report = self._current_report(name)
        if report is None:
            return False
        if report.asked_with is not None and report.asked_with < self.memory.token:
            return False
        write = self.memory.writes.get(name)
        return write is None or (self.node(name).link, report.sequence) >= (write.link, write.sequence)

    def ended_by_requests(self, replica: ReplicaId) -> frozenset[int]:
        """Return the epochs of a replica's groups that requests ended, as long as their prompts are quarantined."""
        gateway = self.observed.gateway
        return frozenset(
            group.epoch
            for prompt in (gateway.quarantined if gateway else ())
            if prompt.model == replica.deployment
            for group in prompt.ended
            if group.replica == replica.index
        )
