"""What is drawn: enough, of everything, the same for the same seed, and nothing of what is broken already."""

from __future__ import annotations

import itertools
import re
from collections import Counter

from reconciler.sandbox.commands import COMMANDS
from reconciler.state import FaultClass
from tests.e2e.cluster import ROOT

from .faults import BY_NAME, CABLES, KINDS, OTHER_END, PER_MINUTE, TIMES_MIN, draw

SEEDS = range(50)


def test_ten_minutes_have_sixty_faults_and_ten_kinds_three_times() -> None:
    for seed in SEEDS:
        drawn = draw(seed, 9.5)
        times = Counter(fault.kind for fault in drawn)
        assert len(drawn) >= 60
        assert sum(count >= TIMES_MIN for count in times.values()) >= 10
        assert all(fault.at <= fault.over_at <= 9.5 * 60 for fault in drawn)


def test_ten_minutes_have_every_kind_and_twenty_most_of_them_three_times() -> None:
    for seed in SEEDS:
        assert {fault.kind for fault in draw(seed, 9.5)} == {kind.name for kind in KINDS}
        times = Counter(fault.kind for fault in draw(seed, 19))
        assert min(times[kind.name] for kind in KINDS) >= TIMES_MIN - 1
        assert min(times[kind.name] for kind in KINDS if not kind.ends_group) >= TIMES_MIN


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    assert draw(7, 10) == draw(7, 10)
    assert draw(7, 10) != draw(8, 10)


def test_a_machine_is_broken_in_one_way_at_a_time() -> None:
    for seed in SEEDS:
        drawn = draw(seed, 10)
        for one, other in itertools.combinations(drawn, 2):
            assert one.over_at <= other.at or not one.nodes & other.nodes, (seed, one, other)


def test_what_ends_groups_is_spread_over_the_time() -> None:
    for seed in SEEDS:
        hard = [fault.at for fault in draw(seed, 10) if BY_NAME[fault.kind].ends_group]
        assert min(later - earlier for earlier, later in itertools.pairwise(hard)) > 60 / PER_MINUTE


def test_a_short_run_has_as_many_kinds_as_it_has_faults() -> None:
    drawn = draw(1, 1)
    assert len(drawn) == round(PER_MINUTE)
    assert len({fault.kind for fault in drawn}) >= 4


def test_its_cables_are_those_of_the_example() -> None:
    text = (ROOT / "examples" / "four-studios" / "fabric.yaml").read_text()
    declared = re.findall(r"- \[(\S+), (\S+)\]", text)
    assert sorted(declared) == sorted((end, OTHER_END[end]) for end in CABLES)


def test_every_kind_is_a_command_of_the_sandbox_or_a_process_to_kill() -> None:
    for kind in KINDS:
        assert bool(kind.do) != bool(kind.kills)
        acts = [words.split() for words in (*kind.do.split(";"), kind.undo) if words]
        assert all(words[0] in COMMANDS for words in acts)


def test_every_class_that_a_machine_can_be_given_while_it_serves_is_drawn() -> None:
    beside = {"C2", "C6", "C14", "C16", "C19"}
    """Over by a visit to Recovery, met only by a group that is being formed, or over only with another macOS."""
    assert {kind.fault for kind in KINDS} == {fault.value for fault in FaultClass} - beside
