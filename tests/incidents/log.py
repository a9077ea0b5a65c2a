"""An incident log that is written pass by pass, as the controller writes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler import incidents
from reconciler.incidents import Done
from reconciler.state import Outcome, Plan, Trouble
from reconciler.state.reports.incident import EntryKind, Incident, Occasion
from reconciler.status import Statuses, statuses
from tests.worlds import World, two_nodes


@dataclass
class Log:
    """The log of one world, written pass by pass as the controller is working on it."""

    world: World = field(default_factory=two_nodes)
    known: dict[int, Incident] = field(default_factory=dict)
    settled: dict[int, Incident] = field(default_factory=dict)
    last_id: int = 0
    occasions: list[tuple[int, Occasion]] = field(default_factory=list)
    outcomes: list[Done] = field(default_factory=list)
    statuses: Statuses = field(default_factory=dict)

    def look(self, *troubles: Trouble, after: float = 0.0) -> None:
        """A pass whose plan has exactly these troubles."""
        self.world.now += after
        self.follow(Plan(troubles=troubles))

    def go(self, seconds: float = 0.5) -> Plan:
        """A pass of the product's own planning; its steps are obeyed, and take half a second each."""
        decided = self.world.plan()
        self.follow(decided)
        for step in decided.steps:
            self.world.obey(step)
            self.world.now += seconds
            self.outcomes.append((self.world.now, Outcome(step, seconds)))
        return decided

    def heal(self) -> None:
        """Passes until there is nothing left to do."""
        while self.go().steps:
            pass

    def follow(self, decided: Plan) -> None:
        """A pass that has made this plan."""
        world = self.world
        snapshots = world.snapshots(decided)
        self.statuses = statuses(snapshots, self.statuses)
        found = incidents.follow(self.known, self.last_id, snapshots, self.outcomes, self.statuses)
        for number, incident in found.items():
            self.occasions += [
                (number, each) for each in incidents.occasions(self.known.get(number), incident)
            ]
        self.last_id = max([self.last_id, *found])
        self.known = {number: each for number, each in found.items() if not each.settled}
        self.settled |= {number: each for number, each in found.items() if each.settled}
        self.outcomes = []

    def the(self) -> Incident:
        (incident,) = {**self.settled, **self.known}.values()
        return incident

    def texts(self, kind: EntryKind) -> list[str]:
        return [entry.text for entry in self.the().entries if entry.kind is kind]
