"""Sharded over 1, 2 and 4 ranks, a model says token for token what mlx_lm says in one process."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from .cluster import MODEL, ROOT, Cluster, cluster, deployment, node

pytestmark = pytest.mark.e2e

WEIGHTS = ROOT / "examples" / "models" / "tiny"
TOKENS_MAX = 60
PROMPTS = (
    "What is reconciler?", "What is a node?", "What is a rank?", "What is a group?", "What is an epoch?",
    "Who are you?", "Hello", "What happens when a rank dies?", "How do I deploy a change?",
    "What is a replica?", "What is the gateway?", "What does the controller do?", "What does the agent do?",
    "Count from 1 to 100.", "What is JACCL?", "Tell me about the sea.", "xyzzy 42 plugh",
    "Wie geht es dir?", "What is the ring backend?", "Thank you",
)  # fmt: skip


def reference() -> list[list[int]]:
    """Greedy token ids of mlx_lm in this very process."""
    import mlx.core as mx
    from mlx_lm import load, stream_generate

    model, tokenizer = load(str(WEIGHTS))
    assert all(value.dtype == mx.float32 for _, value in _leaves(model.parameters()))
    answers = []
    for prompt in PROMPTS:
        ids = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True)
        tokens = [
            response.token for response in stream_generate(model, tokenizer, ids, max_tokens=TOKENS_MAX)
        ]
        answers.append([token for token in tokens if token not in tokenizer.eos_token_ids])
    return answers


def _leaves(tree: Any) -> Any:
    from mlx.utils import tree_flatten

    return tree_flatten(tree)


def served(made: Cluster, name: str) -> list[list[int]]:
    """The same through the endpoint."""
    answers = []
    for prompt in PROMPTS:
        body = {
            "model": name,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": TOKENS_MAX,
            "return_token_ids": True,
        }
        request = urllib.request.Request(
            made.endpoint() + "/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as response:
            answers.append(json.load(response)["choices"][0]["token_ids"])
    return answers


@pytest.mark.parametrize(
    "sizes", [(1, 2), pytest.param((4,), marks=pytest.mark.nightly)], ids=["one and two", "four"]
)
def test_twenty_prompts_on_one_two_and_four_ranks(sizes: tuple[int, ...], tmp_path: Path) -> None:
    expected = reference()
    assert len(expected) == 20
    nodes = "---\n".join(node(f"node-{letter}") for letter in "abcd")
    gateway = (ROOT / "manifests" / "gateway.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text("---\n".join([nodes, MODEL, gateway]))
    with cluster() as made:
        made.start("-f", str(tmp_path), "--models", str(WEIGHTS.parent), "--any-port")
        made.wait("the endpoint", lambda: made.endpoint().startswith("http"))
        for ranks in sizes:
            name = f"tiny-{ranks}"
            (tmp_path / "cluster.yaml").write_text(deployment(name, ranks))
            made.run("apply", "-f", str(tmp_path / "cluster.yaml"))
            made.wait_settled()
            assert len([row for row in made.ranks() if row["deployment"] == name]) == ranks
            assert served(made, name) == expected
            assert made.plan() == {"steps": [], "waiting": [], "refused": []}
