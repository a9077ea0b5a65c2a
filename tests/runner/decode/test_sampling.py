"""Which token comes next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p

from reconciler.runner.decode.sampling import Agreement, keep_likely, known_ids, sampler
from reconciler.wire.sampling import Sampling

MANY_REQUESTS = """
import mlx.core as mx
from reconciler.runner.decode.sampling import sampler
from reconciler.wire.sampling import Sampling
logprobs = mx.log(mx.softmax(mx.arange(50.0)))[None]
for n in range(1, 20):
    wish = Sampling(temperature=1 + n / 7, top_p=1 - n / 50, top_k=n, min_p=n / 1000, seed=n)
    mx.eval(sampler(wish, 0)(logprobs))
"""


def test_what_clients_choose_is_never_compiled(tmp_path: Path) -> None:
    """MLX keeps what it compiles in a directory for temporary files, and runs a compiler for it."""
    subprocess.run(
        [sys.executable, "-c", MANY_REQUESTS], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True
    )
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3, 0.001])
@pytest.mark.parametrize("top_k", [0, 1, 7, 1000])
@pytest.mark.parametrize("min_p", [0.0, 0.05, 1.0])
def test_the_tokens_left_are_those_that_mlx_lm_leaves(top_p: float, top_k: int, min_p: float) -> None:
    logits = mx.random.normal((3, 300), key=mx.random.key(5)) * 3
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    expected = logprobs
    if top_p < 1:
        expected = apply_top_p(expected, top_p)
    if min_p > 0:
        expected = apply_min_p(expected, min_p)
    if 0 < top_k < 300:
        expected = apply_top_k(expected, top_k)
    assert mx.array_equal(keep_likely(logprobs, top_p, top_k, min_p), expected)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=2e-5),
        Sampling(temperature=1e-300),
        Sampling(top_p=1e-300),
        Sampling(top_p=0.0),
        Sampling(temperature=100.0, top_k=1),
        Sampling(temperature=100.0, min_p=1.0),
    ],
)
def test_at_the_edge_of_what_may_be_asked_for_the_likeliest_token_is_left(sampling: Sampling) -> None:
    logprobs = mx.array([[-9.5, -0.001, -11.0, -7.0]], dtype=mx.float16)
    assert [sampler(sampling, n)(logprobs).item() for n in range(20)] == [1] * 20


def test_every_rank_takes_the_tokens_that_rank_0_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    def gathered(tokens: Any, group: Any) -> Any:
        return mx.concatenate([mx.array([1, 2], mx.uint32), tokens, tokens])

    monkeypatch.setattr(mx.distributed, "all_gather", gathered)
    assert Agreement(object(), 9).on(mx.array([3, 4])).tolist() == [1, 2]
    assert Agreement(None, 9).on(mx.array([3, 4])).tolist() == [3, 4]


def test_what_a_lost_peer_left_in_memory_is_never_looked_up_outside_the_vocabulary() -> None:
    left = mx.array([0, 7, 99, 100, 2**31, 2**32 - 1], dtype=mx.uint32)
    ids = known_ids(left, 100)
    assert ids.dtype == mx.uint32
    assert ids.tolist() == [0, 7, 99, 99, 99, 99]
