"""What is broken, when, and for how long: drawn from a seed, and nothing else. Times are seconds from the first moment."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

NODES = ("studio-1", "studio-2", "studio-3", "studio-4")
CABLES = ("studio-1/3", "studio-1/4", "studio-1/5", "studio-2/4", "studio-2/5", "studio-3/5")
"""One end of each cable of ``examples/four-studios``."""
PER_MINUTE = 6.6
"""Ten minutes have 66."""
TIMES_MIN = 3
"""So often each kind comes, where the time allows it; in ten minutes all come."""
HARD_SHARE = 0.25
"""Of the faults: so many end a group that serves, at most. One that is being formed cannot be broken."""
REST_SECONDS = 2.0
"""A machine that was just broken is left alone for so long."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to break something. ``{0}`` in its commands is what is broken."""

    name: str
    fault: str
    """Its class, by which the times are compared."""
    do: str
    """Words for ``reconciler sandbox``, commands apart by a semicolon; empty where a process is killed instead
    (``kills``)."""
    targets: tuple[str, ...]
    signs: str
    """What an event says that tells of it, as a regular expression for its reason and message."""
    undo: str = ""
    """Empty where it is over by itself, or is repaired."""
    lasts: tuple[float, float] = (0.0, 0.0)
    """Seconds until it is taken back, or over by itself, at least and at most."""
    ends_group: bool = False
    """Whether a group that serves ends of it."""
    kills: str = ""
    """Words in the command line of the processes to kill on the machine."""


