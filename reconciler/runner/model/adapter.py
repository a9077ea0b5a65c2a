"""MLX's errors and ``mlx_lm``'s tokenizers as the runner uses them: their names change between patch releases.

Written against mlx-lm 0.32.2 and mlx 0.32.4.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence, Set
from importlib.metadata import version
from typing import Any

import jinja2
import mlx.core as mx
from huggingface_hub.errors import StrictDataclassError

from reconciler.runner.markup.answer import Parser
from reconciler.runner.markup.families import reading_of
from reconciler.wire.launch import ExitCode, RankEnd
from reconciler.wire.sampling import SamplingDefaults

from .mlx_errors import meaning
from .token_text import Detokenizer, TokenTexts
from .turn_ends import turn_end

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
    StrictDataclassError,  # of transformers, for values in config.json that mlx-lm may not look at
)
"""Errors that templates, tool parsers and loaders of a model may raise for their input."""


class NoTemplate(ValueError):
    """The model has no chat template that could be used, whatever the messages."""


TEMPLATE_RESERVED = frozenset(
    [
        "conversation",
        "messages",
        "tools",
        "documents",
        "chat_template",
        "add_generation_prompt",
        "continue_final_message",
        "tokenize",
        "padding",
        "truncation",
        "max_length",
        "return_tensors",
        "return_dict",
        "return_assistant_tokens_mask",
        "tokenizer_kwargs",
    ]
)
"""Names that are no variables of a template, but arguments of what renders it."""
_NO_TOOLS: Sequence[list[Any] | None] = (None, [])
PROMPT_END_TOKENS = 64
"""The end of a prompt shows whether it has begun the reasoning."""
PROBE: Sequence[Mapping[str, Any]] = (
    {"role": "user", "content": "question"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "abcdefghi",
                "type": "function",
                "function": {"name": "probe_tool", "arguments": {"at": "x"}},
            }
        ],
    },
)
PROBE_TOOLS: Sequence[Mapping[str, Any]] = (
    {
        "type": "function",
        "function": {
            "name": "probe_tool",
            "description": "none",
            "parameters": {
                "type": "object",
                "properties": {"at": {"type": "string", "description": "none"}},
                "required": ["at"],
            },
        },
    },
)
TEMPLATE_ADVICE = "use /v1/completions, or correct chat_template.jinja in the model's folder"
PREFIXES = {
    ExitCode.PEER_LOST: "another rank is gone",
    ExitCode.MEMORY: "this node has too little memory",
    ExitCode.GPU: "the GPU failed",
}
"""Text before MLX's own message; by default that the rank's network failed."""


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


def compile_nothing_on_a_cpu() -> None:
    """Let MLX run what models mark for compilation as it stands, where it computes on a CPU.

    It would compile each such function with g++ when it is first called, in the middle of a step, for a second of each
    rank. It writes the library in place: half of one, which a killed rank leaves under ``TMPDIR``, crashes all ranks that
    load it later (mlx/backend/cpu/compiled.cpp). A step of the smallest model takes 2 % longer without.
    """
    if mx.default_device() == mx.Device(mx.DeviceType.cpu):
        mx.disable_compile()


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model, or this rank's shard of one, with its tokenizer."""

    model: Any
    tokenizer: Tokenizer
    vocabulary: int
    """Token ids below this are what the model knows."""
    sampling: SamplingDefaults = dataclasses.field(default_factory=SamplingDefaults)
    """The model's own, for what a request does not say."""


def loaded_bytes() -> int:
    """Return the memory that MLX holds now."""
    return int(mx.get_active_memory())


# --- text ------------------------------------------------------------------------------------------


