"""The only module that uses ``mlx_lm``'s generation, because its names change between patch releases.

Written against mlx-lm 0.32.2 and mlx 0.32.4.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import jinja2
import mlx.core as mx
from mlx_lm.generate import BatchGenerator, GenerationBatch, TextStateMachine, make_text_state_machine
from mlx_lm.sample_utils import greedy_sampler

from reconciler.runner.process.ending import RankEnd
from reconciler.wire.launch import ExitCode

from .mlx_errors import meaning

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
"""Errors that templates, tool parsers and loaders of a model may raise for their input."""


class NoTemplate(ValueError):
    """The model has no chat template that could be used, whatever the messages."""


PREFILL_TOKENS = 512
"""Prompt tokens per step, of all sequences together: running answers wait for no longer than that takes."""
PREFILL_SEQUENCES = 8
HELD_TOKENS_MAX = 8
"""Text that is no character yet is held back for so many tokens; a character has four bytes at most."""
TEMPLATE_ADVICE = "use /v1/completions, or correct chat_template.jinja in the model's folder"
PREFIXES = {
    ExitCode.PEER_LOST: "another rank is gone",
    ExitCode.MEMORY: "this node has too little memory",
    ExitCode.GPU: "the GPU failed",
}
"""Text before MLX's own message; by default that the rank's network failed."""

Sampler = Callable[[Any], Any]
"""Log-probabilities, a row per sequence, to one token per row."""
Agree = Callable[[Any], Any]
"""Tokens, one per row, as this rank chose them to tokens as all ranks take them."""


@functools.cache
def versions() -> tuple[str, str]:
    """Return the versions of mlx and mlx-lm, which must be equal on all ranks."""
    return version("mlx"), version("mlx-lm")


def ending_of(error: Exception) -> RankEnd | None:
    """Return the end of the rank that an error of MLX causes; None for an unexpected error."""
    code = meaning(str(error))
    if code is None:
        return None
    return RankEnd(code, f"{PREFIXES.get(code, 'the network of this rank failed')}: {error}")


# --- weights ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model, or this rank's shard of one, with its tokenizer."""

    model: Any
    tokenizer: Tokenizer
    vocabulary: int
    """Token ids below this are what the model knows."""


def loaded_bytes() -> int:
    """Return the memory that MLX holds now."""
    return int(mx.get_active_memory())


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

    def __init__(self, loaded: Loaded, batch_max: int, agree: Agree) -> None:
        self._generator: Any = BatchGenerator(
            loaded.model,
            stop_tokens=[(token,) for token in sorted(loaded.tokenizer.end_ids)],
            completion_batch_size=batch_max,
            prefill_batch_size=min(batch_max, PREFILL_SEQUENCES),
            prefill_step_size=PREFILL_TOKENS,
        )
        self._generator._generation_batch = _AgreedBatch.empty(loaded.model, greedy_sampler)
        self._generator._generation_batch.agree = agree

    def insert(self, prompt: Sequence[int], tokens_max: int, sampler: Sampler) -> int:
        """Queue a sequence for this generator's next step. Return its uid."""
        (uid,) = self._generator.insert([list(prompt)], max_tokens=[tokens_max], samplers=[sampler])
        return int(uid)

    def remove(self, uids: Sequence[int]) -> None:
        self._generator.remove(list(uids))

    def step(self) -> tuple[list[Read], list[Token]]:
        """Run one decode step of all running sequences, and one prefill chunk of the waiting ones."""
        generator = self._generator
        waiting = len(generator._prompt_batch) + len(generator._unprocessed_sequences)
        generator.prefill_step_size = PREFILL_TOKENS // max(1, min(generator.prefill_batch_size, waiting))
        prompts, tokens = generator.next()
        return (
            [Read(p.uid, *p.progress) for p in prompts],
            [Token(t.uid, t.token, t.finish_reason or "") for t in tokens],
        )

    def settle(self) -> None:
        """Wait for what a step has begun: the next one's tokens are always computed ahead."""
        for stream in (self._generator.stream, mx.default_stream(mx.cpu)):  # the latter talks to the others
            mx.synchronize(stream)


