"""Each thing that must hold of a soak, in runs in which it alone does not; and what agents say."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from .agents import Counts
from .conversations import Conversation, projects
from .samples import MIB, Sample
from .verdict import Grown, Run, broken, grown, line, slope, summary, table

COUNTS = Counts(answered=900, cancelled=90, called=80, checked=40, tokens_asked=90_000, tokens_cached=70_000)
PAGE = {
    "reconciler_prefix_cache_bytes": 20.0 * MIB,
    "reconciler_prefix_cache_evictions_total": 7.0,
    "vllm:prefix_cache_hits_total": 70_100.0,
    "vllm:num_requests_running": 0.0,
}


def sample(at: int) -> Sample:
    """At a second of two hours: a batch of 8 MiB comes and goes."""
    held = {"rank 0": 4.0, "rank 1": 4.0}
    cache = 20.0 if at else 0.0
    batch = 8.0 if at % 100 == 50 else 0.0
    active = {name: mib + cache + batch for name, mib in held.items()}
    resident = {"rank 0": 120.0 + active["rank 0"], "rank 1": 121.0 + active["rank 1"], "gateway": 37.0}
    return Sample(float(at), resident, active, at * 0.8, PAGE if at else {})


GOOD = Run(120.0, [sample(at) for at in range(0, 7201, 10)], COUNTS, 24.0, {"rank 0": 668.0, "rank 1": 668.0})


def resident(name: str, more: Callable[[float], float]) -> Run:
    """A run in which a process takes more than it should at some seconds."""
    samples = [
        replace(one, resident={**one.resident, name: one.resident[name] + more(one.at)})
        for one in GOOD.samples
    ]
    return replace(GOOD, samples=samples)


def last(active: float = 0.0, **page: float) -> Run:
    """A run at whose end MLX holds more, or the endpoint says something else."""
    end = GOOD.samples[-1]
    told = {**end.page, **{name.replace("__", ":"): value for name, value in page.items()}}
    held = {name: mib + active for name, mib in end.active.items()}
    return replace(GOOD, samples=[*GOOD.samples[:-1], replace(end, active=held, page=told)])


def only(run: Run) -> str:
    (sentence,) = broken(run)
    return sentence


def test_nothing_is_said_of_a_run_in_which_all_holds() -> None:
    assert list(broken(GOOD)) == []
    assert list(broken(replace(GOOD, minutes=3.0, samples=GOOD.samples[:3]))) == []


@pytest.mark.parametrize("name", ["rank 1", "gateway"])
def test_a_process_that_takes_more_and_more(name: str) -> None:
    assert only(resident(name, lambda at: at / 300)).startswith(f"{name} grows: ")
    assert only(resident(name, lambda at: 20.0 if at > 5000 else 0.0)).startswith(f"{name} grows: ")


def test_what_is_taken_at_first_and_for_a_moment_is_no_growth() -> None:
    assert list(broken(resident("rank 0", lambda at: min(at, 1000) / 20))) == []
    assert list(broken(resident("rank 0", lambda at: 90.0 if at % 90 == 0 else 0.0))) == []


def test_a_rank_that_takes_more_than_it_is_charged_for() -> None:
    assert only(resident("rank 0", lambda at: 600.0 if at == 3000 else 0.0)).startswith("rank 0 took 744 MiB")


def test_arrays_that_are_never_given_back() -> None:
    sentences = list(broken(last(active=1.5)))
    assert sentences == [
        f"rank {rank}: MLX holds 1.5 MiB beside weights and prefix cache when nothing is asked"
        for rank in (0, 1)
    ]


def test_a_prefix_cache_beyond_its_bound() -> None:
    assert only(last(active=5.0, reconciler_prefix_cache_bytes=25.0 * MIB)).startswith(
        "the prefix cache took 25"
    )


def test_hits_that_nobody_counted() -> None:
    assert "the metrics of 69000" in only(last(vllm__prefix_cache_hits_total=69_000.0))
    assert "told of 0 tokens" in only(replace(GOOD, counts=replace(COUNTS, tokens_cached=0)))


def test_nothing_evicted() -> None:
    assert only(last(reconciler_prefix_cache_evictions_total=0.0)) == "nothing was evicted"


def test_a_request_that_is_still_counted_when_all_is_answered() -> None:
    assert only(last(vllm__num_requests_running=1.0)).startswith("vllm:num_requests_running is 1")


def test_a_rank_that_was_restarted() -> None:
    assert only(replace(GOOD, restarted=["tiny: RankExited: gone"])) == "tiny: RankExited: gone"


def test_answers_that_failed_differed_or_were_never_asked_for() -> None:
    assert (
        only(replace(GOOD, counts=replace(COUNTS, errors=["APIError: no"])))
        == "a request failed: APIError: no"
    )
    assert "another" in only(replace(GOOD, counts=replace(COUNTS, differing=["a and then b"])))
    for counts in (replace(COUNTS, checked=0), replace(COUNTS, cancelled=0), replace(COUNTS, called=0)):
        assert "none of them may be 0" in only(replace(GOOD, counts=counts))


def test_what_is_printed_has_a_line_for_each_process() -> None:
    lines = table(GOOD)
    assert [text.split("  ")[0] for text in lines[1:]] == ["rank 0", "rank 1", "gateway"]
    assert lines[1].split()[2:] == ["120.0", "120.0", "120.0", "120.0", "+0.0", "152.0", "668"]
    assert "used 40% of 2 cores" in summary(replace(GOOD, cores=2))[-1]
    told = line(GOOD.samples[0], GOOD.samples[1], GOOD.samples[7], COUNTS, 2)
    assert told.startswith("   1.2 min  answered 900, cancelled 90")
    assert grown(GOOD, "rank 0") == Grown(120.0, 120.0, 120.0, 0.0, 3600.0)


def test_a_slope_is_that_of_an_hour() -> None:
    assert slope([(0.0, 1.0), (1800.0, 2.0), (3600.0, 3.0)]) == 2.0
    assert slope([(0.0, 1.0)]) == 0.0


def test_a_conversation_alternates_and_answers_every_call() -> None:
    rng = random.Random(3)
    kinds = set()
    for project in projects():
        conversation = Conversation(rng, project)
        for _ in range(40):
            request = conversation.next("tiny")
            kinds.add((request.is_greedy, request.streamed, request.cancelled_after is None))
            assert request.body["messages"][-1]["role"] in ("user", "tool")
            if request.cancelled_after is None:
                calls = [("reboot_node", "{}")] * rng.randrange(3) if project.tools else []
                conversation.answered("", calls, 100)
        asked = [c["id"] for m in conversation.messages for c in m.get("tool_calls", ())]
        assert [m["tool_call_id"] for m in conversation.messages if m["role"] == "tool"] == asked
    assert len(kinds) == 6
