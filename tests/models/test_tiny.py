"""The tiny demonstration model: what it must answer, call and refuse, through mlx_lm alone.

Whoever trains it anew judges it by hundreds of answers, at night. Before a change a few of each kind are enough: they
show that the weights, the tokenizer and the template which are committed still belong together.
"""

from __future__ import annotations

import importlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.utils import load_tokenizer

from tests.examples import examples

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"
TINY, TRAINING = MODELS / "tiny", MODELS / "training"
SOURCES = ("answers.json", "calls.py", "corpus.py", "dialogue.py", "train.py", "values.py", "words.py")
Message = dict[str, Any]


def training(name: str) -> Any:
    """Import a module of the training folder, which is no package."""
    sys.path.insert(0, str(TRAINING))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TRAINING))


evaluate, corpus, dialogue, values = map(training, ("evaluate", "corpus", "dialogue", "values"))
HOW_MANY = [pytest.param(4, id="few"), pytest.param(None, marks=pytest.mark.nightly, id="every")]


@pytest.fixture(scope="module")
def tiny() -> Any:
    """Load the model once."""
    return evaluate.Tiny(TINY)


def render(tiny: Any, messages: list[Message], tools: list[Message] | None = None) -> str:
    """Apply the chat template and return text."""
    text: str = tiny.tokenizer.apply_chat_template(
        messages, tools=tools, tokenize=False, add_generation_prompt=True
    )
    return text


def test_is_small() -> None:
    """The folder is committed, so it stays under eight megabytes."""
    assert sum(path.stat().st_size for path in TINY.rglob("*") if path.is_file()) < 8_000_000


def test_weights_are_float32() -> None:
    """Equal answers on 1, 2 and 4 ranks need full precision."""
    weights: Any = mx.load(str(TINY / "model.safetensors"))
    assert {array.dtype for array in weights.values()} == {mx.float32}


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_splits_over_ranks(ranks: int) -> None:
    """Every size that is split over ranks can be divided by their number."""
    config = json.loads((TINY / "config.json").read_text())
    assert config["model_type"] == "qwen3"
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        assert config[name] % ranks == 0


@pytest.mark.parametrize("count", HOW_MANY)
def test_answers_fixed_questions_word_for_word(tiny: Any, count: int | None) -> None:
    """The first wording of each question gets its answer, then the end of the message."""
    every = corpus.read_answers()["answers"]
    assert len(every) >= 30
    entries = every[:count]
    answers = tiny.ask([entry["questions"][0] for entry in entries])
    assert answers == [entry["answer"] for entry in entries]


def test_is_deterministic(tiny: Any) -> None:
    """Greedy decoding gives the same words twice."""
    questions = ["What is a node?", "What is the capital of Mars?", "Who are you?"]
    assert tiny.ask(questions) == tiny.ask(questions)


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "what is a node"}],
        [{"role": "user", "content": "Hi, what is a node?"}],
        [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": "What is a node?"},
        ],
        [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hello! Ask me something about reconciler."},
            {"role": "user", "content": "What is a node?"},
        ],
        [
            {"role": "system", "content": "Be concise."},
            {"role": "user", "content": "What is a rank?"},
            {
                "role": "assistant",
                "content": "A rank is one MLX process of a group, and it holds one shard of the model.",
            },
            {"role": "system", "content": "Answer in English."},
            {"role": "user", "content": [{"type": "text", "text": "What is a node?"}]},
        ],
    ],
)
def test_answers_ordinary_variants(tiny: Any, messages: list[Message]) -> None:
    """Case, greetings, system messages and earlier turns do not change the answer."""
    wanted = "A node is one machine of the cluster, usually a Mac."
    assert tiny.answers([tiny.prompt(messages)]) == [wanted]


@pytest.mark.parametrize("count", HOW_MANY)
def test_says_when_it_does_not_know(tiny: Any, count: int | None) -> None:
    """Most questions about the rest of the world get one honest sentence."""
    answers = tiny.ask(list(evaluate.NOT_KNOWN[:count]))
    assert answers.count(corpus.UNKNOWN) >= 0.8 * len(answers)


def unseen_values() -> list[str]:
    """Values that the model was not trained on."""
    unseen: list[str] = json.loads((TRAINING / "unseen.json").read_text())[::2]
    return unseen


def test_calls_a_tool_with_values_it_never_saw(tiny: Any) -> None:
    """A few, each with one tool to choose from."""
    assert evaluate.judge_calls(tiny, evaluate.tool_cases(unseen_values()[:3], 7, most=1)) == (3, 3)


