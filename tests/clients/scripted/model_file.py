"""The code that comes with the scripted weights: a sharded model whose answers follow from its prompt by a script.

Its one layer keeps the token ids themselves in the cache of a sequence, so that batches, prefix cache and resumed answers
are those of any model. Each rank of a group knows its share of the vocabulary alone: without all of them there is no answer.

A message such as ``Follow the script NAME in /some/folder.`` chooses a script of ``scripts.json`` beside this file. What is
said follows from the tokens so far and nothing else: the number of answers since that message is the step.
"""

import functools
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import BaseModelArgs
from mlx_lm.models.cache import make_prompt_cache

FOLDER = Path(__file__).parent
HEADER, END = 1, 2
"""Ids of ``<|im_start|>`` and ``<|im_end|>``."""
CHOSEN = re.compile(r"[Ff]ollow the script ([a-z0-9]+(?:-[a-z0-9]+)*)(?: in (/[\w./-]*\w))?")
UNSCRIPTED = "Hello from the script."
UNTOOLED = "A short title"
"""What is said where a script calls tools that the request does not have, as where an agent asks for a title."""
CUT = '"}}'
"""What is missing at the end of a call that breaks off."""
OVER = "There is nothing left to do."
SEEN = re.compile(r"\{seen:(.*?)\}")
LIKELIEST, LIKELY, LONGER = 600.0, 200.0, 20.0
"""Scores, and how much each byte of a longer token adds: at any temperature the best one is taken."""


@dataclass
class ModelArgs(BaseModelArgs):  # type: ignore[misc]
    """What of ``config.json`` the model looks at."""

    model_type: str
    vocab_size: int
    num_key_value_heads: int
    head_dim: int


class Memory(nn.Module):  # type: ignore[misc]
    """The layer that remembers tokens."""


class Model(nn.Module):  # type: ignore[misc]
    """What ``mlx_lm`` and the runner ask of a model."""

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.args = args
        self.model_type = args.model_type
        self.layers = [Memory()]
        self.loudness = mx.ones((1,))
        self._heads = args.num_key_value_heads
        self._group: Any = None

    def shard(self, group: Any = None) -> None:
        """Keep this rank's share."""
        self._group = group or mx.distributed.init()
        self._heads //= self._group.size()

    def __call__(self, inputs: Any, cache: Any = None, **_: Any) -> Any:
        """Return logits, a row for each token. Only after a single token, as while decoding, do they say anything."""
        rows, length = inputs.shape
        memory = (cache or make_prompt_cache(self))[0]
        ids = inputs.astype(mx.float32)[:, None, :, None]
        ids = mx.broadcast_to(ids, (rows, self._heads, length, self.args.head_dim))
        kept, _ = memory.update_and_fetch(ids, ids)
        if length > 1:
            return mx.zeros((rows, length, self.args.vocab_size))
        paddings = getattr(memory, "left_padding", None)
        starts = [0] * rows if paddings is None else paddings.tolist()
        said = [after(ids[start:]) for ids, start in zip(_rows(kept), starts, strict=True)]
        time.sleep(max(pace for _, pace in said))
        return self._agreed(mx.stack([_logits(scores, self.args.vocab_size) for scores, _ in said]))

    def _agreed(self, logits: Any) -> Any:
        """Return the logits of all ranks' shares, ``(rows, 1, vocabulary)``."""
        if self._group is not None:
            mine = mx.arange(self.args.vocab_size) % self._group.size() == self._group.rank()
            logits = mx.distributed.all_sum(mx.where(mine, logits, 0.0), group=self._group)
        return (self.loudness * logits)[:, None, :]


def _rows(kept: Any) -> list[list[int]]:
    rows: list[list[int]] = kept[:, 0, :, 0].astype(mx.uint32).tolist()
    return rows


def _logits(scores: dict[int, float], vocabulary: int) -> Any:
    logits = [0.0] * vocabulary
    for token, score in scores.items():
        logits[token] = score
    return mx.array(logits)


# --- what comes next -------------------------------------------------------------------------------


def after(tokens: list[int]) -> tuple[dict[int, float], float]:
    """Return scores of the tokens that may come after these, and the seconds that choosing one takes."""
    if HEADER not in tokens:  # no conversation: a sentence is brought to its end
        full_stop = _vocabulary()[1][b"."]
        return {END if tokens[-1] == full_stop else full_stop: LIKELIEST}, 0.0
    begins = len(tokens) - tokens[::-1].index(HEADER)
    text, pace = planned(tuple(tokens[:begins]))
    texts = _vocabulary()[0]
    answer = b"".join(texts[token] for token in tokens[begins:])
    return following(text.encode(), answer.partition(b"\n")[2]), pace


