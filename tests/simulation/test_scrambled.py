"""No decision reads a sentence: runs in which every sentence is another one decide the same at the same times.

``RECONCILER_SCRAMBLED=2000`` plays the first 2,000 seeds instead of some.
"""

from __future__ import annotations

import gc
import os

import pytest

from reconciler.state import FaultClass, NodeName, ObjectKey, Trouble
from reconciler.state.subjects import NodeSubject
from tests.simulation.__main__ import meant
from tests.simulation.schedules.play import Verdict, faultless
from tests.simulation.scrambled import deciding, other_sentences, scramble

USUAL = (3, 4, 11, 17, 28, 35)
MANY = int(os.environ.get("RECONCILER_SCRAMBLED", "0"))
SEEDS = range(1, MANY + 1) if MANY else USUAL
LATER = [pytest.param(seed, marks=pytest.mark.second_tier) for seed in SEEDS[3:]]


def played(seed: int) -> tuple[Verdict, list[str]]:
    """What becomes of a schedule, and what is decided in it."""
    with deciding() as decisions:
        return meant(seed, None).play(), decisions


@pytest.mark.parametrize("seed", SEEDS if MANY else [*SEEDS[:3], *LATER])
def test_with_other_sentences_the_same_is_decided_at_the_same_times(seed: int) -> None:
    faultless(meant(seed, None).scenario)
    plain, decisions = played(seed)
    with other_sentences():
        changed, others = played(seed)
    gc.collect()
    assert decisions, "nothing was decided"
    first = next((pair for pair in zip(decisions, others, strict=False) if pair[0] != pair[1]), None)
    assert first is None
    assert len(decisions) == len(others)
    assert (changed.trace_hash, changed.hit, changed.violations) == (
        plain.trace_hash,
        plain.hit,
        plain.violations,
    )


def test_within_the_block_alone_sentences_are_others() -> None:
    def trouble() -> Trouble:
        name = NodeName("a")
        key, fault = ObjectKey("Node", name), FaultClass.RANK_CRASH
        return Trouble(key, NodeSubject(name), fault, "it crashed", "form it", sign=("crash",))

    with other_sentences():
        found = trouble()
    assert found.seen == scramble("Trouble", "it crashed") != "it crashed"
    assert (found.person, found.sign) == ("", ("crash",)), "no sentence stays none, and keys stay"
    assert trouble().seen == "it crashed"