class _AgreedBatch(GenerationBatch):  # type: ignore[misc]
    """Tokens as all ranks agree on them, with one collective for all rows of a step."""

    agree: Agree
    model: Any
    samplers: list[Sampler]
    tokens: list[list[int]]
    _next_tokens: Any

    def _step(self) -> tuple[list[int], list[None]]:
        """Begin the next step and wait for this one's tokens, as ``GenerationBatch`` does, with two differences.

        The agreement is part of the step's graph, so that the next step does not wait for this thread to ask
        for it; and log-probabilities, of which nobody here wants to know, are not cut into rows.
        """
        tokens = self._current_tokens = self._next_tokens
        logits = self.model(tokens[:, None], cache=self.prompt_cache)[:, -1, :]
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        self._next_tokens = self._chosen(logprobs)
        self._agree_on(self)
        self._next_logprobs = self._current_logprobs = [None] * len(self.tokens)
        mx.eval(tokens)
        values: list[int] = tokens.tolist()
        for sequence, token in zip(self.tokens, values, strict=True):
            sequence.append(token)
        return values, self._current_logprobs

    def _chosen(self, logprobs: Any) -> Any:
        """Return the next token of each row. Sequences with the same sampler, such as greedy ones, are sampled
        together."""
        shared = self.samplers[0]
        if all(sampler is shared for sampler in self.samplers):
            return shared(logprobs)
        rows = [sampler(logprobs[row : row + 1]) for row, sampler in enumerate(self.samplers)]
        return mx.concatenate(rows)

    def extend(self, batch: Any) -> None:
        """Take in sequences that have come to the end of their prompts, with a token that each chose."""
        self._agree_on(batch)
        super().extend(batch)

    def _agree_on(self, batch: Any) -> None:
        batch._next_tokens = self.agree(batch._next_tokens)
        # Begun here: in a pipeline not every rank's next step needs it, and collectives have one order.
        mx.async_eval(batch._next_tokens)  # type: ignore[no-untyped-call]


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
        self.token_bytes_max = max(map(_bytes_of, wrapped.get_vocab()))
        """No token stands for more bytes of text."""
        self._markup = make_text_state_machine(wrapped)
        self._markup_depths = _depths(self._markup)
        self._silent = self._special_ids() - self._marker_ids()

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
        """Render a conversation as the text of a prompt. Raises ``NoTemplate``, ``FOREIGN_ERRORS``."""
        if not self._encoding.has_chat_template:
            raise NoTemplate(f"this model has no chat template: {TEMPLATE_ADVICE}")
        try:
            text = self._encoding.apply_chat_template(
                list(messages), tools=list(tools) or None, add_generation_prompt=True, tokenize=False
            )
        except jinja2.TemplateSyntaxError as error:
            mistake = f"line {error.lineno}: {error.message}"
            raise NoTemplate(f"this model's chat template is broken ({mistake}): {TEMPLATE_ADVICE}") from None
        return str(text)

    def rendered(self, text: str) -> list[int]:
        """Return the token ids of a template's text, which already has its special tokens."""
        return [int(token) for token in self._encoding.encode(text, add_special_tokens=False)]

    def plain(self, text: str) -> list[int]:
        """Return the token ids of text without a template."""
        return [int(token) for token in self._encoding.encode(text)]

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of a prompt's token ids."""
        return str(self._encoding.decode(list(tokens), clean_up_tokenization_spaces=False))

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self._decode, self._silent, len(self._decoding))

    def markup(self, prompt: Sequence[int]) -> Scanner:
        """Return a scanner that splits an answer to ``prompt`` into ``normal``, ``reasoning`` and ``tool``."""
        return Scanner(self._markup, self._markup_depths, self._initial_state(list(prompt)))

    def parse_tool_calls(self, text: str, tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Parse the tool calls in the markup between ``tool_start`` and ``tool_end``. Raises ``FOREIGN_ERRORS``."""
        parsed = self._decoding.tool_parser(text, list(tools))
        return parsed if isinstance(parsed, list) else [parsed]

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._decoding.decode(list(tokens), clean_up_tokenization_spaces=False))

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


def _bytes_of(token: str | bytes) -> int:
    return len(token if isinstance(token, bytes) else token.encode("utf-8", "surrogatepass"))


class Detokenizer:
    """Token ids of one answer to text, piece by piece, at a cost that does not grow with the answer.

    Tokens are decoded together with those just before them, for what a token says may depend on them.
    Special tokens have no text, nor have ids beyond the tokenizer's, with which some models fill up.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], silent: set[int], length: int) -> None:
        self._decode = decode
        self._silent = silent
        self._length = length
        self._before: list[int] = []
        self._released = ""
        """The text of ``_before`` alone."""
        self._held: list[int] = []

    def text(self, token: int) -> str:
        """Return the text that this token completes; empty within a character."""
        if token in self._silent or token >= self._length:
            return ""
        self._held.append(token)
        text = self._decode(self._before + self._held)
        if not text.endswith("\ufffd"):
            return self._release(text)
        return self.rest() if len(self._held) >= HELD_TOKENS_MAX else ""

    def rest(self) -> str:
        """Return the held text, which no later token completes."""
        return self._release(self._decode(self._before + self._held)) if self._held else ""

    def _release(self, text: str) -> str:
        new = text[len(self._released) :]
        self._before, self._held = self._held, []
        self._released = self._decode(self._before)
        return new


class Scanner:
    """Text to segments ``(state, text)``, with control strings cut out and possible ones held back."""

    def __init__(self, machine: Any, depths: Mapping[int, int], initial: str) -> None:
        self._state = machine.make_state(initial)
        self._depths = depths

    @property
    def over(self) -> bool:
        """Return whether a final control string has come: nothing after it belongs to the answer."""
        return self._state[0] is None

    def segments(self, text: str) -> list[tuple[str, str]]:
        """Return one entry per state passed; the last is the current one."""
        (name, node, states, held), segments = TextStateMachine.split(self._state, text)
        if name is not None:
            # ``split`` holds back more: all since it last saw no control string begin.
            possible = len(held) - self._depths.get(id(node), 0)
            segments[-1] = (name, segments[-1][1] + held[:possible])
            held = held[possible:]
        self._state = (name, node, states, held)
        return list(segments)

    def rest(self) -> str:
        """Return the text that is held at the end of the answer."""
        self._state, text, _ = TextStateMachine.flush(self._state)
        return str(text)


def stop_scanner(stop: Sequence[str]) -> Scanner:
    """Return a scanner with the one state ``normal`` that ends after any of these strings."""
    machine = TextStateMachine({"normal": [(text, None) for text in stop]} if stop else None)
    return Scanner(machine, _depths(machine), "normal")


def _depths(machine: Any) -> dict[int, int]:
    """Return how much of a control string each node of a machine has read, by the node's ``id``."""
    depths: dict[int, int] = {}
    level = [root for root, _ in machine._states.values()]
    depth = 0
    while level:
        depths.update((id(node), depth) for node in level)
        level = [child for node in level for edge, child in node.items() if len(edge) == 1]
        depth += 1
    return depths
