"""The tokens that a request may take, as they are estimated before a rank has read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.gateway.keys.estimate import USUAL_ANSWER, Estimate, estimate
from reconciler.wire.generation import Generate
from reconciler.wire.question import Question, Texts

ASKED = Generate("", (), prompt="x" * 24)


@pytest.mark.parametrize(
    ("choices", "answers", "expected"),
    [
        ([replace(ASKED, tokens_max=10)], 1, Estimate(6 + 10, 8 + 10)),
        ([ASKED], 1, Estimate(6 + 1, 8 + USUAL_ANSWER)),
        ([replace(ASKED, prompt="x" * 23, tokens_max=0)], 1, Estimate(5, 7)),
        ([replace(ASKED, prompt="é" * 12, tokens_max=0)], 1, Estimate(6, 8)),
        ([replace(ASKED, tokens_max=10)] * 2, 2, Estimate(6 + 20, 8 + 20)),
        ([replace(ASKED, tokens_max=10)] * 2, 1, Estimate(12 + 20, 16 + 20)),
        ([replace(ASKED, tokens_max=10), ASKED], 2, Estimate(6 + 11, 8 + 10 + USUAL_ANSWER)),
        ([Generate("", (), prompt_tokens=(1,) * 8, tokens_max=0)], 1, Estimate(6, 8)),
        ([Generate("", (), question=Question(texts=Texts(tokens=((1,) * 4,), texts=("x" * 12,))), tokens_max=0)], 1, Estimate(6, 8)),
    ],
)  # fmt: skip
def test_a_prompt_has_a_token_for_every_three_bytes_and_at_least_one_for_every_four(
    choices: list[Generate], answers: int, expected: Estimate
) -> None:
    assert estimate(choices, answers) == expected
