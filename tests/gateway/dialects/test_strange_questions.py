"""Whatever a client sends to the paths that ask something of a prompt: a question that a rank takes, or a 400."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.dialects.anthropic import count_tokens
from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.openai import embeddings
from reconciler.gateway.dialects.responses import input_tokens
from reconciler.gateway.dialects.vllm import tokens
from reconciler.gateway.errors import ApiError
from reconciler.wire.codec import from_wire, to_wire
from reconciler.wire.generation import Generate, Route
from tests.gateway.recorded.telling import Models

SOURCES = Sources(lambda: 1.0, lambda: "id", lambda: 7)
ONE = Models(Route("llama", (), 4096, 0))
SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(allow_nan=False) | st.text(max_size=5)
)
CHANCE = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8)  # fmt: skip
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system", "tool"])}, optional={"content": CHANCE}
)
NAMES = {
    "prompt": CHANCE,
    "messages": st.lists(MESSAGE, max_size=3) | CHANCE,
    "tokens": st.lists(st.integers(-1, 2**33)) | CHANCE,
    "input": st.lists(st.text(max_size=5) | st.lists(st.integers(-1, 9))) | CHANCE,
    **dict.fromkeys(
        ("tools", "system", "return_token_strs", "add_special_tokens", "add_generation_prompt", "encoding_format",
         "dimensions", "chat_template_kwargs", "continue_final_message", "thinking", "tool_choice", "instructions"),
        CHANCE,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "parse",
    [
        tokens.parse_tokenize,
        tokens.parse_detokenize,
        embeddings.parse,
        count_tokens.parse,
        input_tokens.parse,
    ],
)
@given(body=st.fixed_dictionaries({}, optional=NAMES))
def test_it_is_a_question_or_refused(
    parse: Callable[[bytes, Sources, Catalog], Parsed], body: dict[str, Any]
) -> None:
    refused: tuple[int, str] | None = None
    try:
        (asked,) = parse(orjson.dumps(body), SOURCES, ONE).choices
    except ApiError as error:
        refused = (error.status, error.kind)
    else:
        assert (asked.tokens_max, asked.question is None, asked.form.free) == (0, False, True)
        assert from_wire(Generate, to_wire(asked)) == asked
    assert refused in (None, (400, "invalid_request_error"))