class Tokenizer:
    """``TokenizerWrapper``, reduced to what a rank needs."""

    def __init__(self, wrapped: Any, ends: Collection[int] = ()) -> None:
        """``ends`` are end tokens in addition to those of ``wrapped``."""
        self._decoding = wrapped
        # Encoding and decoding happen in different threads, and a fast tokenizer is not safe to share.
        self._encoding = copy.deepcopy(wrapped)
        self.token_bytes_max = max(map(_bytes_of, wrapped.get_vocab()))
        """No token stands for more bytes of text."""
        self.known = reading_of(self._evidence())
        """The way in which this model writes reasoning and tool calls."""
        self.end_ids = frozenset((*wrapped.eos_token_ids, *ends, *self._turn_ends()))
        self._silent = self._silent_ids()
        self.texts = TokenTexts(wrapped, self._silent)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any] | None = None,
        generation_prompt: bool = True,
    ) -> str:
        """Render a conversation as the text of a prompt. Raises ``NoTemplate``, ``FOREIGN_ERRORS``.

        ``variables`` are further ones of the template; none of ``TEMPLATE_RESERVED``. ``generation_prompt``: whether the
        model's turn begins at its end.
        """
        if not self._encoding.has_chat_template:
            raise NoTemplate(f"this model has no chat template: {TEMPLATE_ADVICE}")
        try:
            text = self._encoding.apply_chat_template(
                list(messages),
                tools=list(tools) or self._no_tools,
                add_generation_prompt=generation_prompt,
                tokenize=False,
                **(variables or {}),
            )
        except jinja2.TemplateSyntaxError as error:
            mistake = f"line {error.lineno}: {error.message}"
            raise NoTemplate(f"this model's chat template is broken ({mistake}): {TEMPLATE_ADVICE}") from None
        return str(text)

    @functools.cached_property
    def _no_tools(self) -> list[Any] | None:
        """None, or an empty list for templates that take nothing else."""
        for none in _NO_TOOLS:
            try:
                self._encoding.apply_chat_template([PROBE[0]], tools=none, tokenize=False)
            except FOREIGN_ERRORS:
                continue
            return none
        return None

    def rendered(self, text: str) -> list[int]:
        """Return the token ids of a template's text, which already has its special tokens."""
        return [int(token) for token in self._encoding.encode(text, add_special_tokens=False)]

    def plain(self, text: str) -> list[int]:
        """Return the token ids of text without a template."""
        return [int(token) for token in self._encoding.encode(text)]

    def text(self, tokens: Sequence[int]) -> str:
        return str(self._encoding.decode(list(tokens), clean_up_tokenization_spaces=False))

    def shown(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """Return how the tokenizer shows each of these ids; an id without a token is empty."""
        return tuple(text or "" for text in self._encoding.convert_ids_to_tokens(list(tokens)))

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self.texts)

    def parser(
        self, prompt: Sequence[int], tools: Sequence[Mapping[str, Any]], formed: bool = False
    ) -> Parser:
        """Return what splits an answer to ``prompt`` into content, which may be ``formed``, reasoning and calls of
        ``tools``."""
        return Parser(self.known.family, tools, self.text(prompt[-PROMPT_END_TOKENS:]), formed)

    def _evidence(self) -> str:
        """Return what shows how the model writes: its template, a conversation as it renders it, its added tokens."""
        template = self._decoding.chat_template
        texts = template.values() if isinstance(template, dict) else (template or "",)
        return "\n".join([*map(str, texts), self._probe(), *self.added.values()])

    def _turn_ends(self) -> Collection[int]:
        """Return the token that ends a turn by the template, if there is one."""

        def render(messages: Sequence[Mapping[str, Any]]) -> str:
            try:
                return self.render(messages, (), generation_prompt=False)
            except FOREIGN_ERRORS:
                return ""

        if not self._decoding.has_chat_template:
            return ()
        found = turn_end(render, self._special, self.known.family.markers)
        return () if found is None else (found,)

    def _probe(self) -> str:
        """Return a conversation with a call, for templates that are no text; empty where it cannot be rendered."""
        if not self._decoding.has_chat_template:
            return ""
        try:
            return self.render(PROBE, PROBE_TOOLS)
        except FOREIGN_ERRORS:
            return ""

    def __len__(self) -> int:
        """Return the number of ids that it has tokens for, or could have."""
        return len(self._decoding)

    @property
    def added(self) -> Mapping[int, str]:
        """Return the texts of the tokens that were added to the vocabulary, special ones among them."""
        added = getattr(self._decoding, "added_tokens_decoder", {})
        return {token: str(content) for token, content in added.items()}

    def serialized(self) -> str | None:
        """Return it as ``tokenizers`` writes it; None if it is not of that library."""
        backend = getattr(self._decoding, "backend_tokenizer", None)
        if backend is None:
            return None
        whole = copy.copy(backend)
        whole.no_padding()
        whole.no_truncation()
        return str(whole.to_str())

    @property
    def _special(self) -> Mapping[int, str]:
        added = getattr(self._decoding, "added_tokens_decoder", {})
        return {token: str(content) for token, content in added.items() if content.special}

    def _silent_ids(self) -> Set[int]:
        """Return the special tokens that have no text: all but those that are part of the family's markers."""
        markers = self.known.family.markers
        special = self._special.items()
        return self.end_ids | {token for token, text in special if not any(text in each for each in markers)}


def _bytes_of(token: str | bytes) -> int:
    return len(token if isinstance(token, bytes) else token.encode("utf-8", "surrogatepass"))
