"""Bugs that show only with a second one: the third replica, the other rank, the other occasion, what was used before; and
an option that keeps the operator's keys from strangers, which nothing misses where nobody asks for them."""

from __future__ import annotations

from ast import Assign, BoolOp, Dict, Expr

from reconciler.agent.ranks import ranks
from reconciler.execution import executor
from reconciler.planning.rollout import targets
from reconciler.remote.ssh import connection
from reconciler.runner.decode import prefixes
from reconciler.store.tables import notifications
from tests.mutants.mutant import Mutant
from tests.mutants.operators import drop, put, respell

SECONDS = (
    Mutant(
        "a-pause-is-kept-once",
        targets._turns,
        put(Assign, "over = min(since, default=0.0) + found.deployment.spec.strategy.pause", 2, 7),
        "after the first pause all other replicas are changed one right after the other",
        ("tests/planning/rollout/test_targets.py",),
    ),
    Mutant(
        "one-success-forgives-all",
        executor.Executor._note,
        put(Expr, "failures.clear()", 1, 2),
        "a step that fails again and again is tried in a tight loop while another one succeeds",
        ("tests/execution/test_executor.py",),
    ),
    Mutant(
        "one-silent-rank-is-watched",
        ranks.Ranks._tick,
        put(BoolOp, "{it.values[1]} or {it.values[0]}", 0, 4),
        "where two groups hang at once, the second one is never given up",
        ("tests/agent/ranks/test_ranks.py",),
    ),
    Mutant(
        "one-killed-rank-is-counted",
        ranks.Ranks._tick,
        put(BoolOp, "{it.values[1]} or {it.values[0]}", 3, 4),
        "the second rank that SIGKILL does not end keeps its node for ever",
        ("tests/agent/ranks/test_ranks.py",),
    ),
    Mutant(
        "what-is-used-now-counts-as-old",
        prefixes.Prefixes.use,
        drop(Assign, 2, 3),
        "the conversation that goes on is the one whose prompt is read from its beginning again",
        ("tests/runner/decode/test_prefixes.py",),
    ),
    Mutant(
        "machines-see-the-operator-s-keys",
        connection.Connection._options,
        put(Dict, "{{'client_keys': {it.values[0]}}}", 1, 3),
        "keys of the operator's SSH agent are offered to machines that have a key of their own",
        ("tests/remote/test_ssh_connection.py",),
    ),
    Mutant(
        "a-message-takes-others-along",
        notifications.NotificationTable._bound,
        respell("rowid IN (SELECT rowid", "incident IN (SELECT incident"),
        "that an incident is over is never told, because its beginning was given up",
        ("tests/store/test_one_of_many.py",),
    ),
)
