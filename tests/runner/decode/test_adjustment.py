"""What is changed of logits before a token is chosen, against the definitions written out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.runner.decode.adjustment import adjustment
from reconciler.runner.decode.sampling import sampler
from reconciler.runner.model.agreed_batch import AgreedBatch, Choice, normalized
from reconciler.wire.group import Insertion, Seen
from reconciler.wire.sampling import Bias, Ending, Sampling

VOCABULARY = 12
END_IDS = frozenset([0, 1])
tokens = st.integers(0, VOCABULARY - 1)


def plain(
    logits: Any,
    sampling: Sampling,
    ending: Ending,
    prompt: Sequence[int],
    answer: Sequence[int],
    end_ids: Collection[int] = END_IDS,
) -> list[float]:
    """vLLM's definitions, token by token."""
    left = [float(logit) for logit in logits]
    if len(answer) < ending.tokens_min:
        for token in {*end_ids, *ending.stop_tokens}:
            left[token] -= 1e9
    for bias in sampling.biases:
        left[bias.token] += bias.by
    for token, logit in enumerate(left):
        if token in prompt or token in answer:
            by = sampling.repetition_penalty
            logit = logit / by if logit > 0 else logit * by
        logit -= sampling.frequency_penalty * list(answer).count(token)
        logit -= sampling.presence_penalty * (token in answer)
        left[token] = logit
    return left


@given(
    sampling=st.builds(
        Sampling,
        biases=st.lists(
            st.builds(Bias, tokens, st.floats(-3, 3)), max_size=2, unique_by=lambda b: b.token
        ).map(tuple),
        repetition_penalty=st.sampled_from([1.0, 1.3, 0.7]),
        frequency_penalty=st.sampled_from([0.0, 0.4, -1.5]),
        presence_penalty=st.sampled_from([0.0, 0.9, -0.3]),
    ),
    ending=st.builds(
        Ending, st.sampled_from([0, 2, 5]), st.booleans(), st.lists(tokens, max_size=2).map(tuple)
    ),
    prompt=st.lists(tokens, min_size=1, max_size=6),
    answer=st.lists(tokens, max_size=5),
    cut=st.integers(0, 5),
)
@settings(max_examples=150, deadline=None)
def test_logits_are_changed_as_vllm_defines_it_at_each_place_and_wherever_the_answer_was_cut(
    sampling: Sampling, ending: Ending, prompt: list[int], answer: list[int], cut: int
) -> None:
    said = answer[:cut]
    insertion = Insertion(
        (*prompt, *said), 9, sampling, len(said), ending=ending, seen=Seen(tuple(set(prompt)), tuple(said))
    )
    found = adjustment(insertion, END_IDS)
    change = found.together([found]) if found else None
    last = (*prompt, *said)[-1]
    for place, token in enumerate([*answer[cut:], 0]):
        logits = np.random.default_rng(place).normal(size=VOCABULARY).astype(np.float32) * 3
        given = mx.array(logits)[None]
        left = given if change is None else change(given, mx.array([last]))
        expected = plain(logits, sampling, ending, prompt, said)
        assert left.shape == (1, VOCABULARY)
        np.testing.assert_allclose(left[0].tolist(), expected, rtol=1e-5, atol=1e-5)
        said = [*said, token]
        last = token


def test_nothing_is_computed_for_a_request_that_asks_for_nothing() -> None:
    assert adjustment(Insertion((5,), 9, Sampling()), END_IDS) is None
    late = Insertion((5, 6, 7), 9, Sampling(), position=2, ending=Ending(tokens_min=2))
    assert adjustment(late, END_IDS) is None


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_bias_makes_a_token_certain_or_rules_it_out(temperature: float) -> None:
    logits = mx.arange(50.0)[None].astype(mx.float16)

    def chosen(sampling: Sampling, place: int) -> Any:
        found = adjustment(Insertion((5,), 9, sampling), END_IDS)
        assert found is not None
        left = found.together([found])(logits, mx.array([5]))
        return sampler(sampling, place)(left - mx.logsumexp(left)).item()

    assert chosen(Sampling(temperature, biases=(Bias(3, 100.0),)), 0) == 3
    without = Sampling(temperature, top_k=2, biases=(Bias(49, -100.0), Bias(48, -100.0)))
    assert all(chosen(without, place) in (46, 47) for place in range(20))


def test_a_token_of_the_vocabulary_is_chosen_where_none_may_come() -> None:
    found = adjustment(Insertion((5,), 9, Sampling(), ending=Ending(1, stop_tokens=tuple(range(4)))), END_IDS)
    assert found is not None
    left = found.together([found])(mx.array([[1.0, 2.0, 4.0, 3.0]]), mx.array([5]))
    assert np.isfinite(left.tolist()).all()


@given(
    asked=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    Sampling(),
                    Sampling(biases=(Bias(3, 2.0), Bias(0, 1.0))),
                    Sampling(repetition_penalty=1.3),
                    Sampling(frequency_penalty=0.5, presence_penalty=-0.5),
                ]
            ),
            st.sampled_from([Ending(tokens_min=2), Ending(tokens_min=9, stop_tokens=(4,))]),
            st.integers(0, 4),
            st.integers(1, 5),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None)
def test_sequences_that_come_and_go_are_changed_together_as_each_is_alone(
    asked: list[tuple[Sampling, Ending, int, int]],
) -> None:
    prompt = (5, 6, 5)
    every = []
    for sampling, ending, begin, length in asked:
        insertion = Insertion(prompt, 9, sampling, ending=ending, seen=Seen((5, 6), ()))
        every.append((adjustment(insertion, END_IDS), sampling, ending, range(begin, begin + length)))
    answers: list[list[int]] = [[] for _ in every]
    together: list[int] = []
    change: Any = None
    for step in range(9):
        rows = [row for row, one in enumerate(every) if step in one[3]]
        if not rows:
            continue
        if rows != together:
            changed = [one for row in rows if (one := every[row][0]) is not None]
            together, change = rows, changed[0].together(changed)
        logits = np.random.default_rng(step).normal(size=(len(rows), VOCABULARY)).astype(np.float32)
        left = change(mx.array(logits), mx.array([answers[row][-1] if answers[row] else 5 for row in rows]))
        for place, row in enumerate(rows):
            _, sampling, ending, _ = every[row]
            expected = plain(logits[place], sampling, ending, prompt, answers[row])
            np.testing.assert_allclose(left[place].tolist(), expected, rtol=1e-5, atol=1e-5)
            answers[row].append((step * 3 + row) % VOCABULARY)


@pytest.mark.parametrize("asking", [(0,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_of_a_batch_only_the_sequences_that_ask_for_a_change_are_changed(asking: tuple[int, ...]) -> None:
    batch: Any = object.__new__(AgreedBatch)
    batch._changed = []
    one = {row: Sampling(biases=(Bias(row, 3.0), Bias(5, -2.0))) for row in asking}
    batch.samplers = [
        Choice(
            sampler(Sampling(), 0), adjustment(Insertion((5,), 9, one[row]), END_IDS) if row in one else None
        )
        for row in range(3)
    ]
    logits = np.random.default_rng(1).normal(size=(3, VOCABULARY)).astype(np.float32)
    given = normalized(mx.array(logits))
    for _ in range(2):
        left = batch._adjust(given, mx.array(logits), mx.array([5, 5, 5])).tolist()
        for row in range(3):
            expected = plain(logits[row], one.get(row, Sampling()), Ending(), (5,), ())
            shifted = np.array(expected) - np.logaddexp.reduce(expected)
            np.testing.assert_allclose(left[row], shifted, rtol=1e-5, atol=1e-5)