def following(text: bytes, said: bytes) -> dict[int, float]:
    """Return the scores of tokens that bring an answer nearer to ``text``, whatever spaces are left out or added."""
    left = _left(text, said)
    if left is None or not left.strip():
        return {END: LIKELIEST}
    scores = {}
    for wanted, score in ((left.lstrip(), LIKELY), (left, LIKELIEST)):
        for size in range(1, _vocabulary()[2] + 1):
            token = _vocabulary()[1].get(wanted[:size])
            if token is not None:
                scores[token] = score + LONGER * size
    return scores


def _left(text: bytes, said: bytes) -> bytes | None:
    """Return what of ``text`` comes after ``said``; None where something else was said."""
    at = 0
    for byte in said:
        if at < len(text) and text[at] == byte:
            at += 1
            continue
        if chr(byte).isspace():
            continue
        while at < len(text) and chr(text[at]).isspace():
            at += 1
        if at == len(text) or text[at] != byte:
            return None
        at += 1
    return text[at:]


@functools.lru_cache(maxsize=64)
def planned(prompt: tuple[int, ...]) -> tuple[str, float]:
    """Return the answer to a conversation, and the seconds of each of its tokens."""
    texts = _vocabulary()[0]
    text = b"".join(texts[token] for token in prompt).decode(errors="replace")
    return plan(text, json.loads((FOLDER / "scripts.json").read_text()))


def plan(conversation: str, scripts: dict[str, list[dict[str, Any]]]) -> tuple[str, float]:
    """Return what the script that a conversation names says next, and the seconds of each token.

    A step of a script has ``say``, ``calls`` of tools, or both, or ``cut``, a call that breaks off, and perhaps ``pace``, the
    seconds of a token.
    """
    messages = [part.partition("\n")[::2] for part in conversation.split("<|im_start|>")[1:]]
    chosen = [(at, *_chosen(body)) for at, (role, body) in enumerate(messages) if role == "user"]
    chosen = [choice for choice in chosen if choice[1] in scripts]
    if not chosen:
        return UNSCRIPTED, 0.0
    at, name, folder = chosen[-1]
    number = sum(role == "assistant" and bool(body) for role, body in messages[at:])
    steps = scripts[name]
    if number >= len(steps):
        return OVER, 0.0
    step = steps[number]
    calls = [_filled(call, folder, messages) for call in step.get("calls", ())]
    shown = [body for role, body in messages if role == "system" and "Tools:" in body]
    if any(not any(f"\n{call['name']}(" in body for body in shown) for call in calls):
        return UNTOOLED, 0.0
    parts = [_filled(step["say"], folder, messages)] if "say" in step else []
    parts += [f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls]
    if "cut" in step:
        parts.append(f"<tool_call>\n{json.dumps(_filled(step['cut'], folder, messages))}"[: -len(CUT)])
    return "\n".join(parts), step.get("pace", 0.0)


def _chosen(body: str) -> tuple[str, str]:
    """Return the script and the folder that a message names; the script ``name-a-city`` is also that of ``Name a city.``"""
    found = CHOSEN.search(body)
    if found:
        return found.group(1), found.group(2) or "/tmp"
    return re.sub(r"\W+", "-", body.removesuffix("<|im_end|>\n").lower()).strip("-"), "/tmp"


def _filled(value: Any, folder: str, messages: list[Any]) -> Any:
    """Return a value of a script with ``{folder}``, and ``{seen:PATTERN}`` of the last message before, filled in."""
    if isinstance(value, dict):
        return {key: _filled(each, folder, messages) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, folder, messages) for each in value]
    if not isinstance(value, str):
        return value

    def seen(pattern: re.Match[str]) -> str:
        bodies = [body for role, body in messages if role == "user" and "<tool_response>" in body]
        found = re.search(pattern.group(1), bodies[-1]) if bodies else None
        return found.group() if found else "nothing"

    return SEEN.sub(seen, value.replace("{folder}", folder))


@functools.cache
def _vocabulary() -> tuple[dict[int, bytes], dict[bytes, int], int]:
    """Return the text of each token, the token of each text, and the length of the longest."""
    tokenizer = json.loads((FOLDER / "tokenizer.json").read_text())
    letters = _letters()
    texts = {
        token: bytes(letters[letter] for letter in text)
        for text, token in tokenizer["model"]["vocab"].items()
    }
    texts |= {added["id"]: added["content"].encode() for added in tokenizer["added_tokens"]}
    tokens = {text: token for token, text in texts.items() if text and token not in (0, HEADER, END)}
    return texts, tokens, max(map(len, tokens))


def _letters() -> dict[str, int]:
    """Return the byte for each letter in which byte-level tokenizers write bytes."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    return {chr(byte): byte for byte in printed} | {chr(256 + at): byte for at, byte in enumerate(others)}
