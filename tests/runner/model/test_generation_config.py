"""A model's own way to choose tokens, as the file beside its weights has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.runner.model.files import SAMPLING, read_sampling, sampling_of
from reconciler.wire.sampling import OPEN, SamplingDefaults

QWEN = {
    "bos_token_id": 151643,
    "do_sample": True,
    "eos_token_id": [151645, 151643],
    "temperature": 0.6,
    "top_k": 20,
    "top_p": 0.95,
    "transformers_version": "4.51.0",
}
"""Of Qwen3-8B."""


def test_a_published_file_is_read(tmp_path: Path) -> None:
    (tmp_path / SAMPLING).write_text(json.dumps(QWEN))
    assert read_sampling(tmp_path) == SamplingDefaults(temperature=0.6, top_k=20, top_p=0.95)


def test_a_model_without_the_file_has_no_defaults(tmp_path: Path) -> None:
    assert read_sampling(tmp_path) == SamplingDefaults()


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 100_000])
def test_a_broken_file_is_no_reason_not_to_serve(tmp_path: Path, text: str) -> None:
    (tmp_path / SAMPLING).write_text(text)
    assert read_sampling(tmp_path) == SamplingDefaults()


def test_what_says_nothing_is_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    odd = {"temperature": -1, "top_p": "0.9", "top_k": 2.5, "min_p": True, "repetition_penalty": 1.05}
    (tmp_path / SAMPLING).write_text(json.dumps(odd))
    assert read_sampling(tmp_path) == SamplingDefaults(repetition_penalty=1.05)
    assert "top_p is '0.9', which is left out" in caplog.text


@pytest.mark.parametrize("field", OPEN)
@pytest.mark.parametrize(
    "value",
    ["NaN", "Infinity", "-Infinity", "true", "9" * 400, "-" + "9" * 400],
    ids=["NaN", "infinity", "less than all", "truth", "large", "less than that"],
)
def test_what_is_no_number_of_use_is_left_out(tmp_path: Path, field: str, value: str) -> None:
    (tmp_path / SAMPLING).write_text(f'{{"{field}": {value}}}')
    assert read_sampling(tmp_path) == SamplingDefaults()


def test_a_top_k_of_minus_one_is_off() -> None:
    assert sampling_of({"top_k": -1})[0].top_k == 0


numbers = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)


@given(st.dictionaries(st.sampled_from(OPEN), numbers))
def test_no_file_makes_a_request_that_a_rank_would_refuse(content: dict[str, object]) -> None:
    found, _ = sampling_of(content)
    assert found.temperature is None or 0 <= found.temperature <= 2
    assert found.top_p is None or 0 <= found.top_p <= 1
    assert found.min_p is None or 0 <= found.min_p <= 1
    assert found.top_k is None or found.top_k >= 0
    assert found.repetition_penalty is None or 0.01 <= found.repetition_penalty <= 100
