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
"""So often each kind comes, where the time allows it."""
HARD_SHARE = 0.3
"""Of the faults: so many end a group that serves, at most. One that is being formed cannot be broken."""
REST_SECONDS = 2.0
"""A machine that was just broken is left alone for so long."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to break something. ``{0}`` in its commands is what is broken."""

    name: str
    do: str
    """Words for ``reconciler sandbox``; empty where a process is killed instead (``kills``)."""
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
    Kind("kill", "kill {0}", NODES, "RankExited|RankCrash|C8", ends_group=True),
    Kind("unplug", "unplug {0}", CABLES, "C3|no cable|LinkDown|signal 11", "plug {0}", (6, 10), ends_group=True),
    Kind("reboot", "reboot {0} 12", NODES, "C12|C0|restarted|does not answer", lasts=(12, 12), ends_group=True),
    Kind("hang", "hang {0}", NODES, "C9|no progress|stands still", "hang {0} --undo", (4, 9)),
    Kind(
        "unkillable", "unkillable {0} 12", NODES, "C18|SIGKILL|no progress", "unkillable {0} --undo", (65, 75),
        ends_group=True,
    ),
    Kind("decay", "decay {0}", NODES, "RankExited|C15", "decay {0} --undo", (3, 6), ends_group=True),
    Kind("gpu-fault", "gpu-fault {0}", NODES, "C10|Gpu|GPU", "gpu-fault {0} --undo", (8, 12), ends_group=True),
    Kind("agent", "", NODES, "Agent", kills=".pyz serve"),
    Kind("partition", "partition {0}", NODES, "C0|Unreachable|does not answer", "partition {0} --undo", (3, 8)),
    Kind("slow-ssh", "slow-ssh {0} 2", NODES, "C0|Unreachable|does not answer", "slow-ssh {0} --undo", (5, 10)),
    Kind("mute", "mute {0}", NODES, "C17|C9|no progress|no completion", "mute {0} --undo", (3, 8)),
    Kind("slow-cable", "slow-cable {0}", CABLES, "C1|Gb/s|slow", "slow-cable {0} --undo", (5, 10)),
    Kind("dock", "dock {0}", CABLES, "C1|Gb/s|dock", "dock {0} --undo", (5, 10)),
    Kind("leak-wired", "leak-wired {0} 100", NODES, "C11|[Ww]ired", "leak-wired {0} --undo", (6, 10)),
    Kind("wedge-verbs", "wedge-verbs {0}", NODES, "C13|RDMA tools", "wedge-verbs {0} --undo", (5, 10)),
    Kind("hold-port", "hold-port {0} 1", NODES, "C5|[Pp]ort.*in use|65|66", "hold-port {0} --undo", (5, 10)),
    Kind("no-jaccl", "no-jaccl {0}", NODES, "C1|JACCL", "no-jaccl {0} --undo", (5, 10)),
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
    hard = [kind for kind in kinds if kind.ends_group for _ in range(TIMES_MIN)]
    light = [kind for kind in kinds if not kind.ends_group]
    soft = [kind for kind in light for _ in range(TIMES_MIN)]
    hard = chance.sample(hard, min(len(hard), round(HARD_SHARE * count)))
    soft = chance.sample(soft, min(len(soft), count - len(hard)))
    soft += [chance.choice(light) for _ in range(count - len(hard) - len(soft))]
    chance.shuffle(hard)
    chance.shuffle(soft)
    turns = {int((turn + 0.5) * count / len(hard)) for turn in range(len(hard))}
    return [(hard if place in turns else soft).pop() for place in range(count)]