KINDS = (
    Kind("kill", "C8", "kill {0}", NODES, "RankExited|RankCrash|C8", ends_group=True),
    Kind("unplug", "C3", "unplug {0}", CABLES, "C3|no cable|LinkDown|signal 11", "plug {0}", (6, 10), ends_group=True),
    Kind("reboot", "C12", "reboot {0} 12", NODES, "C12|C0|restarted|does not answer", lasts=(12, 12), ends_group=True),
    Kind("hang", "C9", "hang {0}", NODES, "C9|no progress|stands still", "hang {0} --undo", (4, 9)),
    Kind(
        "unkillable", "C18", "unkillable {0} 12", NODES, "C18|SIGKILL|no progress", "unkillable {0} --undo", (65, 75),
        ends_group=True,
    ),
    Kind("decay", "C15", "decay {0}", NODES, "RankExited|C15", "decay {0} --undo", (3, 6), ends_group=True),
    Kind("gpu-fault", "C10", "gpu-fault {0}", NODES, "C10|Gpu|GPU", "gpu-fault {0} --undo", (8, 12), ends_group=True),
    Kind("agent", "C0", "", NODES, "Agent", kills=".pyz serve"),
    Kind("partition", "C0", "partition {0}", NODES, "C0|Unreachable|does not answer", "partition {0} --undo", (3, 8)),
    Kind("slow-ssh", "C0", "slow-ssh {0} 2", NODES, "C0|Unreachable|does not answer", "slow-ssh {0} --undo", (5, 10)),
    Kind("mute", "C17", "mute {0}", NODES, "C17|C9|no progress|no completion", "mute {0} --undo", (3, 8)),
    Kind("slow-cable", "C1", "slow-cable {0}", CABLES, "C1|Gb/s|slow", "slow-cable {0} --undo", (5, 10)),
    Kind("dock", "C1", "dock {0}", CABLES, "C1|Gb/s|dock", "dock {0} --undo", (5, 10)),
    Kind("leak-wired", "C11", "leak-wired {0} 100", NODES, "C11|[Ww]ired", "leak-wired {0} --undo", (6, 10)),
    Kind("wedge-verbs", "C13", "wedge-verbs {0}", NODES, "C13|RDMA tools", "wedge-verbs {0} --undo", (5, 10)),
    Kind("hold-port", "C5", "hold-port {0} 1", NODES, "C5|[Pp]ort.*in use|65|66", "hold-port {0} --undo", (5, 10)),
    Kind("no-jaccl", "C1", "no-jaccl {0}", NODES, "C1|JACCL", "no-jaccl {0} --undo", (5, 10)),
    Kind("lock", "C0", "lock {0}", NODES, "C0|does not answer|passwords", "lock {0} --undo", (8, 15), ends_group=True),
    Kind(
        "privacy", "C0", "privacy controller", NODES, "C0|does not answer|LocalNetwork", "privacy controller --undo", (4, 8),
        ends_group=True,
    ),
    Kind("change-lan", "C0", "change-lan {0}", NODES, "C0|Unreachable|does not answer", "change-lan {0} --undo", (3, 6)),
    Kind(
        "slow-shutdown", "C12", "slow-shutdown {0} 20", NODES, "C12|C0|restarted|does not answer", "slow-shutdown {0} --undo",
        (30, 30), ends_group=True,
    ),
    Kind(
        "pull", "C12", "pull {0} 6", CABLES, "C12|C3|C0|no cable|does not answer|signal 11", "pull {0} --undo", (12, 16),
        ends_group=True,
    ),
    Kind("gid-index", "C4", "gid-index {0}", CABLES, "C4|index", "gid-index {0} --undo", (5, 10)),
    Kind("late-gid", "C4", "late-gid {0} 20", NODES, "C4|GID", "late-gid {0} --undo", (15, 20)),
    Kind("change-address", "C4", "change-address {0}", CABLES, "C4|is to have"),
    Kind("retake", "C4", "retake {0} 3", CABLES, "C4|bridge", "retake {0} --undo", (6, 12)),
    Kind(
        "firewall", "C5", "firewall {0}; kill {0}", NODES, "C5|firewall|RankExited", "firewall {0} --undo", (10, 20),
        ends_group=True,
    ),
    Kind(
        "busy-qp", "C7", "busy-qp {0}; kill {0}", NODES, "C7|exited with 73", "busy-qp {0} --undo", (15, 25), ends_group=True
    ),
    Kind(
        "leaky", "C7", "leaky {0} 11", NODES, "C7|C11|protection domain|[Ww]ired|signal 9", "leaky {0} --undo", (20, 40),
        ends_group=True,
    ),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Fault:
    """One that is drawn."""

    at: float
    kind: str
    target: str
    """A node, or one end of a cable."""
    over_at: float
    """When it is taken back, or over by itself."""

    @property
    def nodes(self) -> frozenset[str]:
        """The machines that it is about."""
        return concerned(self.target)


OTHER_END = {
    "studio-1/3": "studio-2/3", "studio-1/4": "studio-3/3", "studio-1/5": "studio-4/3",
    "studio-2/4": "studio-3/4", "studio-2/5": "studio-4/4", "studio-3/5": "studio-4/5",
}  # fmt: skip


def concerned(target: str) -> frozenset[str]:
    """The machines that a target is about: of a cable both."""
    return frozenset(end.split("/")[0] for end in (target, OTHER_END.get(target, target)))


def draw(seed: int, minutes: float, kinds: Sequence[Kind] = KINDS) -> list[Fault]:
    """Faults for so many minutes, in the order of their times; the same for the same arguments.

    Of every kind there are ``TIMES_MIN`` where there is room, the rest are of those that end no group. Those that
    end groups are spread over the time: a group that is not up cannot be broken.
    """
    chance = random.Random(seed)
    count = round(minutes * PER_MINUTE)
    gap = minutes * 60.0 / count
    free_at = dict.fromkeys(NODES, 0.0)
    faults: list[Fault] = []
    for number, kind in enumerate(_order(chance, count, kinds)):
        due = number * gap + chance.uniform(0.0, gap / 2)
        starts = {
            target: max([due, *(free_at[node] for node in concerned(target))]) for target in kind.targets
        }
        target = chance.choice([each for each, start in starts.items() if start == min(starts.values())])
        at = starts[target]
        fault = Fault(at, kind.name, target, min(at + chance.uniform(*kind.lasts), minutes * 60.0))
        free_at |= dict.fromkeys(fault.nodes, fault.over_at + REST_SECONDS)
        faults.append(fault)
    return faults


def _order(chance: random.Random, count: int, kinds: Sequence[Kind]) -> list[Kind]:
    """Which kind comes when."""
    light = [kind for kind in kinds if not kind.ends_group]
    hard = _evenly(chance, [kind for kind in kinds if kind.ends_group], round(HARD_SHARE * count))
    soft = _evenly(chance, light, count - len(hard))
    soft += [chance.choice(light) for _ in range(count - len(hard) - len(soft))]
    chance.shuffle(hard)
    chance.shuffle(soft)
    turns = {int((turn + 0.5) * count / len(hard)) for turn in range(len(hard))}
    return [(hard if place in turns else soft).pop() for place in range(count)]


def _evenly(chance: random.Random, kinds: Sequence[Kind], count: int) -> list[Kind]:
    """So many kinds, each about as often, and none more than ``TIMES_MIN`` times."""
    rounds = [chance.sample(kinds, len(kinds)) for _ in range(TIMES_MIN)]
    return [kind for each in rounds for kind in each][:count]
