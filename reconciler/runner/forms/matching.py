"""The tokens that may come next in answers that must have a form.

Written against llguidance 1.9.1.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from reconciler.runner.markup.answer import Family
from reconciler.runner.model.adapter import Loaded

from .answers import Asked, grammar_of, schemas_of
from .lark import Grammar
from .schemas import Inexpressible, Schema, culprit

CACHED_MAX = 256
"""Compiled grammars that are kept."""
STACK_BYTES = 128 * 1024 * 1024
"""Stack of the thread that compiles: four times the need of ``schemas.COUNT_MAX`` schemas that refer to one another. llguidance
1.9.1 compiles each of them within the one before, with up to 8 KiB of stack. A process that runs out of stack ends."""
LIMITS: Mapping[str, Any] = {"max_grammar_size": 100_000, "verbose_errors": False}
"""Limits, in addition to llguidance's own, for the time to compile a grammar. Requests stay out of logs."""


PLACE = "failed to compile JSON schema: "


class Unfit(ValueError):
    """The part of an answer that exists already is not of the form."""


def compiling_thread() -> ThreadPoolExecutor:
    """Return a thread for ``Forms.begin``, whose stack suffices for any grammar."""
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compile")
    before = threading.stack_size(STACK_BYTES)
    try:
        thread.submit(int)  # starts it, with the stack of now
    finally:
        threading.stack_size(before)
    return thread


class Matcher:
    """One answer so far, and the tokens that may follow."""

    def __init__(
        self,
        matcher: Any,
        ends: frozenset[int],
        path: str,
        replaced: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.path = path
        """The field of the request that has the form."""
        self.replaced = replaced
        """Counts of the parts of the form to which the answer is not held, as the answer's header has them."""
        self.failure = ""
        """The reason why this answer can no longer be held to its form."""
        self._matcher = matcher
        self._ends = ends
        self._over = False

    def take(self, tokens: Sequence[int]) -> None:
        """Take tokens of the answer as its first ones. Raises ``Unfit``."""
        said = list(tokens)
        if said and said[-1] in self._ends:
            said.pop()
        if self._matcher.try_consume_tokens(said) < len(said):
            raise Unfit("the part of the answer that exists already is not of the form that is asked for")

    def advance(self, token: int) -> None:
        if self._over or self.failure:
            return
        self._over = token in self._ends
        if not self._over and not self._matcher.consume_token(token):
            self._fail()

    def fill(self, words: Any) -> None:
        if self._over or self.failure:
            return
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        if self._matcher.is_error():
            words.fill(-1)
            self._fail()

    def _fail(self) -> None:
        self.failure = self._matcher.get_error().partition("\n")[0][:200] or "it has become too complex"


class Forms:
    """Grammars of answers of one model, compiled once each. Safe to use from several threads that have the stack for it."""

    def __init__(self, loaded: Loaded) -> None:
        """Takes about a second for a large vocabulary."""
        tokenizer = loaded.tokenizer
        self._family: Family = tokenizer.known.family
        self._ends = tokenizer.end_ids
        self._tokenizer = _tokenizer(loaded)
        added = tokenizer.added
        self._special = {
            text: id
            for id, text in added.items()
            if text
            and self._tokenizer is not None
            and id < self._tokenizer.vocab_size
            and self._tokenizer.is_special_token(id)
        }
        self._end_texts = tuple(added[id] for id in sorted(self._ends) if id in added)
        self._limits = LLParserLimits(**LIMITS)
        self._known: collections.OrderedDict[str, Any] = collections.OrderedDict()
        """By their text: the compiled grammar, or the reason why there is none, which takes longer to find."""
        self._lock = threading.Lock()

    def begin(self, asked: Asked, resume: Sequence[int]) -> Matcher:
        """Return the matcher of an answer that already has the tokens ``resume``. Raises ``Inexpressible``, ``Unfit``.

        If no call is required, a tool to whose schema calls cannot be held is left free, and ``Matcher.replaced``
        counts it. So one of twenty tools does not affect the others.
        """
        left: Asked | None = asked
        while left is not None:
            asked = left
            try:
                begun = self._begun(asked)
            except Inexpressible as error:
                left, why = asked.without(error.path), error
            else:
                begun.take(resume)
                return begun
        raise why

    def _begun(self, asked: Asked) -> Matcher:
        path = asked.form.schema_path if not asked.form.calls_required else "tool_choice"
        if self._tokenizer is None:
            raise Inexpressible(
                path, "answers of this model cannot be held to a form: its tokenizer is of an unknown kind"
            )
        grammar = grammar_of(asked, self._family, self._special, self._end_texts)
        return Matcher(self._compiled(grammar, asked, path), self._ends, path, asked.replaced)

    def _compiled(self, grammar: str, asked: Asked, path: str) -> Any:
        with self._lock:
            found = self._known.get(grammar)
            if found is not None:
                self._known.move_to_end(grammar)
        if found is None:
            found = self._made(grammar)
            if found.is_error():
                found = self._reason(found.get_error(), asked, path)
            with self._lock:
                self._known[grammar] = found
                while len(self._known) > CACHED_MAX:
                    self._known.popitem(last=False)
        if isinstance(found, Inexpressible):
            raise Inexpressible(found.path, found.why)
        with self._lock:
            return found.deep_copy()

    def _made(self, grammar: str) -> Any:
        return LLMatcher(self._tokenizer, grammar, log_level=0, limits=self._limits)

    def _reason(self, error: str, asked: Asked, path: str) -> Inexpressible:
        """Return the part of a request that cannot be compiled: a schema within it, or the whole."""
        for schema, where in schemas_of(asked):
            if self._refuses(schema):
                return Inexpressible(*culprit(schema, where, self._refuses))
        return Inexpressible(path, _first_line(error))

    def _refuses(self, schema: Schema) -> str:
        grammar = Grammar({})
        made = self._made(grammar.text(grammar.json(schema)))
        return _first_line(made.get_error()) if made.is_error() else ""


def _first_line(error: str) -> str:
    """Return llguidance's message without the place in the grammar, which the client has never seen."""
    line = error.strip().partition("\n")[0]
    if "oneOf constraints" in line:
        return "answers cannot be held to a oneOf whose alternatives overlap: write anyOf"
    said = line.partition(PLACE)[2] or line
    if said.endswith(":"):  # the expression follows, with a mark below it, and then the reason
        reasons = (each.removeprefix("error: ") for each in error.splitlines() if each.startswith("error: "))
        said = f"{said} {next(reasons, '')}".strip()
    return said[:300]


def _tokenizer(loaded: Loaded) -> Any:
    """Return llguidance's form of the tokenizer; None if it is not one of ``tokenizers``."""
    serialized = loaded.tokenizer.serialized()
    if serialized is None:
        return None
    count = max(loaded.vocabulary, len(loaded.tokenizer))
    return LLTokenizer(serialized, n_vocab=count, eos_token=sorted(loaded.tokenizer.end_ids))
