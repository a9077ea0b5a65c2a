"""Faults, one after the other, on a running system. After each it heals by itself and comes to rest."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from tests.e2e.cluster import Cluster
from tests.processes import cpu_seconds

pytestmark = pytest.mark.e2e

LONG = "Count from 1 to 100."
HEALED_SECONDS = 60.0


@dataclass
class Answer:
    """What one client got: a text with its finish reason, or an error."""

    text: str = ""
    finish: str | None = None
    error: str = ""


async def stream(sdk: openai.AsyncOpenAI, started: asyncio.Event, **more: Any) -> Answer:
    answer = Answer()
    try:
        chunks = await sdk.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": LONG}], temperature=0, stream=True, **more
        )
        async for chunk in chunks:
            answer.text += chunk.choices[0].delta.content or ""
            answer.finish = chunk.choices[0].finish_reason or answer.finish
            started.set()
    except openai.APIError as error:
        answer.error = str(error)
    return answer


async def complete_answer(sdk: openai.AsyncOpenAI, **more: Any) -> Answer:
    try:
        done = await sdk.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": LONG}], temperature=0, **more
        )
    except openai.APIError as error:
        return Answer(error=str(error))
    return Answer(done.choices[0].message.content or "", done.choices[0].finish_reason)


async def clients_during(cluster: Cluster, fault: int) -> tuple[str, list[Answer], list[Answer]]:
    """8 streams and 8 unstreamed requests while the rank with pid ``fault`` is killed; the reference first."""
    async with openai.AsyncOpenAI(
        base_url=cluster.endpoint(), api_key="none", timeout=120, max_retries=0
    ) as sdk:
        reference = (await complete_answer(sdk)).text
        begun = [asyncio.Event() for _ in range(8)]
        streams = [asyncio.create_task(stream(sdk, event)) for event in begun]
        answers = [asyncio.create_task(complete_answer(sdk)) for _ in range(8)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(event.wait() for event in begun))
        os.kill(fault, signal.SIGKILL)
        return reference, list(await asyncio.gather(*streams)), list(await asyncio.gather(*answers))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_costs_no_client_its_answer(tiny: Cluster, rank: int) -> None:
    tiny.wait("a spare on each node", lambda: len(tiny.pids("-m reconciler.runner")) == 4)
    waiting = tiny.processes().keys()
    before = tiny.ranks()
    after_event = tiny.last_event()
    known = {each["id"]: each["class"] for each in tiny.json("incidents")["items"]}
    victim = next(row["pid"] for row in before if row["rank"] == rank)
    reference, streams, answers = asyncio.run(clients_during(tiny, victim))

    assert len(reference) > 200
    for answer in answers:
        assert (answer.error, answer.finish, answer.text) == ("", "stop", reference)
    for answer in streams:
        ended_well = (answer.finish, answer.text) == ("stop", reference)
        assert ended_well or (answer.error and answer.finish is None), answer

    tiny.wait("the next epoch", lambda: tiny.ranks()[0]["epoch"] > before[0]["epoch"])
    tiny.wait_settled()
    after = tiny.ranks()
    assert {row["epoch"] for row in after} == {before[0]["epoch"] + 1}
    assert len(after) == 2
    assert {row["pid"] for row in after} <= waiting, "the spares were not used"
    survivors = {row["pid"] for row in before} & tiny.processes().keys()
    assert survivors == set(), "a rank of the old epoch survived"
    assert turning_points(tiny, after_event) == [
        "RankExited", "EpochAllocated", "RankStarted", "RankStarted", "GroupProven", "Ready",
    ]  # fmt: skip
    check_incident(tiny, victim, before[0]["epoch"] + 1, known)


def check_incident(cluster: Cluster, victim: int, epoch: int, known: dict[int, str]) -> None:
    """What was killed, what it was taken for, what was tried about it and how long it took are told as one story: a new
    one, or the end of one of ``known``, which is as fresh."""
    killed, items = (
        f"pid {victim}) was killed by signal 9",
        cluster.json("incidents", "deployment/tiny")["items"],
    )
    found = next(each for each in items if any(entry["text"].endswith(killed) for entry in each["entries"]))
    entries = [(entry["kind"], entry["text"]) for entry in found["entries"]]
    assert found["class"] == known.get(found["id"], "C8")
    assert (found["open"], found["object"]) == (False, "modeldeployment/tiny")
    assert any(kind == "seen" and text.endswith(killed) for kind, text in entries)
    tried = [text for kind, text in entries if kind == "tried" and f"epoch {epoch}" in text]
    assert tried[0].startswith(f"form epoch {epoch} on "), tried
    assert sum(text.startswith("start rank") for text in tried) == 2
    assert f"ask tiny/0, epoch {epoch}, for a first completion" in tried[-1]
    assert entries[-1] == ("outcome", f"tiny/0 serves again as epoch {epoch}")
    assert 0 < found["unservedSeconds"] <= found["seconds"]
    assert found["unservedSeconds"] < 2 * HEALED_SECONDS, "a second kill so soon is the same incident"
    page = cluster.run("incidents", str(found["id"])).stdout
    assert "What to do:   nothing: it is over" in page
    assert killed in cluster.run("describe", "deployment", "tiny").stdout


def turning_points(cluster: Cluster, after: int) -> list[str]:
    """The turning points of the group since an event, each in the order in which it was told first. The gateway, which
    looks for itself, may have seen that it had no group for a moment."""
    told = [event for event in cluster.events() if event["id"] > after]
    reasons = [event["reason"] for event in told if not event["object"].startswith("gateway/")]
    points = ("RankExited", "EpochAllocated", "RankStarted", "GroupProven", "Ready")
    first_exit = reasons.index("RankExited")
    rest = [reason for reason in reasons[first_exit + 1 :] if reason in points and reason != "RankExited"]
    return ["RankExited", *rest]


def rank_pids(cluster: Cluster) -> dict[tuple[int, int], int]:
    return {(row["epoch"], row["rank"]): row["pid"] for row in cluster.ranks()}


def ask(cluster: Cluster) -> str:
    with openai.OpenAI(base_url=cluster.endpoint(), api_key="none", timeout=60, max_retries=0) as sdk:
        done = sdk.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "What is a rank?"}], temperature=0
        )
    return done.choices[0].message.content or ""


def _answers(cluster: Cluster) -> bool:
    """Whether the endpoint serves: a gateway that has just begun does not listen yet, or has not read its routes."""
    try:
        return bool(ask(cluster))
    except openai.APIError:
        return False


@pytest.mark.parametrize("what", ["controller", "gateway", "agents", "everything"])
def test_processes_that_are_killed_come_back_and_no_rank_notices(tiny: Cluster, what: str) -> None:
    before = rank_pids(tiny)
    victims = {
        "controller": tiny.controller(),
        "gateway": tiny.gateway(),
        "agents": tiny.agents(),
        "everything": tiny.controller() + tiny.gateway() + tiny.agents(),
    }[what]
    assert len(victims) == {"controller": 1, "gateway": 1, "agents": 2, "everything": 4}[what]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)

    def all_back() -> bool:
        back = not set(victims) & tiny.processes().keys()
        running = len(tiny.controller()) == 1 and len(tiny.gateway()) == 1 and len(tiny.agents()) == 2
        return back and running and tiny.settled() and _answers(tiny)

    tiny.wait(f"{what} to be back", all_back)
    assert rank_pids(tiny) == before


def test_after_all_that_a_killed_rank_is_still_reported_with_its_signal(tiny: Cluster) -> None:
    """The agents that started these ranks are long dead: their shims have held on to them."""
    after_event = tiny.last_event()
    victim = next(row for row in tiny.ranks() if row["rank"] == 1)
    os.kill(victim["pid"], signal.SIGTERM if victim["rank"] == 0 else signal.SIGKILL)
    tiny.wait("a new epoch", lambda: tiny.ranks()[0]["epoch"] > victim["epoch"])
    tiny.wait_settled()
    exits = [e for e in tiny.events() if e["id"] > after_event and e["reason"] == "RankExited"]
    assert any(f"pid {victim['pid']}) was killed by signal 9" in e["message"] for e in exits)


def test_an_idle_group_sleeps(tiny: Cluster) -> None:
    ask(tiny)
    time.sleep(2)
    pids = [row["pid"] for row in tiny.ranks()]
    before, started = cpu_seconds(pids), time.monotonic()
    time.sleep(15)
    share = (cpu_seconds(pids) - before) / (time.monotonic() - started)
    assert share < 0.02
