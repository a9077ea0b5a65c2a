"""Prompts that abort the rank that reads them, from clients that try again, beside clients that behave."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.e2e.shared_cluster.test_healing import Answer, complete_answer

from .cluster import MODEL, ROOT, Cluster, cluster, deployment, node

pytestmark = pytest.mark.e2e

FRAGILE = """import os
from mlx_lm.models.qwen3 import Model as Sound, ModelArgs


class Model(Sound):
    def __call__(self, inputs, *arguments, **named):
        if inputs.shape[1] > 1 and (inputs == 96).any().item():
            os.abort()
        return super().__call__(inputs, *arguments, **named)
"""
"""Code that comes with weights, and ends its process at a prompt with the token of ``~``."""
MINUTES = float(os.environ.get("POISON_MINUTES", "10"))


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Cluster]:
    """A group of two ranks with that code."""
    weights = tmp_path / "models" / "tiny"
    shutil.copytree(ROOT / "examples/models/tiny", weights)
    config = weights / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_file": "fragile.py"}))
    (weights / "fragile.py").write_text(FRAGILE)
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "a.yaml").write_text(node("node-a"))
    (manifests / "b.yaml").write_text(node("node-b"))
    (manifests / "model.yaml").write_text(MODEL + "  trustRemoteCode: true\n")
    (manifests / "tiny.yaml").write_text(deployment("tiny", nodes=2))
    shutil.copy(ROOT / "manifests" / "gateway.yaml", manifests)
    with cluster() as made:
        made.start("-f", str(manifests), "--models", str(tmp_path / "models"), "--any-port")
        made.wait_settled()
        yield made


async def poison(cluster: Cluster, number: int) -> openai.APIStatusError:
    """What a client gets for such a prompt that tries again by itself, as the SDK does."""
    words = f"~ {number}"
    async with openai.AsyncOpenAI(
        base_url=cluster.endpoint(), api_key="none", timeout=120, max_retries=3
    ) as sdk:
        with pytest.raises(openai.APIStatusError) as refused:
            await sdk.chat.completions.create(model="tiny", messages=[{"role": "user", "content": words}])
        return refused.value


async def good(cluster: Cluster, until: asyncio.Event) -> list[Answer]:
    """The answers to one client that asks again and again."""
    answers: list[Answer] = []
    async with openai.AsyncOpenAI(
        base_url=cluster.endpoint(), api_key="none", timeout=120, max_retries=0
    ) as sdk:
        while not until.is_set() or not answers:
            answers.append(await complete_answer(sdk))
    return answers


async def play(
    cluster: Cluster, poisons: int, seconds: float
) -> tuple[list[openai.APIStatusError], list[Answer]]:
    """So many poisons at once, again and again for so long, beside eight good clients."""
    until, ends_at = asyncio.Event(), time.monotonic() + seconds
    errors: list[openai.APIStatusError] = []
    others = [asyncio.create_task(good(cluster, until)) for _ in range(8)]
    await asyncio.sleep(0.5)
    while not errors or time.monotonic() < ends_at:
        errors += await asyncio.gather(*(poison(cluster, number) for number in range(poisons)))
        await asyncio.sleep(1)
    until.set()
    return errors, [answer for answers in await asyncio.gather(*others) for answer in answers]


def check(cluster: Cluster, poisons: int, errors: list[openai.APIStatusError], answers: list[Answer]) -> None:
    assert {(error.status_code, error.code) for error in errors} == {(422, "prompt_quarantined")}
    assert len({answer.text for answer in answers}) == 1, "an answer was not continued as it was begun"
    assert {(answer.error, answer.finish) for answer in answers} == {("", "stop")}
    formed = [event for event in cluster.events() if event["reason"] == "EpochAllocated"]
    assert len(formed) <= 1 + 2 * poisons, "more than two deaths a poison"
    texts = [entry["text"] for each in cluster.json("incidents")["items"] for entry in each["entries"]]
    told = [text for text in texts if text.startswith("request ")]
    first = {error.response.headers["x-request-id"] for error in errors[:poisons]}
    assert {text.split()[1] for text in told} == first
    assert all("epoch" in text and "1 message" in text and "tokens" in text for text in told)
    cluster.wait_settled()


def test_a_poison_gets_its_422_after_two_deaths_and_the_others_lose_nothing(fragile: Cluster) -> None:
    errors, answers = asyncio.run(play(fragile, 1, 0))
    check(fragile, 1, errors, answers)


@pytest.mark.nightly
@pytest.mark.timeout(MINUTES * 60 + 600)
@pytest.mark.parametrize("poisons", [1, 3])
def test_poisons_from_clients_that_never_give_up_end_no_more_groups(fragile: Cluster, poisons: int) -> None:
    errors, answers = asyncio.run(play(fragile, poisons, MINUTES * 60))
    check(fragile, poisons, errors, answers)
