"""OpenAI's embeddings, from a real rank with random weights, beside a plain computation of the same vectors."""

from __future__ import annotations

import asyncio
import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import openai
import pytest
from mlx_lm.utils import load

from reconciler.execution.proof import ask_once
from reconciler.gateway.routing.timeouts import Timing
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.dialects.conftest import post
from tests.gateway.groups import TINY, Serving
from tests.runner.conftest import write_endless
from tests.runner.embedding.models import lay_out
from tests.runner.ranks import running

pytestmark = pytest.mark.second_tier
CONTEXT = 64


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of Qwen3's architecture that takes the last token's vector, as Qwen3-Embedding does."""
    return lay_out(write_endless(tmp_path_factory.mktemp("embedding")))


@pytest.fixture(scope="module")
def group(weights: Path) -> Iterator[Serving]:
    with running(weights, 1, context=CONTEXT) as ranks:
        yield Serving(ranks.ready())


@pytest.fixture
async def cluster(start: Start, group: Serving) -> Cluster:
    cluster = await start(timing=Timing(shutdown=0.5, hello=60.0, retry_same_backend=0.05))
    cluster.route(group, context=CONTEXT, batch=4)
    return cluster


def expected(weights: Path, text: str, dimensions: int | None = None) -> Any:
    model, tokenizer = load(str(weights))[:2]
    tokens = tokenizer.encode(text)
    last = np.array(model.model(mx.array([tokens]))[0, -1].astype(mx.float32))[:dimensions]
    return last / np.linalg.norm(last)


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_texts_have_the_vectors_that_the_model_makes_of_them(
    cluster: Cluster, weights: Path, encoding: Any
) -> None:
    texts = ["short", "a longer text, of several words", "short", "élan 漢字"]
    reply = await cluster.client.embeddings.create(model="llama", input=texts, encoding_format=encoding)
    assert [each.index for each in reply.data] == [0, 1, 2, 3]
    assert reply.usage.prompt_tokens == reply.usage.total_tokens == sum(len(text.encode()) for text in texts)
    for each, text in zip(reply.data, texts, strict=True):
        vector: Any = each.embedding
        if isinstance(vector, str):
            vector = np.frombuffer(base64.b64decode(vector), "<f4")
        np.testing.assert_allclose(vector, expected(weights, text), rtol=2e-3, atol=2e-3)


async def test_a_text_may_be_alone_or_token_ids_and_the_vector_shorter(
    cluster: Cluster, weights: Path
) -> None:
    alone = await cluster.client.embeddings.create(model="llama", input="word", dimensions=8)
    _, counted = await post(cluster, "/tokenize", prompt="word")
    ids: list[int] = counted["tokens"]
    same = await cluster.client.embeddings.create(model="llama", input=[ids, ids], dimensions=8)
    for each in (*alone.data, *same.data):
        np.testing.assert_allclose(each.embedding, expected(weights, "word", 8), rtol=2e-3, atol=2e-3)


async def test_hundreds_of_texts_are_one_request_beside_which_others_are_answered(cluster: Cluster) -> None:
    texts = [f"text number {number}" for number in range(300)]
    many = asyncio.create_task(cluster.client.embeddings.create(model="llama", input=texts))
    await cluster.client.embeddings.create(model="llama", input="beside them")
    reply = await many
    assert [each.index for each in reply.data] == list(range(300))
    samples = await cluster.samples()
    assert samples['vllm:request_success_total{finished_reason="stop",model_name="llama"}'] >= 2
    assert samples['vllm:prompt_tokens_total{model_name="llama"}'] > 4000


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", [5]]}, "input[1]"),
        ({"input": [[5], "a"]}, "input[1]"),
        ({"input": [[5], [304]]}, "input[1]"),
        ({"input": ["a", "too long " * CONTEXT]}, "input[1]"),
        ({"input": "too long " * CONTEXT}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 100_000}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"messages": HELLO}, "messages"),
        ({"input": "a", "truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
    ],
)
async def test_what_is_wrong_is_refused_by_its_name(
    cluster: Cluster, fields: dict[str, Any], param: str
) -> None:
    status, body = await post(cluster, "/v1/embeddings", **fields)
    assert (status, body["error"]["param"]) == (400, param), body


async def test_the_model_generates_no_text_and_says_what_it_is_for(cluster: Cluster) -> None:
    for path, fields in (("chat/completions", {"messages": HELLO}), ("completions", {"prompt": "a"})):
        status, body = await post(cluster, f"/v1/{path}", **fields)
        assert (status, body["error"]["param"]) == (400, "model")
        assert body["error"]["message"].endswith("generates no text: use /v1/embeddings")


async def test_a_group_of_it_is_proven_by_a_vector(group: Serving) -> None:
    assert await ask_once(lambda: asyncio.open_unix_connection(str(group.path))) > 0


async def test_a_model_that_generates_text_makes_no_vectors(start: Start) -> None:
    with running(TINY, 1, context=CONTEXT) as ranks:
        cluster = await start()
        cluster.route(Serving(ranks.ready()), context=CONTEXT)
        with pytest.raises(openai.BadRequestError, match="generates text and is not for embeddings"):
            await cluster.client.embeddings.create(model="llama", input="a")


def test_on_two_nodes_it_says_why_not(weights: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(weights, tmp_path / "model"))
    with running(model, 2, context=CONTEXT) as ranks:
        rank = ranks.ranks[0]
        rank.process.wait(60)
        assert "a model for embeddings runs on one node, and this group has 2" in rank.text()
