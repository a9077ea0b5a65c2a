"""Planted bugs of placement: memory by rank, taints, and the search for nodes."""

from __future__ import annotations

from .mutant import Mutant

NEEDS = ("tests/planning/test_needs.py",)
TAINTS = ("tests/planning/test_taints.py",)
SHARES = ("tests/runner/test_shares.py",)
BRUTE = (*NEEDS, "tests/properties/test_placement.py")
EXPLAIN = ("tests/planning/test_explain.py",)

PLACED = (
    Mutant(
        "taints-keep-nobody-off",
        "reconciler/planning/eligible.py",
        "            if tainted(node, deployment):",
        "            if False:",
        "a machine that is kept for one team serves everybody",
        TAINTS,
    ),
    Mutant(
        "every-toleration-is-any",
        "reconciler/resources/scheduling.py",
        'return self.operator == "Exists" or self.value == taint.value',
        "return True",
        "a toleration of another team's taint opens this one's machines",
        TAINTS,
    ),
    Mutant(
        "memory-has-no-limit",
        "reconciler/planning/ledger.py",
        "return min(room, self._limits.get(host, room)) - (self._charged[host] - own)",
        "return room - (self._charged[host] - own)",
        "ranks are given more memory than the GPU may wire, and end when they load",
        TAINTS,
    ),
    Mutant(
        "every-rank-holds-alike",
        "reconciler/planning/needs.py",
        "    if len(shares) not in (1, ranks):",
        "    if True:",
        "a stage with the embeddings, or a whole cache on every rank, has no room on its machine",
        NEEDS,
    ),
    Mutant(
        "windows-are-endless",
        "reconciler/planning/needs.py",
        "size * min(wish.context, most or wish.context)",
        "size * wish.context",
        "models with sliding windows are refused although they have room",
        NEEDS,
    ),
    Mutant(
        "larger-parts-go-anywhere",
        "reconciler/planning/search.py",
        "        return self._assigned(members, needs)\n",
        "        return None\n",
        "unequal parts are refused although the larger one would fit the larger machine",
        NEEDS,
    ),
    Mutant(
        "auto-is-tensor-or-nothing",
        "reconciler/planning/sharding.py",
        'return first, Split("pipeline", "auto: by tensor its ranks need more memory than there is")',
        "return (first,)",
        "a model that would run as a pipeline is refused for the memory of its parts by tensor",
        NEEDS,
    ),
    Mutant(
        "only-the-preferred-nodes-are-tried",
        "reconciler/planning/search.py",
        "SETS_MAX = 128",
        "SETS_MAX = 0",
        "a replica is refused although other nodes could take and join it",
        NEEDS,
    ),
    Mutant(
        "shared-machines-are-tried-once",
        "reconciler/planning/search.py",
        "                if not shared:",
        "                if True:",
        "unequal ranks on one machine are refused although another order of them fits",
        NEEDS,
    ),
    Mutant(
        "formed-anew-counts-twice",
        "reconciler/planning/ledger.py",
        "+= max(0, size - before[host])",
        "+= size",
        "a group that is formed anew pushes others off the machine that they share",
        BRUTE,
    ),
    Mutant(
        "upgrades-charge-anew",
        "reconciler/state/memory.py",
        "return self.needs or (self.rank_bytes,) * len(self.members)",
        "return self.needs or (0,) * len(self.members)",
        "what ran before an upgrade costs nothing, and its memory is given away",
        ("tests/planning/test_placement.py",),
    ),
    Mutant(
        "the-store-forgets-unequal-ranks",
        "reconciler/store/groups.py",
        "needs=tuple(json.loads(row[17])),",
        "needs=(),",
        "after a restart every rank is charged what the largest of its group needs",
        ("tests/store/test_store.py",),
    ),
    Mutant(
        "every-rank-is-the-first",
        "reconciler/runner/examination.py",
        "stage(folder, Size(ranks, rank))",
        "stage(folder, Size(ranks))",
        "every stage is charged what the last one holds",
        SHARES,
    ),
    Mutant(
        "caches-have-no-window",
        "reconciler/runner/shares.py",
        "        sizes[_tokens_max(after)] += per_token",
        "        sizes[0] += per_token",
        "windowed layers are charged for the whole context",
        SHARES,
    ),
    Mutant(
        "an-examination-computes",
        "reconciler/runner/shares.py",
        "    changes += [(owner, name, _refuse) for owner, name in _COMPUTING]\n",
        "",
        "an examination reads all of a model that is larger than the machine",
        SHARES,
    ),
    Mutant(
        "quarantine-is-not-explained",
        "reconciler/planning/explain.py",
        "    if kept_out:",
        "    if False:",
        "people read that a node is merely not needed, which is kept out",
        EXPLAIN,
    ),
)
