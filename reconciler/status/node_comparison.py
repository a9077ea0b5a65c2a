"""Compares the nodes' systems and runtimes once, and reports the result for each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from reconciler.errors import few_names
from reconciler.state import Desired, NodeName, Observed
from reconciler.state.machine import compatibility

from .snapshots import ConditionState


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """The compared facts of every node for which they are known."""

    traits: Mapping[NodeName, compatibility.Traits]
    most: compatibility.Traits
    """The facts of most nodes."""
    usual: tuple[NodeName, ...]
    """Names of the nodes with these facts, sorted."""

    @classmethod
    def of(cls, desired: Desired, observed: Observed) -> NodeComparison:
        """Compare every Node that has reported its system and runtime."""
        traits = {
            name: compatibility.traits(seen.report)
            for name, seen in observed.nodes.items()
            if name in desired.nodes and seen.report is not None and seen.report.runtime
        }
        counts = Counter(traits.values())
        most = max(counts, key=lambda each: (counts[each], [value or "" for value in each]), default=())
        return cls(traits, most, tuple(sorted(name for name, found in traits.items() if found == most)))

    def condition(self, name: NodeName) -> ConditionState:
        """Return ``ParityOk`` of a node: whether it matches most nodes, because the ranks of a group must match."""
        mine, state = self.traits.get(name), partial(ConditionState, "ParityOk")
        if mine is None:
            return state(False, "NotCompared", "its system and runtime are not known yet")
        different = list(compatibility.differences(mine, self.most))
        if not different:
            lacking = compatibility.unknown(mine, darwin=mine[0] is not None and mine[0].startswith("Darwin"))
            text = f"not known, so not compared: {', '.join(lacking)}" if lacking else ""
            return state(True, "SameAsMost" if len(self.traits) > 1 else "NothingToCompare", text)
        own, usual = (", ".join(f"{each[0]} {each[at]}" for each in different) for at in (1, 2))
        of_system = all(what in compatibility.OF_SYSTEM for what, _, _ in different)
        text = f"{own} here, {usual} on {few_names(self.usual)}: the ranks of a group must match; update one of them"
        return state(False, "SystemDiffers" if of_system else "RuntimeDiffers", text)