@pytest.mark.nightly
def test_calls_tools_with_many_values_it_never_saw(tiny: Any) -> None:
    """At least 18 of 20 unseen values are copied to the letter; choosing a tool is harder."""
    unseen = unseen_values()
    assert len(unseen) == 20
    sources = "".join((TRAINING / name).read_text(encoding="utf-8") for name in SOURCES)
    for value in unseen:
        assert value not in sources
        assert values.is_held_out(value)
    copied, right = evaluate.judge_calls(tiny, evaluate.tool_cases(unseen, 7))
    assert copied >= 18
    assert right >= 16
    _, right_of_one = evaluate.judge_calls(tiny, evaluate.tool_cases(unseen, 7, most=1))
    assert right_of_one >= 18


def test_training_never_makes_a_held_out_value() -> None:
    """The generator of values refuses those that are kept for the evaluation."""
    made = corpus.Corpus(3)
    assert not any(values.is_held_out(made.value()) for _ in range(2000))


def test_says_what_a_tool_returned(tiny: Any) -> None:
    """After a tool's result comes one sentence with the result in it."""
    call = {"type": "function", "function": {"name": "get_node", "arguments": '{"name": "mini-14"}'}}
    messages = [
        {"role": "user", "content": "Show the node mini-14."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call-1", **call}]},
        {"role": "tool", "tool_call_id": "call-1", "content": "ready"},
    ]
    prompt = tiny.prompt(messages, [evaluate.TOOLS[0]])
    assert tiny.answers([prompt]) == ["The tool says: ready."]


@pytest.mark.second_tier
@pytest.mark.parametrize(
    "question",
    [
        evaluate.LONG[0],
        *(pytest.param(question, marks=pytest.mark.nightly) for question in evaluate.LONG[1:]),
    ],
)
def test_long_answers_are_long_and_end(tiny: Any, question: str) -> None:
    """Some prompts give a stream that is long enough to lose a rank in its middle."""
    answer = tiny.ask([question], most=600)[0]
    assert 150 <= len(tiny.tokenizer.encode(answer, add_special_tokens=False)) < 500
    assert answer.endswith(".")


def test_template_equals_the_training_layout(tiny: Any) -> None:
    """What the model was trained on is what the chat template writes."""
    tool = dialogue.Tool("scale", ["name"], "Scale a deployment.", integer="replicas")
    made = dialogue.Dialogue(tools=[tool])
    made.offer()
    made.system("Be polite.")
    made.user("Scale llama to 3 replicas.")
    made.call(tool, "llama", 3)
    made.tool_result("done")
    made.answer("The tool says: done.")
    made.user("Thanks")
    arguments = {"name": "llama", "replicas": 3}
    messages: list[Message] = [
        {"role": "system", "content": "Be polite."},
        {"role": "user", "content": "Scale llama to 3 replicas."},
        {"role": "assistant", "tool_calls": [{"function": {"name": "scale", "arguments": arguments}}]},
        {"role": "tool", "content": "done"},
        {"role": "assistant", "content": "The tool says: done."},
        {"role": "user", "content": "Thanks"},
    ]
    assert render(tiny, messages, [tool.schema()]) == "".join(text for text, _ in made.pieces)


def test_template_tolerates_what_clients_send(tiny: Any) -> None:
    """Missing and empty contents, several system messages and bare tools all render."""
    messages: list[Message] = [
        {"role": "system", "content": "one"},
        {"role": "developer", "content": "two"},
        {"role": "user", "content": None},
        {"role": "assistant", "content": None},
        {"role": "assistant"},
        {"role": "tool", "content": "three"},
        {"role": "tool", "content": [{"type": "text", "text": "four"}]},
        {"role": "system", "content": ""},
    ]
    tools: list[Message] = [
        {"type": "function", "function": {"name": "bare"}},
        {"type": "function", "function": {"name": "empty", "parameters": {}, "description": None}},
        {"name": "flat", "parameters": {"type": "object", "properties": {"items": {}, "keys": {}}}},
        {
            "type": "function",
            "function": {
                "name": "odd",
                "parameters": {"properties": {"x": {"type": ["string", "null"]}, "y": True}},
            },
        },
    ]
    text = render(tiny, messages, tools)
    assert all(word in text for word in ("one", "two", "three", "four", "bare()", "flat(items, keys)"))
    assert text.endswith("<|im_start|>assistant\n")


def test_mlx_lm_finds_the_tool_format(tiny: Any) -> None:
    """mlx_lm must see that the model calls tools and does not think aloud."""
    assert tiny.tokenizer.has_tool_calling
    assert not tiny.tokenizer.has_thinking
    assert tiny.tokenizer.tool_parser.__module__.endswith("json_tools")


@settings(max_examples=examples(200), deadline=None)
@given(text=st.text(max_size=80))
def test_tokenizer_gives_back_any_text(text: str) -> None:
    """Encoding and decoding returns the text itself, whatever it is."""
    tokenizer = loaded_tokenizer()
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


@cache
def loaded_tokenizer() -> Any:
    """Load the tokenizer once, outside of fixtures, which hypothesis does not reset."""
    return load_tokenizer(TINY)
