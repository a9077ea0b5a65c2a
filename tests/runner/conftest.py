"""Models for the tests: the tiny one that ships with the examples, and an endless one with random weights."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.generate import stream_generate
from mlx_lm.models import qwen2, qwen3
from mlx_lm.utils import load
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from reconciler.runner.model.adapter import Tokenizer as RunnerTokenizer

from .ranks import Group, running

TINY = Path(__file__).parents[2] / "examples" / "models" / "tiny"
SPECIAL = ["<|end|>", "<|start|>"]
MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
TEMPLATE = """\
{%- for tool in tools or [] %}{{ tool.function.name }};{% endfor -%}
{%- for message in messages %}<|start|>{{ message.role }}:{{ message.content }}
{%- for tool_call in message.tool_calls or [] %}<tool_call>{{ tool_call.function.name }}
{{- tool_call.function.arguments.items() | list }}</tool_call>{% endfor %}<|end|>{% endfor -%}
{%- if add_generation_prompt %}<|start|>assistant:{% endif -%}
{#- tool_call.name -#}
"""


@pytest.fixture(scope="session")
def tiny() -> Path:
    return TINY


@functools.cache
def _loaded(path: Path) -> tuple[Any, Any]:
    model, tokenizer = load(str(path))[:2]
    return model, tokenizer


def greedy_tokens(model_path: Path, prompt: list[int], tokens_max: int) -> list[int]:
    """What ``mlx_lm`` generates greedily in this one process."""
    model, tokenizer = _loaded(model_path)
    steps = stream_generate(model, tokenizer, prompt, max_tokens=tokens_max)
    return [step.token for step in steps if step.token not in tokenizer.eos_token_ids]


def token_logprobs(model_path: Path, tokens: Sequence[int]) -> list[float]:
    """What one process says of each token but the first, after those before it."""
    model, _ = _loaded(model_path)
    logits = model(mx.array([tokens]))[0, :-1].astype(mx.float32)
    logprobs = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    return [float(row[token]) for row, token in zip(logprobs, tokens[1:], strict=True)]


def end_ids(model_path: Path) -> frozenset[int]:
    """The model's end tokens."""
    return frozenset(_loaded(model_path)[1].eos_token_ids)


def adjusted_tokens(
    model_path: Path,
    prompt: list[int],
    tokens_max: int,
    adjust: Callable[[Any, list[int]], Any],
    stop_tokens: Sequence[int] = (),
) -> list[int]:
    """What one process says that reads everything anew for each token, and takes the likeliest token of logits as
    ``adjust`` changes them for the answer so far."""
    model, tokenizer = _loaded(model_path)
    said: list[int] = []
    while len(said) < tokens_max:
        logits = np.array(model(mx.array([[*prompt, *said]]))[0, -1].astype(mx.float32))
        token = int(np.argmax(adjust(logits, said)))
        if token in tokenizer.eos_token_ids or token in stop_tokens:
            break
        said.append(token)
    return said


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights and a byte-level tokenizer: it practically never says the end token."""
    return write_endless(tmp_path_factory.mktemp("endless"))


@pytest.fixture
def copy(endless: Path, tmp_path: Path) -> Path:
    """The same in a folder that a test may change."""
    return Path(shutil.copytree(endless, tmp_path / "copy"))


def change_json(file: Path, **fields: Any) -> None:
    """Change fields of an object in a file."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def write_endless(directory: Path) -> Path:
    write_tokenizer(directory)
    config = write_config(directory, "qwen3")
    mx.random.seed(7)
    weights = dict(tree_flatten(qwen3.Model(qwen3.ModelArgs.from_dict(config)).parameters()))
    weights["model.embed_tokens.weight"][0] = 0
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    return directory


@pytest.fixture(scope="session")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights of an architecture that can be a pipeline, in a file per half as a pipeline needs."""
    directory = tmp_path_factory.mktemp("layered")
    write_tokenizer(directory)
    config = write_config(directory, "qwen2")
    mx.random.seed(3)
    weights = dict(tree_flatten(qwen2.Model(qwen2.ModelArgs.from_dict(config)).parameters()))
    # Larger than at the start of a training: such a model does not say one token for ever.
    weights = {name: weight * 4 if weight.ndim == 2 else weight for name, weight in weights.items()}
    weights["model.embed_tokens.weight"][0] = 0
    files = {name: f"model-0000{1 if 'layers.0' in name else 2}-of-00002.safetensors" for name in weights}
    for file in set(files.values()):
        part = {name: weight for name, weight in weights.items() if files[name] == file}
        mx.save_safetensors(str(directory / file), part, metadata={"format": "mlx"})
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return directory


def write_tokenizer(directory: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(SPECIAL + alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False) for token in MARKERS])
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL[0],
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    (directory / "chat_template.jinja").write_text(TEMPLATE)


def write_config(directory: Path, model_type: str) -> dict[str, Any]:
    config = {
        "model_type": model_type,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "max_position_embeddings": 4096,
        "vocab_size": 304,
        "tie_word_embeddings": True,
        "eos_token_id": 0,
    }
    (directory / "config.json").write_text(json.dumps(config))
    return config


@pytest.fixture(scope="session")
def endless_tokenizer(endless: Path) -> RunnerTokenizer:
    tokenizer: Any = load(str(endless))[1]
    return RunnerTokenizer(tokenizer)


@pytest.fixture(scope="module")
def pair(tiny: Path) -> Iterator[Group]:
    """Two ranks of the tiny model."""
    with running(tiny, 2) as group:
        yield group.ready()
