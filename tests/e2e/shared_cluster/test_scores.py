"""A prompt is scored by two ranks as one process scores it, through the endpoint: how lm-evaluation-harness measures what a
quantization or a split loses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import openai
import pytest
from mlx_lm import load

from tests.clients.installing import installed
from tests.clients.rows import PYTHON
from tests.e2e.cluster import ROOT, Cluster
from tests.runner.conftest import token_logprobs

pytestmark = pytest.mark.e2e

MODEL = ROOT / "examples" / "models" / "tiny"
HARNESS = ("lm-eval[api]==0.4.13", "transformers==5.23.0")
PROGRAM = ROOT / "tests" / "clients" / "programs" / "lm_eval_scores.py"
QUESTIONS = (
    ("What is reconciler?", " A reconciler for clusters of Macs.", " A cake."),
    ("A node is", " a Mac.", " one of the machines of the cluster."),
    ("Two and two are", " four", " five"),
)


def encode(text: str) -> list[int]:
    tokens: list[int] = load(str(MODEL))[1].encode(text)
    return tokens


def test_a_prompt_is_scored_as_by_one_process(tiny: Cluster) -> None:
    prompts = [encode(context + answer) for context, *answers in QUESTIONS for answer in answers]
    with openai.OpenAI(base_url=tiny.endpoint(), api_key="none", timeout=60, max_retries=0) as sdk:
        reply = sdk.completions.create(
            model="tiny", prompt=prompts, echo=True, logprobs=1, max_tokens=0, temperature=0
        )
    for choice, tokens in zip(reply.choices, prompts, strict=True):
        assert choice.logprobs is not None
        assert choice.logprobs.token_logprobs is not None
        first, *found = choice.logprobs.token_logprobs
        assert first is None
        assert found == pytest.approx(token_logprobs(MODEL, tokens), abs=1e-3)
        assert len(choice.logprobs.tokens or ()) == len(tokens)
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (sum(map(len, prompts)), 0)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_lm_evaluation_harness_has_the_figures_of_one_process(tiny: Cluster, tmp_path: Path) -> None:
    python = installed(PYTHON, HARNESS) / "bin/python"
    asked = [(context, answer) for context, *answers in QUESTIONS for answer in answers]
    command = [
        str(each) for each in (python, PROGRAM, tiny.endpoint() + "/completions", MODEL, json.dumps(asked))
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    seen: list[Any] = json.loads(done.stdout.splitlines()[-1])
    assert len(seen) == len(asked)
    for (context, answer), (likelihood, greedy) in zip(asked, seen, strict=True):
        tokens, before = encode(context + answer), len(encode(context))
        expected = token_logprobs(MODEL, tokens)[before - 1 :]
        assert likelihood == pytest.approx(sum(expected), abs=1e-2)
        assert isinstance(greedy, bool)
