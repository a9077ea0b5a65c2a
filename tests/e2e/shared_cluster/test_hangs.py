"""Ranks that are stopped, and ranks that stand still although their process runs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import openai
import pytest

from tests.e2e.cluster import ROOT, Cluster
from tests.processes import gone, state
from tests.tracing import main_thread_held, other_threads_held

from .test_healing import Answer, ask, complete_answer, rank_pids, stream

pytestmark = pytest.mark.e2e

STALL_SECONDS = 5
"""For ranks that are to be given up: those of other tests have as long as by default."""
CLIENTS = 6


@pytest.fixture(scope="module")
def impatient(shared: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The shared cluster with a short ``stallAfter``; setting and removing it restarts nothing."""
    shared.wait_settled()
    edited = tmp_path_factory.mktemp("hangs") / "tiny.yaml"
    manifest = (ROOT / "manifests" / "tiny.yaml").read_text()
    edited.write_text(manifest.rstrip() + f"\n  health:\n    stallAfter: {STALL_SECONDS}s\n")
    before = rank_pids(shared)
    shared.run("apply", "-f", str(edited))
    shared.wait("the new health", lambda: stall_after(shared) == f"{STALL_SECONDS}s")
    shared.wait_settled()
    assert rank_pids(shared) == before
    yield shared
    shared.run("apply", "-f", str(ROOT / "manifests"))
    shared.wait("the old health", lambda: stall_after(shared) == "60s")


def stall_after(cluster: Cluster) -> str:
    return str(cluster.json("get", "modeldeployments")["items"][0]["spec"]["health"]["stallAfter"])


@pytest.fixture
def hangs(impatient: Cluster) -> Iterator[Cluster]:
    """Settled before the test and after it: nothing is left to do."""
    impatient.wait_settled()
    yield impatient
    impatient.wait_settled()


async def clients_during(cluster: Cluster, fault: Callable[[], None]) -> tuple[str, list[Answer]]:
    """What clients get that are in the middle of their answers when ``fault`` strikes; the reference first."""
    async with openai.AsyncOpenAI(
        base_url=cluster.endpoint(), api_key="none", timeout=120, max_retries=0
    ) as sdk:
        reference = (await complete_answer(sdk)).text
        begun = [asyncio.Event() for _ in range(CLIENTS - 1)]
        streams = [asyncio.create_task(stream(sdk, event)) for event in begun]
        async with asyncio.timeout(60):
            await asyncio.gather(*(event.wait() for event in begun))
        fault()
        streams.append(asyncio.create_task(stream(sdk, asyncio.Event())))  # the others may be over by now
        return reference, list(await asyncio.gather(*streams))


def check_answers(reference: str, answers: list[Answer]) -> None:
    assert len(reference) > 200
    assert [(answer.error, answer.finish, answer.text) for answer in answers] == [
        ("", "stop", reference)
    ] * CLIENTS


def victim(cluster: Cluster, rank: int) -> int:
    return int(next(row["pid"] for row in cluster.ranks() if row["rank"] == rank))


def messages_since(cluster: Cluster, after: int, reason: str) -> list[str]:
    """What was said for a reason since an event."""
    return [e["message"] for e in cluster.events() if e["id"] > after and e["reason"] == reason]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_stopped_at_work_is_continued_and_nobody_notices(tiny: Cluster, rank: int) -> None:
    before, event, pid = rank_pids(tiny), tiny.last_event(), victim(tiny, rank)

    check_answers(*asyncio.run(clients_during(tiny, lambda: os.kill(pid, signal.SIGSTOP))))

    assert state(pid) != "T"
    tiny.wait_settled()
    assert rank_pids(tiny) == before
    (message,) = messages_since(tiny, event, "RankContinued")
    assert f"rank {rank} of tiny/0" in message


def test_a_rank_that_is_stopped_with_nothing_to_do_is_continued(tiny: Cluster) -> None:
    before, event = rank_pids(tiny), tiny.last_event()
    for pid in before.values():
        os.kill(pid, signal.SIGSTOP)

    tiny.wait("both to go on", lambda: all(state(pid) != "T" for pid in before.values()))
    assert ask(tiny)
    tiny.wait_settled()
    assert rank_pids(tiny) == before
    assert len(messages_since(tiny, event, "RankContinued")) == len(before)


@contextmanager
def stopped_again_and_again(pid: int) -> Iterator[None]:
    over = threading.Event()

    def stop() -> None:
        while not over.wait(0.1) and not gone(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        yield
    finally:
        over.set()
        stopping.join()


def formed_again(cluster: Cluster, event: int) -> str:
    """What the event of the new group says of its cause: the time that these tests allow was over."""
    cluster.wait("a new group", lambda: messages_since(cluster, event, "EpochAllocated"))
    groups = messages_since(cluster, event, "EpochAllocated")
    # A busy machine may be too slow for the short allowance of these tests once more; nothing else may happen.
    assert all("(Stalled: " in message for message in groups), cluster.diagnostics()
    (allowed,) = re.findall(r"at most (\d+) s are allowed", groups[0])
    assert STALL_SECONDS <= int(allowed) < 60, "not the time that is allowed by default"
    return groups[0]


@pytest.mark.nightly
def test_a_rank_that_is_stopped_again_and_again_costs_an_epoch_and_no_answer(hangs: Cluster) -> None:
    before, event, pid = rank_pids(hangs), hangs.last_event(), victim(hangs, 1)
    with stopped_again_and_again(pid):
        check_answers(*asyncio.run(clients_during(hangs, lambda: None)))
        message = formed_again(hangs, event)

    assert "rank 1 on node-" in message
    hangs.wait("the end of the rank", lambda: gone(pid))
    assert 1 <= len(messages_since(hangs, event, "RankContinued")) <= 3
    hangs.wait_settled()
    assert ask(hangs)
    assert min(rank_pids(hangs)) > max(before)


def test_a_rank_that_hangs_while_its_process_runs_is_killed_and_costs_no_answer(hangs: Cluster) -> None:
    event, pid = hangs.last_event(), victim(hangs, 1)

    with ExitStack() as holding:
        hang = main_thread_held(pid)
        check_answers(*asyncio.run(clients_during(hangs, lambda: holding.enter_context(hang))))
        hangs.wait("the end of the rank", lambda: gone(pid))

    message = formed_again(hangs, event)
    assert "rank 1 on node-" in message
    assert "requests wait), at most" in message
    assert messages_since(hangs, event, "RankContinued") == []
    hangs.wait_settled()
    assert ask(hangs)
    ends = messages_since(hangs, event, "RankExited")
    assert any(f"pid {pid}) was killed by signal 9: it was asked to end and had not" in text for text in ends)


def test_a_rank_0_that_reads_no_requests_is_killed_although_it_says_that_all_is_well(hangs: Cluster) -> None:
    """No request is needed for that: its agent asks it."""
    event, pid = hangs.last_event(), victim(hangs, 0)
    before = next(row for row in hangs.ranks() if row["pid"] == pid)

    with ExitStack() as holding:
        holding.enter_context(other_threads_held(pid))
        hangs.wait("the end of the rank", lambda: gone(pid))

    message = formed_again(hangs, event)
    # The agent's own question may have been read, and wait.
    assert re.search(rf"rank 0 on {before['node']} (takes no requests|makes no progress) for ", message)
    hangs.wait_settled()
    assert ask(hangs)
