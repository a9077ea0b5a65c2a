"""The only module that says ``mlx_lm``: its names change between patch releases, and they change here.

Written against mlx-lm 0.32.2 and mlx 0.32.4.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import jinja2
import mlx.core as mx
from mlx_lm.generate import BatchGenerator, TextStateMachine, make_text_state_machine
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p
from mlx_lm.utils import load, load_model, sharded_load

from reconciler.wire.launch import ExitCode

from .ending import RankEnd
from .weights import ModelFiles, bad_weights

FOREIGN_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    ImportError,
    OSError,
    RuntimeError,
    SyntaxError,
    jinja2.TemplateError,
)
"""What templates, tool parsers and loaders, which come with a model, may raise about what they are given."""

PREFILL_TOKENS = 512
"""Prompt tokens per step and sequence: answers that are running wait for no longer than one such chunk."""
PREFILL_SEQUENCES = 8
PEER_LOST_TEXT = "connection to a peer was lost"
MEMORY_TEXTS = ("unable to allocate", "out of memory", "outofmemory", "insufficient memory", "[malloc")

Sampler = Callable[[Any], Any]


def versions() -> tuple[str, str]:
    """Versions of mlx and mlx-lm, which must be equal on all ranks."""
    return version("mlx"), version("mlx-lm")


def ending_of(error: RuntimeError) -> RankEnd | None:
    """What an error of MLX means for the rank; None for one that nobody expected."""
    text = str(error)
    if PEER_LOST_TEXT in text:
        return RankEnd(ExitCode.PEER_LOST, f"another rank is gone: {text}")
    if any(part in text.lower() for part in MEMORY_TEXTS):
        return RankEnd(ExitCode.MEMORY, f"this node has too little memory: {text}")
    return None


# --- weights ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model, or this rank's shard of one, with its tokenizer."""

    model: Any
    tokenizer: Tokenizer
    vocabulary: int
    """Token ids below this are what the model knows."""


def load_shard(files: ModelFiles, group: Any, strategy: str, trust_remote_code: bool) -> Loaded:
    """Load the whole model (``group`` None) or this rank's share. Raises ``RankEnd(WEIGHTS)``.

    With a group this is a collective: it returns when every rank has loaded.
    """
    tokenizer_config = {"trust_remote_code": trust_remote_code}
    path = str(files.directory)
    try:
        if group is None:
            model, tokenizer, config = load(
                path,
                tokenizer_config=tokenizer_config,
                return_config=True,
                trust_remote_code=trust_remote_code,
            )
        else:
            _check_shard(files, strategy, trust_remote_code)
            model, tokenizer, config = sharded_load(
                path,
                **{f"{strategy}_group": group},
                return_config=True,
                tokenizer_config=tokenizer_config,
                trust_remote_code=trust_remote_code,
            )
    except FOREIGN_ERRORS as error:
        known = ending_of(error) if isinstance(error, RuntimeError) else None
        raise known or bad_weights(f"cannot load {path}: {_first_line(error)}") from error
    vocabulary = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
    return Loaded(model, Tokenizer(tokenizer), int(vocabulary or len(tokenizer)))


def loaded_bytes() -> int:
    """Memory that MLX holds now."""
    return int(mx.get_active_memory())


def _check_shard(files: ModelFiles, strategy: str, trust_remote_code: bool) -> None:
    """Say what ``sharded_load`` would not: it is lenient about tensors that are missing."""
    model, _ = load_model(files.directory, lazy=True, strict=True, trust_remote_code=trust_remote_code)
    kind = files.config.get("model_type")
    if strategy == "tensor":
        if not hasattr(model, "shard"):
            raise bad_weights(f"mlx-lm cannot run {kind} models tensor-sharded; one node, or pipeline, can")
        return
    if not hasattr(getattr(model, "model", None), "pipeline"):
        raise bad_weights(f"mlx-lm cannot run {kind} models as a pipeline; one node, or tensor, can")
    if not (files.directory / "model.safetensors.index.json").exists():
        raise bad_weights(f"{files.directory} has no model.safetensors.index.json, which a pipeline needs")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:400]


# --- the batch -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Token:
    """One token of one sequence. ``ended`` is "", ``stop`` (this is an end token) or ``length``."""

    uid: int
    id: int
    ended: str


@dataclasses.dataclass(frozen=True)
class Read:
    """Prompt tokens of one sequence that have been processed."""

    uid: int
    done: int
    total: int


class Generator:
    """``BatchGenerator``, reduced to what lockstep needs. Sequences have uids that count from 0."""

    def __init__(self, loaded: Loaded, batch_max: int) -> None:
        self._generator = BatchGenerator(
            loaded.model,
            stop_tokens=[(token,) for token in sorted(loaded.tokenizer.end_ids)],
            completion_batch_size=batch_max,
            prefill_batch_size=min(batch_max, PREFILL_SEQUENCES),
            prefill_step_size=PREFILL_TOKENS,
        )

    def insert(self, prompt: Sequence[int], tokens_max: int, sampler: Sampler) -> int:
        """Queue a sequence for this generator's next step; returns its uid."""
        (uid,) = self._generator.insert([list(prompt)], max_tokens=[tokens_max], samplers=[sampler])
        return int(uid)

    def remove(self, uids: Sequence[int]) -> None:
        self._generator.remove(list(uids))

    def step(self) -> tuple[list[Read], list[Token]]:
        """One decode step of all running sequences, and one prefill chunk of those that wait."""
        prompts, tokens = self._generator.next()
        return (
            [Read(p.uid, *p.progress) for p in prompts],
            [Token(t.uid, t.token, t.finish_reason or "") for t in tokens],
        )


