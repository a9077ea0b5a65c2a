"""Planted bugs of placement: memory by rank, taints, and the search for nodes."""

from __future__ import annotations

from ast import AugAssign, BoolOp, Call, Constant, Dict, If, Name, Tuple

from reconciler.planning.context import memory_ledger, memory_needs, sharding
from reconciler.planning.nodes import eligible
from reconciler.planning.placement import contexts, explain, search
from reconciler.resources import scheduling
from reconciler.state import memory
from reconciler.store.tables import groups
from tests.mutants.mutant import Mutant
from tests.mutants.operators import always, drop, keep, never, put

NEEDS = ("tests/planning/context/test_memory_needs.py",)
TAINTS = ("tests/planning/nodes/test_eligible.py",)
SHARES = ("tests/runner/model/test_shares.py",)
BRUTE = (*NEEDS, "tests/properties/test_placement.py")
EXPLAIN = ("tests/planning/placement/test_explain.py",)
CONTEXTS = ("tests/planning/placement/test_contexts.py",)

PLACED = (
    Mutant(
        "taints-keep-nobody-off",
        eligible.CandidateNodes.classify,
        never(If, 1, 4),
        "a machine that is kept for one team serves everybody",
        TAINTS,
    ),
    Mutant(
        "every-toleration-is-any",
        scheduling.Toleration.covers,
        always(BoolOp, 1, 2),
        "a toleration of another team's taint opens this one's machines",
        TAINTS,
    ),
    Mutant(
        "memory-has-no-limit",
        memory_ledger._rooms,
        keep(Call, "args[0]", 9, 11),
        "ranks take the memory that a person keeps for other programs",
        TAINTS,
    ),
    Mutant(
        "gpu-wires-all-memory",
        memory_ledger._rooms,
        keep(Call, "args[0]", 6, 11),
        "ranks are given more memory than the GPU may wire, and end when they load",
        ("tests/planning/context/test_gpu_memory.py",),
    ),
    Mutant(
        "every-rank-holds-alike",
        memory_needs._shares,
        always(),
        "a stage with the embeddings, or a whole cache on every rank, has no room on its machine",
        NEEDS,
    ),
    Mutant(
        "windows-are-endless",
        memory_needs._Share.sequence,
        keep(Call, "args[0]", 1, 2),
        "models with sliding windows are refused although they have room",
        NEEDS,
    ),
    Mutant(
        "larger-parts-go-anywhere",
        search.FreeMemory.arranged,
        put(Call, "None", 5, 6),
        "unequal parts are refused although the larger one would fit the larger machine",
        NEEDS,
    ),
    Mutant(
        "auto-is-tensor-or-nothing",
        sharding.splits,
        drop(Call, 4, 5),
        "a model that would run as a pipeline is refused for the memory of its parts by tensor",
        NEEDS,
    ),
    Mutant(
        "only-the-preferred-nodes-are-tried",
        "reconciler.planning.placement.search:SETS_MAX",
        put(Constant, "0"),
        "a replica is refused although other nodes could take and join it",
        NEEDS,
    ),
    Mutant(
        "shared-machines-are-tried-once",
        search.FreeMemory._assigned,
        always(If, 3, 4),
        "unequal ranks on one machine are refused although another order of them fits",
        NEEDS,
    ),
    Mutant(
        "formed-anew-counts-twice",
        memory_ledger.Ledger.moved,
        keep(Call, "args[1].left", 6, 10),
        "a group that is formed anew pushes others off the machine that they share",
        ("tests/planning/context/test_memory_ledger.py", *BRUTE),
    ),
    Mutant(
        "upgrades-charge-anew",
        memory.GroupRecord.charges,
        put(Tuple, "(0,)", 0, 2),
        "what ran before an upgrade costs nothing, and its memory is given away",
        ("tests/planning/placement/test_place.py",),
    ),
    Mutant(
        "the-store-forgets-unequal-ranks",
        groups.Groups.all,
        put(Dict, "{{**{it}, 'needs': ()}}", 1, 2),
        "after a restart every rank is charged what the largest of its group needs",
        ("tests/store/test_store.py",),
    ),
    Mutant(
        "every-rank-is-the-first",
        "reconciler.runner.examination:_split",
        drop(Name, 25, 41),
        "every stage is charged what the last one holds",
        SHARES,
    ),
    Mutant(
        "caches-have-no-window",
        "reconciler.runner.model.memory:_sizes",
        put(Call, "0", 5, 9),
        "windowed layers are charged for the whole context",
        SHARES,
    ),
    Mutant(
        "an-examination-computes",
        "reconciler.runner.model.memory:_uncomputed",
        drop(AugAssign),
        "an examination reads all of a model that is larger than the machine",
        SHARES,
    ),
    Mutant(
        "a-context-leaves-no-room",
        contexts.Charges.room_for,
        always(),
        "the first group takes all memory of a machine, and the next deployment has no place",
        CONTEXTS,
    ),
    Mutant(
        "a-context-is-not-kept",
        contexts.Charges.room_for,
        keep(Call, "args[0]", 1, 5),
        "a group that is formed again is too short for the answers that go on with it",
        CONTEXTS,
    ),
    Mutant(
        "any-context-is-taken",
        contexts.too_long,
        always(If, 0, 2),
        "a model reads what it was not made for, and answers nonsense",
        CONTEXTS,
    ),
    Mutant(
        "quarantine-is-not-explained",
        explain._obstacle,
        never(If, 3, 7),
        "people read that a node is merely not needed, which is kept out",
        EXPLAIN,
    ),
)
