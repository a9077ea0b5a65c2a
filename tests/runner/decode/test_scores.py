"""The tokens of a prompt with their log-probabilities, whatever else is decoded or kept meanwhile."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from reconciler.runner.decode.leader import SCORED_PER_STEP
from reconciler.runner.model.adapter import Loaded
from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.wire.generation import Delta, Scored, TokenLogprobs
from reconciler.wire.sampling import Ending
from tests.runner.ranks import Reply

from .loop import Loop

LIKELIEST = 3


@pytest.fixture(scope="module")
def loaded(layered: Path) -> Loaded:
    loaded = load_shard(inspect(str(layered)), None, "tensor", trust_remote_code=False)
    mx.eval(loaded.model(mx.array([[5]])))  # what it computes once, in the thread that made it
    return loaded


def prompt(length: int) -> list[int]:
    """Tokens that are not all alike."""
    return [(7 * place + place // 5) % 290 for place in range(length)]


def scored(reply: Reply) -> list[TokenLogprobs]:
    """All that was told of a prompt's tokens. The first one is told of where the request is accepted."""
    found: list[TokenLogprobs] = []
    for event in reply.events:
        if isinstance(event, Scored):
            assert event.first == len(found) + 1
            found += event.tokens
    return found


def assert_right(found: list[TokenLogprobs], tokens: list[int], loaded: Loaded) -> None:
    logits = loaded.model(mx.array([tokens]))[0, :-1].astype(mx.float32)
    expected = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    assert [one.chosen.token for one in found] == tokens[1:]
    chosen = np.array([one.chosen.logprob for one in found])
    assert np.abs(chosen - expected[np.arange(len(found)), tokens[1:]]).max() <= 1e-3
    likeliest = np.array([[likely.logprob for likely in one.likeliest] for one in found])
    assert np.abs(likeliest - np.sort(expected)[:, : -LIKELIEST - 1 : -1]).max() <= 1e-3


@pytest.mark.parametrize("tokens_max", [0, 4])
@pytest.mark.parametrize(
    "length", [2, 3, SCORED_PER_STEP, SCORED_PER_STEP + 1, SCORED_PER_STEP + 2, 2 * SCORED_PER_STEP + 7]
)
def test_each_token_has_what_the_model_says_of_it(loaded: Loaded, length: int, tokens_max: int) -> None:
    tokens, loop = prompt(length), Loop(loaded)
    loop.put("a", prompt=tokens, tokens_max=tokens_max, scores=LIKELIEST)
    loop.run()
    reply = Reply(loop.events["a"])
    assert_right(scored(reply), tokens, loaded)
    assert (reply.last.reason, reply.last.prompt_tokens) == ("length", length)
    assert len(reply.tokens) == reply.last.completion_tokens == tokens_max
    if tokens_max:
        plain = Loop(loaded)
        plain.put("b", prompt=tokens, tokens_max=tokens_max)
        plain.run()
        assert reply.tokens == Reply(plain.events["b"]).tokens


def test_others_are_decoded_and_scored_beside_it(loaded: Loaded) -> None:
    loop, tokens = Loop(loaded, batch_max=8), prompt(400)
    for number in range(3):
        loop.put(f"other {number}", prompt=prompt(20 + number), tokens_max=30)
        loop.put(f"scored {number}", prompt=tokens[number:], tokens_max=number, scores=LIKELIEST)
    loop.run()
    for number in range(3):
        assert_right(scored(Reply(loop.events[f"scored {number}"])), tokens[number:], loaded)
        alone = Loop(loaded)
        alone.put("a", prompt=prompt(20 + number), tokens_max=30)
        alone.run()
        assert Reply(loop.events[f"other {number}"]).tokens == Reply(alone.events["a"]).tokens


def test_nothing_that_is_kept_takes_the_place_of_reading_it(loaded: Loaded) -> None:
    loop, tokens = Loop(loaded, prefix_bytes=1 << 28), prompt(300)
    with loop.serving():
        for name in ("a", "b"):
            reply = loop.ask(name, tokens, tokens_max=0, scores=LIKELIEST)
            assert_right(scored(reply), tokens, loaded)
        assert loop.ask("c", tokens, tokens_max=1).last.cached_tokens > 0, "it is kept for others"


def test_a_rank_that_reports_nothing_reads_the_same(loaded: Loaded) -> None:
    loop, tokens = Loop(loaded), prompt(300)
    loop.put("a", prompt=tokens, tokens_max=6, scores=LIKELIEST)
    loop.run()
    follower = Loop(loaded).batch
    said = [token.id for step in loop.steps for token in follower.run(step)[1]]
    assert said == Reply(loop.events["a"]).tokens


def test_one_that_is_cancelled_leaves_the_others_as_they_are(loaded: Loaded) -> None:
    loop = Loop(loaded)
    loop.cancelled_at = 2
    loop.put("a", prompt=prompt(900), tokens_max=0, scores=0)
    loop.run()
    assert scored(Reply(loop.events["a"])) != []
    assert loop.batch.live == 0


def test_the_end_of_an_answer_to_a_scored_prompt_is_reported_too(loaded: Loaded) -> None:
    """Who asks for one token more than the prompt counts on an entry for it."""
    tokens, loop = prompt(20), Loop(loaded)

    def reported(reply: Reply) -> list[int]:
        return [one.chosen.token for e in reply.events if isinstance(e, Delta) for one in e.logprobs]

    with loop.serving():
        whole = loop.ask("a", tokens, tokens_max=1, scores=1, logprobs=1)
        (said,) = whole.tokens
        ends = Ending(stop_tokens=(said,))
        scored = loop.ask("b", tokens, tokens_max=1, scores=1, logprobs=1, ending=ends)
        plain = loop.ask("c", tokens, tokens_max=1, logprobs=1, ending=ends)
    assert [reported(reply) for reply in (whole, scored, plain)] == [[said], [said], []]
    assert scored.last.reason == "stop"


def test_a_prompt_that_has_given_way_is_scored_from_its_beginning(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory became too small for it after its first part was read."""
    loop, tokens = Loop(loaded), prompt(2 * SCORED_PER_STEP)
    gone = iter([(), (0,)])
    monkeypatch.setattr(loop.lanes, "step", lambda: next(gone, ()))
    loop.put("a", prompt=tokens, tokens_max=0, scores=LIKELIEST)
    loop.run()
    parts = [event for event in loop.events["a"] if isinstance(event, Scored)]
    assert [part.first for part in parts].count(1) == 2
    found: list[TokenLogprobs] = []
    for part in parts:
        found[part.first - 1 :] = part.tokens
    assert_right(found, tokens, loaded)
