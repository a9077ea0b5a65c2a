"""What the nodes have in common: taken together once, and then said of each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.state import Desired, NodeName, Observed
from reconciler.state.machine import compatibility

from .snapshots import ConditionState

NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """What counts of every node of which that is known."""

    traits: Mapping[NodeName, compatibility.Traits]
    most: compatibility.Traits
    """What most of them have."""
    usual: tuple[NodeName, ...]
    """Those that have it, by name."""

    @classmethod
    def of(cls, desired: Desired, observed: Observed) -> NodeComparison:
        """Compare every node that is wanted and has told what runs there."""
        traits = {
            name: compatibility.traits(seen.report)
            for name, seen in observed.nodes.items()
            if name in desired.nodes and seen.report is not None and seen.report.runtime
        }
        counts = Counter(traits.values())
        most = max(counts, key=lambda each: (counts[each], [value or "" for value in each]), default=())
        return cls(traits, most, tuple(sorted(name for name, found in traits.items() if found == most)))

    def condition(self, name: NodeName) -> ConditionState:
        """``ParityOk`` of a node: whether it has what most have, for ranks of one group need the same."""
        mine = self.traits.get(name)
        if mine is None:
            return ConditionState("ParityOk", False, "NotCompared", "it is not known yet what runs there")
        different = list(compatibility.differences(mine, self.most))
        if not different:
            lacking = compatibility.unknown(mine, darwin=mine[0] is not None and mine[0].startswith("Darwin"))
            text = f"not known of it, and so not compared: {', '.join(lacking)}" if lacking else ""
            return ConditionState(
                "ParityOk", True, "SameAsMost" if len(self.traits) > 1 else "NothingToCompare", text
            )
        own, usual = (", ".join(f"{each[0]} {each[at]}" for each in different) for at in (1, 2))
        of_system = all(what in compatibility.OF_SYSTEM for what, _, _ in different)
        text = f"{own} here, {usual} on {self._usual()}: ranks of one group need the same; update one of them"
        return ConditionState("ParityOk", False, "SystemDiffers" if of_system else "RuntimeDiffers", text)

    def _usual(self) -> str:
        more = len(self.usual) - NAMES_SHOWN
        return ", ".join(self.usual[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
