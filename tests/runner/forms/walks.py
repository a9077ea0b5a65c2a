"""Answers drawn from a grammar at random, without a model, and what the family's reader makes of them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from reconciler.runner.forms.answers import Asked, grammar_of
from reconciler.runner.forms.matching import LIMITS
from reconciler.runner.markup.answer import Family, Parser
from reconciler.runner.markup.families import FAMILIES
from reconciler.runner.markup.parts import Arguments, CallBegun, CallEnded, CallWithdrawn, Content, Reasoning
from reconciler.wire.form import Form

END = "<|endtoken|>"
TOKENS_MAX = 1500
HURRY = 0.5
"""How often the walk takes a token that is none of a text that goes on."""
PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \xc3\xa9")


def family(name: str, thinking: Sequence[tuple[str, str]] = ()) -> Family:
    (known,) = [known for known in FAMILIES if known.family.name == name]
    return dataclasses.replace(known.family, thinking=thinking) if thinking else known.family


@dataclasses.dataclass
class Vocabulary:
    """Bytes, and markers as tokens of their own."""

    markers: Sequence[str]

    def __post_init__(self) -> None:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        made = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(alphabet)}, merges=[]))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.decoder = decoders.ByteLevel()
        made.add_special_tokens([AddedToken(marker, special=True) for marker in (*self.markers, END)])
        self.tokenizer = made
        self.special = {marker: int(made.token_to_id(marker) or 0) for marker in (*self.markers, END)}
        self.end = self.special[END]
        self.matching = LLTokenizer(made.to_str(), eos_token=[self.end])
        self.bytes = [self.matching.decode_bytes([token]) for token in range(self.matching.vocab_size)]
        self.names = {id: name for name, id in self.special.items()}

    def text(self, tokens: Sequence[int]) -> str:
        parts = [self.names[t].encode() if t in self.names else self.bytes[t] for t in tokens]
        return b"".join(parts).decode()


def tokens_of(known: Family) -> list[str]:
    """The markers of a family that vocabularies may have as tokens: those that are no text beside them."""
    return sorted(
        {m for m in known.markers if m.strip() == m and m[:1] in "<[" and not set(m) & set('\n"= ')}
    )


def endings(known: Family) -> list[str]:
    """What a walk writes now and then, so that texts end."""
    values = {getattr(known.format, name, "") for name in ("value_ends", "mark", "quote")} - {""}
    return [*(m for m in known.markers if m), *values, *("\n" + value for value in values), '"'] + 5 * sorted(
        values
    )


def matcher(grammar: str, vocabulary: Vocabulary) -> Any:
    found = LLMatcher(vocabulary.matching, grammar, log_level=0, limits=LLParserLimits(**LIMITS))
    assert not found.is_error(), (found.get_error(), grammar)
    return found


def walk(
    grammar: str, vocabulary: Vocabulary, seed: int, markers: Sequence[str] = (), hurry: float = HURRY
) -> str | None:
    """One answer; None if it is not over after many tokens. Now and then it writes a marker, where it can."""
    drawn = random.Random(seed)
    written = [[vocabulary.bytes.index(bytes([byte])) for byte in marker.encode()] for marker in markers]
    state = matcher(grammar, vocabulary)
    words = np.zeros((1, -(-vocabulary.matching.vocab_size // 32)), dtype=np.int32)
    said: list[int] = []
    while len(said) < TOKENS_MAX:
        state.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        if written and drawn.random() < 0.25:
            marker = drawn.choice(written)
            if state.deep_copy().try_consume_tokens(marker) == len(marker):
                assert state.try_consume_tokens(marker) == len(marker)
                said += marker
                continue
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        allowed = [int(token) for token in np.flatnonzero(bits)]
        assert allowed
        assert not state.is_error(), state.get_error()
        if vocabulary.end in allowed and (len(allowed) == 1 or drawn.random() < hurry / 4):
            return vocabulary.text(said)
        others = [
            t
            for t in allowed
            if not (vocabulary.bytes[t] and PLAIN.issuperset(vocabulary.bytes[t])) and t != vocabulary.end
        ]
        token = drawn.choice(
            others if others and drawn.random() < hurry else [t for t in allowed if t != vocabulary.end]
        )
        assert state.consume_token(token), (vocabulary.text(said), token)
        said.append(token)
    return None


@dataclasses.dataclass
class Read:
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    withdrawn: int = 0
    ended: int = 0


def read(
    text: str, family: Family, tools: Sequence[Mapping[str, Any]], prompt: str = "", formed: bool = False
) -> Read:
    parser = Parser(family, tools, prompt, formed)
    found = Read()
    for part in (*parser.feed(text), *parser.end()):
        match part:
            case Content():
                found.content += part.text
            case Reasoning():
                found.reasoning += part.text
            case CallBegun():
                found.calls.append((part.name, ""))
            case Arguments():
                name, arguments = found.calls[-1]
                found.calls[-1] = name, arguments + part.text
            case CallEnded():
                found.ended += 1
            case CallWithdrawn():
                found.withdrawn += 1
    return found


def grammar(
    form: Form,
    family: Family,
    vocabulary: Vocabulary,
    tools: Sequence[Mapping[str, Any]] = (),
    several: bool = True,
    prompt: str = "",
) -> str:
    return grammar_of(Asked(form, tools, several, prompt), family, vocabulary.special, [END])


def function(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}
