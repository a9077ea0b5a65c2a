"""An answer ends at every token that a model's files name as an end, or with which its template ends a turn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.runner.model.turn_ends import ANSWER, configured_ends, turn_end
from tests.runner.conftest import change_json
from tests.runner.markup.collection import templates
from tests.runner.markup.test_templates import UNNAMED, tokenizer_of

NONE = (
    "Apertus Apriel-1.6 Cohere2MoE CohereForAI-c4ai-command-r7b GLM-4 GigaChat3 Kimi-K3 fireworks llama-cpp-rwkv"
    " muse-glimmer openai-gpt-oss tencent-Hy3 upstage-Solar"
)
"""Those without a token that ends a turn and nothing else: their files name what ends an answer."""
ENDS: Mapping[str, str] = {
    "<EOS>": "Mistral-Small mistralai unsloth-mistral",
    "<|im_end|>": "Bielik HuggingFaceTB-SmolLM3 Kimi-K2 LFM2 MiMo-VL NVIDIA-Nemotron-3-Nano NousResearch Qwen StepFun"
    " moonshotai-Kimi-K2 openbmb-MiniCPM5",
    "<seed:eos>": "ByteDance-Seed-OSS",
    "<|END_OF_TURN_TOKEN|>": "CohereForAI-c4ai-command-r-plus",
    "<end_of_sentence>": "MiniMax-M1",
    "[e~[": "MiniMax-M2 MiniMax-M3",
    "<SPECIAL_12>": "NVIDIA-Nemotron-Nano-v2",
    "<sep>": "Reka-Edge",
    "<｜end▁of▁sentence｜>": "Spark2.5 deepseek-ai-DeepSeek llama-cpp-deepseek-r1",
    "<end_of_turn>": "google-gemma-2",
    "<turn|>": "google-gemma-4",
    "<|end_of_text|>": "ibm-granite",
    "<|role_end|>": "inclusionai-ling",
    "<|eot_id|>": "meetkai-functionary meta-llama",
    "<|end|>": "microsoft-Phi unsloth-Apriel",
    "</assistant>": "poolside-Laguna",
}


def expected(name: str) -> str:
    """The token that ends a turn of a template; the longest beginning of its name counts."""
    known = {begin: end for end, begins in (*ENDS.items(), ("", NONE)) for begin in begins.split()}
    return known[max((begin for begin in known if name.startswith(begin)), key=len)]


def test_every_template_of_the_collection_ends_its_turns_with_the_token_that_its_model_says(
    tmp_path: Path,
) -> None:
    for name, template in templates().items():
        (tmp_path / name).mkdir()
        tokenizer = tokenizer_of(template, tmp_path / name, UNNAMED.get(name, ()))
        ends = {tokenizer.added[token] for token in tokenizer.end_ids}
        assert ends - {"<EOS>"} == {expected(name)} - {"<EOS>", ""}, name


TOKENS = {1: "<end>", 2: "<end>ing", 3: "<close>", 4: ""}


def rendered(messages: Sequence[Mapping[str, Any]], after: str, between: str = "") -> str:
    thought = str(messages[-1].get("thinking", ""))
    return f"<user>Hi.<assistant>{thought and thought + between}{ANSWER}{after}"


@pytest.mark.parametrize(
    ("after", "between", "markers", "end"),
    [
        ("<end>", "", (), 1),
        ("\n <end>\n", "", (), 1),
        ("<end>ing", "", (), 2),
        ("", "", (), None),
        ("<other>", "", (), None),
        (" text <end>", "", (), None),
        ("<close><end>", "<close>", (), None),
        ("<close><end>", "", ("<close>think",), None),
        ("<end>", "<close>", (">",), 1),
    ],
)
def test_a_token_that_ends_a_part_of_a_turn_is_no_end(
    after: str, between: str, markers: Sequence[str], end: int | None
) -> None:
    assert turn_end(lambda messages: rendered(messages, after, between), TOKENS, markers) == end


def test_a_template_that_takes_no_such_conversation_says_nothing() -> None:
    assert turn_end(lambda messages: "", TOKENS, ()) is None


@pytest.mark.parametrize(
    ("config", "ends"),
    [
        ({}, set()),
        ({"eos_token_id": None}, set()),
        ({"eos_token_id": 2}, {2}),
        ({"eos_token_id": [2, 3]}, {2, 3}),
        ({"eos_token_id": 2, "text_config": {"eos_token_id": [5]}}, {2, 5}),
        ({"eos_token_id": ["</s>", -1, True, 7], "text_config": None}, {7}),
    ],
)
def test_a_configuration_names_one_end_or_several(config: dict[str, Any], ends: set[int]) -> None:
    assert configured_ends(config) == ends


def test_a_model_ends_at_the_tokens_of_all_its_files(tiny: Path, tmp_path: Path) -> None:
    """A conversion kept the end token of the base model in one file, and lost that of the template in another."""
    copy = Path(shutil.copytree(tiny, tmp_path / "copy"))
    before = load_shard(inspect(str(copy)), None, "tensor", trust_remote_code=False).tokenizer
    change_json(copy / "config.json", eos_token_id=17)
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [23]}))
    change_json(copy / "tokenizer_config.json", eos_token="<|endoftext|>")
    ids = {text: token for token, text in before.added.items()}
    (copy / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}" + "<|im_end|>" + "{% endfor %}"
    )
    after = load_shard(inspect(str(copy)), None, "tensor", trust_remote_code=False).tokenizer
    assert after.end_ids == {17, 23, ids["<|endoftext|>"], ids["<|im_end|>"]}