def keep_likely(logprobs: Any, top_p: float, top_k: int, min_p: float) -> Any:
    """Log-probabilities with the unlikely tokens ruled out, in ``mlx_lm``'s order."""
    if 0 < top_p < 1:
        logprobs = apply_top_p(logprobs, top_p)
    if min_p > 0:
        logprobs = apply_min_p(logprobs, min_p)
    if 0 < top_k < logprobs.shape[-1]:
        logprobs = apply_top_k(logprobs, top_k)
    return logprobs


# --- text ------------------------------------------------------------------------------------------


class Tokenizer:
    """``TokenizerWrapper``, reduced to what a rank needs."""

    def __init__(self, wrapped: Any) -> None:
        self._decoding = wrapped
        # Encoding happens in another thread than decoding, and a fast tokenizer is not safe to share.
        self._encoding = copy.deepcopy(wrapped)
        self.end_ids = frozenset(wrapped.eos_token_ids)
        self.has_tools: bool = wrapped.has_tool_calling
        self.tool_start: str = wrapped.tool_call_start or ""
        self.tool_end: str = wrapped.tool_call_end or ""
        self._markup = make_text_state_machine(wrapped)
        self._silent = self._special_ids() - self._marker_ids()

    def chat(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """A conversation as the prompt for its next answer. Raises ``FOREIGN_ERRORS``."""
        if not self._encoding.has_chat_template:
            raise ValueError("this model has no chat template")
        prompt = self._encoding.apply_chat_template(
            list(messages), tools=list(tools) or None, add_generation_prompt=True
        )
        return [int(token) for token in prompt]

    def plain(self, text: str) -> list[int]:
        """Text as token ids, without a template."""
        return [int(token) for token in self._encoding.encode(text)]

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self._decoding.detokenizer, self._silent, len(self._decoding))

    def markup(self, prompt: Sequence[int]) -> Scanner:
        """Splits an answer to ``prompt`` into ``normal``, ``reasoning`` and ``tool``."""
        return Scanner(self._markup, self._initial_state(list(prompt)))

    def parse_tool_calls(self, text: str, tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Tool calls in the markup between ``tool_start`` and ``tool_end``. Raises ``FOREIGN_ERRORS``."""
        parsed = self._decoding.tool_parser(text, list(tools))
        return parsed if isinstance(parsed, list) else [parsed]

    def _initial_state(self, prompt: list[int]) -> str:
        state = "normal"
        if self._decoding.has_thinking:
            opened = self._decoding.rfind_think_start(prompt)
            if opened > self._decoding.rfind_think_end(prompt):
                state = "reasoning"
        return self._decoding.response_initial_state or state

    def _special_ids(self) -> set[int]:
        added = getattr(self._decoding, "added_tokens_decoder", {})
        return {token for token, content in added.items() if content.special} | set(self.end_ids)

    def _marker_ids(self) -> set[int]:
        wrapped = self._decoding
        texts = [wrapped.think_start, wrapped.think_end, wrapped.tool_call_start, wrapped.tool_call_end]
        texts += wrapped.structural_markers
        texts += [text for edges in wrapped.response_transitions.values() for text, _ in edges]
        return {
            token for text in texts if text for token in wrapped.encode(text, add_special_tokens=False)
        } - set(self.end_ids)


class Detokenizer:
    """Token ids of one answer to text, piece by piece.

    Special tokens have no text, nor have ids beyond the tokenizer's, with which some models fill up.
    """

    def __init__(self, wrapped: Any, silent: set[int], length: int) -> None:
        self._wrapped = wrapped
        self._silent = silent
        self._length = length

    def text(self, token: int) -> str:
        """What this token completes; empty within a character."""
        if token in self._silent or token >= self._length:
            return ""
        self._wrapped.add_token(token)
        return str(self._wrapped.last_segment)

    def rest(self) -> str:
        """What was held back at the end of the answer."""
        try:
            self._wrapped.finalize()
        except LookupError:
            return ""  # the last bytes are no text at all
        return str(self._wrapped.last_segment)


class Scanner:
    """Text to segments ``(state, text)``, with control strings cut out and possible ones held back."""

    def __init__(self, machine: Any, initial: str) -> None:
        self._state = machine.make_state(initial)

    @property
    def over(self) -> bool:
        """A final control string has come: nothing after it is part of the answer."""
        return self._state[0] is None

    def segments(self, text: str) -> list[tuple[str, str]]:
        """One entry per state passed, the last is the current one."""
        self._state, segments = TextStateMachine.split(self._state, text)
        return list(segments)

    def rest(self) -> str:
        """What was held back at the end of the answer."""
        self._state, text, _ = TextStateMachine.flush(self._state)
        return str(text)


def stop_scanner(stop: Sequence[str]) -> Scanner:
    """A scanner with the one state ``normal`` that is over after any of these strings."""
    return Scanner(TextStateMachine({"normal": [(text, None) for text in stop]} if stop else None), "normal")
