"""What takes serving replicas down, and what is served instead of a spec that does not come up."""

from __future__ import annotations

from ast import BinOp, BoolOp, Compare, If, IfExp, Subscript

from reconciler.planning.recovery import rollback
from reconciler.planning.replica import ladder
from reconciler.planning.rollout import budget, surge, targets, wish
from tests.mutants.mutant import Mutant
from tests.mutants.operators import always, keep, never, put

TARGETS = ("tests/planning/rollout/test_targets.py",)
SURGE = ("tests/planning/rollout/test_surge.py",)
ROLLBACK = ("tests/planning/rollout/test_rollback.py",)

ROLLED = (
    Mutant(
        "what-is-down-does-not-count",
        "reconciler.planning.rollout.budget:Budget.spare",
        keep(BinOp, "left"),
        "a change takes the last serving replica down while the others are dead",
        TARGETS,
    ),
    Mutant(
        "coming-up-counts-as-serving",
        budget._out,
        never(If, 2, 3),
        "the next replica is taken down before the last one has given a completion: nobody is served",
        TARGETS,
    ),
    Mutant(
        "without-a-route-counts-as-serving",
        budget._doubt,
        keep(BoolOp, "values[0]"),
        "while routes cannot be written, a change leaves clients without the replicas that are to serve",
        TARGETS,
    ),
    Mutant(
        "who-was-not-asked-yet-serves",
        budget._doubt,
        keep(IfExp, "orelse"),
        "a change beside agents that have just started leaves the clients with a replica that reads nothing",
        TARGETS,
    ),
    Mutant(
        "without-a-route-costs-nothing",
        "reconciler.planning.rollout.budget:Budget.lets",
        always(Compare, 2, 4),
        "a change that comes just after groups were formed takes all of them down",
        TARGETS,
    ),
    Mutant(
        "all-are-replaced-at-once",
        targets._turns,
        put(Subscript, "serving[len(serving):]", 4, 6),
        "a change takes all replicas down in the same second",
        TARGETS,
    ),
    Mutant(
        "a-canary-does-not-have-to-serve",
        targets._everything,
        always(Compare, 7, 11),
        "the others follow a canary at once, and crash an hour later as it does",
        TARGETS,
    ),
    Mutant(
        "an-extra-replica-is-not-waited-for",
        targets._turns,
        never(If, 2, 3),
        "who asked for an extra replica is served by one less while it loads",
        SURGE,
    ),
    Mutant(
        "an-extra-replica-ends-too-soon",
        surge.wanted,
        never(If, 1, 2),
        "the extra replica ends while the last one that is changed still loads: nobody serves",
        SURGE,
    ),
    Mutant(
        "an-extra-replica-ends-unrouted",
        surge.wanted,
        put(Compare, "False", 4, 6),
        "the gateway has nobody left: the extra replica ends before it is told of the others",
        SURGE,
    ),
    Mutant(
        "a-drain-takes-no-turn",
        ladder._in_turn,
        always(If),
        "two drained machines take both replicas down together",
        TARGETS,
    ),
    Mutant(
        "any-fault-is-blamed-on-a-change",
        rollback._proven_elsewhere,
        put(Compare, "False", 1, 4),
        "a spec that has served for hours is taken back because one replica cannot come up on its machine",
        ROLLBACK,
    ),
    Mutant(
        "a-kill-is-blamed-on-a-change",
        rollback.step,
        never(If, 3, 5),
        "who kills two ranks to watch them heal takes a harmless change back",
        ROLLBACK,
    ),
    Mutant(
        "a-rollback-outlives-its-change",
        wish._applies,
        put(Compare, "True", 1, 5),
        "a corrected spec is never served: the one before it is, for ever",
        ROLLBACK,
    ),
)
