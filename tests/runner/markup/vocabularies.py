"""Real vocabularies, from packages on PyPI: those of llama.cpp's tests, DeepSeek's and Mistral's.

Only vocabularies are there, and no models. They belong to many models under many licences: as with the templates, none is
copied into this repository.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from .collection import deepseek, mistral, vocabulary

CONTROL, USER_DEFINED = 3, 4
"""Types of tokens in a GGUF file (``llama_token_type``). Of Gemma 4, llama.cpp makes the markers of calls and reasoning
user-defined, so that its parser sees them (``conversion/gemma.py``); they are special tokens of the model."""
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {
    "llama-bpe": WORDS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    "qwen2": WORDS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    "qwen35": WORDS + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES,
}
"""How text is split before tokens are looked for, by ``tokenizer.ggml.pre`` (``src/llama-vocab.cpp``)."""
QWEN = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Tokens of Qwen since 2.5 and 3, which are not special."""


def llama_cpp(name: str) -> Tokenizer:
    """A vocabulary of llama.cpp's tests."""
    loaded: Any = mx.load(str(vocabulary(name)), return_metadata=True)
    metadata: Mapping[str, Any] = loaded[1]
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    ids = {token: number for number, token in enumerate(tokens)}
    pairs = [_pair(merge) for merge in merges]
    pre = metadata.get("tokenizer.ggml.pre", "")
    gemma = metadata["tokenizer.ggml.model"] == "gemma4"
    if gemma:
        found = _with_spaces(ids, pairs)
    else:
        found = _of_bytes(models.BPE(ids, pairs, ignore_merges=pre == "llama-bpe"), SPLITS.get(pre))
    kinds = dict(zip(tokens, metadata["tokenizer.ggml.token_type"].tolist(), strict=True))
    for token, kind in kinds.items():
        if kind == CONTROL or (gemma and kind == USER_DEFINED):
            found.add_special_tokens([AddedToken(token, special=True)])
        elif kind == USER_DEFINED and not token.startswith("[PAD"):
            found.add_tokens([AddedToken(token)])
    return found


def _pair(merge: str) -> tuple[str, str]:
    """The two parts of a merge, each of which may begin with the space that is between them."""
    at = merge.index(" ", 1)
    return merge[:at], merge[at + 1 :]


def _of_bytes(model: models.BPE, split: str | None) -> Tokenizer:
    """One that has a character for each byte; without ``split``, single digits and the words of GPT 2."""
    found = Tokenizer(model)
    parts: list[Any] = [pre_tokenizers.Digits(individual_digits=True)]
    if split is not None:
        parts = [pre_tokenizers.Split(Regex(split), "isolated")]
    parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None))
    found.pre_tokenizer = pre_tokenizers.Sequence(parts)
    found.decoder = decoders.ByteLevel()
    return found


def _with_spaces(ids: dict[str, int], pairs: list[tuple[str, str]]) -> Tokenizer:
    """One that has ``▁`` for a space, and bytes for what it has no token of."""
    found = Tokenizer(models.BPE(ids, pairs, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    found.normalizer = normalizers.Replace(" ", "▁")
    found.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return found


def of_deepseek() -> Tokenizer:
    """That of DeepSeek V4."""
    return Tokenizer.from_file(str(deepseek()))


def tekken(name: str) -> Callable[[], Tokenizer]:
    """One of Mistral's, whose tokens are bytes in the order in which they are merged."""
    return lambda: _tekken(mistral(name))


def _tekken(path: Path) -> Tokenizer:
    content = json.loads(path.read_text(encoding="utf-8"))
    config = content["config"]
    count = config["default_vocab_size"] - config["default_num_special_tokens"]
    pieces = [base64.b64decode(entry["token_bytes"]) for entry in content["vocab"][:count]]
    ranks = {piece: rank for rank, piece in enumerate(pieces)}
    shown = {byte: char for char, byte in _bytes_by_character().items()}
    text = ["".join(shown[byte] for byte in piece) for piece in pieces]
    merges = []
    for rank, piece in enumerate(pieces):
        cuts = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        known = sorted((ranks[a], ranks[b]) for a, b in cuts if a in ranks and b in ranks)
        merges += [(rank, text[a], text[b]) for a, b in known if max(a, b) < rank]
    model = models.BPE(
        {token: rank for rank, token in enumerate(text)}, [(a, b) for _, a, b in merges], ignore_merges=True
    )
    return _of_bytes(model, config["pattern"])


def _bytes_by_character() -> dict[str, int]:
    """The byte for which a byte-level vocabulary has each character (``bytes_to_unicode`` of GPT 2)."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in kept]
    return {chr(byte): byte for byte in kept} | {chr(256 + at): byte for at, byte in enumerate(others)}


def _llama_cpp(name: str) -> Callable[[], Tokenizer]:
    return lambda: llama_cpp(name)


VOCABULARIES: Mapping[str, Callable[[], Tokenizer]] = {
    **{name: _llama_cpp(name) for name in ("llama-bpe", "qwen2", "qwen35", "gemma-4", "command-r")},
    "deepseek-v4": of_deepseek,
    "tekken-240718": tekken("tekken_240718"),
    "tekken-240911": tekken("tekken_240911"),
}
ENDS: Mapping[str, tuple[str, str]] = {
    "llama-bpe": ("<|begin_of_text|>", "<|eot_id|>"),
    "qwen2": ("<|endoftext|>", "<|im_end|>"),
    "qwen35": ("<|endoftext|>", "<|im_end|>"),
    "gemma-4": ("<bos>", "<turn|>"),
    "command-r": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"),
    "deepseek-v4": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "tekken-240718": ("<s>", "</s>"),
    "tekken-240911": ("<s>", "</s>"),
}
"""The tokens at the beginning of a text and at the end of an answer."""
TEMPLATES: Mapping[str, str] = {
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command-r",
    "Mistral-Small-3.2-24B-Instruct-2506": "tekken-240911",
    "Qwen-QwQ-32B": "qwen2",
    "Qwen-Qwen2.5-7B-Instruct": "qwen2",
    "Qwen-Qwen3-0.6B": "qwen2",
    "Qwen3-Coder": "qwen2",
    "Qwen3.5-4B": "qwen35",
    "deepseek-ai-DeepSeek-V3.2": "deepseek-v4",
    "deepseek-ai-DeepSeek-V4-Flash-0731": "deepseek-v4",
    "deepseek-ai-DeepSeek-V4": "deepseek-v4",
    "google-gemma-4-31B-it-interleaved": "gemma-4",
    "google-gemma-4-31B-it": "gemma-4",
    "meetkai-functionary-medium-v3.1": "llama-bpe",
    "meetkai-functionary-medium-v3.2": "llama-bpe",
    "meta-llama-Llama-3.1-8B-Instruct": "llama-bpe",
    "meta-llama-Llama-3.2-3B-Instruct": "llama-bpe",
    "meta-llama-Llama-3.3-70B-Instruct": "llama-bpe",
    "mistralai-Ministral-3-14B-Reasoning-2512": "tekken-240911",
    "mistralai-Mistral-Nemo-Instruct-2407": "tekken-240718",
    "unsloth-mistral-Devstral-Small-2507": "tekken-240911",
}
"""The vocabulary of the models that have each template: their own, or that of another version with the same words."""
