"""The tokens of one answer as text, reasoning, tool calls and the reason to finish."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict, deque
from collections.abc import Sequence

from reconciler.runner.markup.parts import (
    Arguments,
    CallBegun,
    CallEnded,
    CallWithdrawn,
    Content,
    Part,
    Reasoning,
)
from reconciler.runner.model.adapter import Tokenizer
from reconciler.runner.model.agreed_batch import Logprobs
from reconciler.runner.model.generator import ends_of
from reconciler.wire.generation import CallPart, Delta, Finished, Generate, Likely, Scored, TokenLogprobs
from reconciler.wire.sampling import Repetition

Event = Delta | Finished
LOGPROB_MIN = -9999.0
"""The value of OpenAI and vLLM for a token that cannot come; JSON has no infinity."""


@dataclasses.dataclass(slots=True)
class _Pending:
    """The content of the next events."""

    tokens: list[int] = dataclasses.field(default_factory=list)
    text: str = ""
    reasoning: str = ""
    calls: list[CallPart] = dataclasses.field(default_factory=list)
    logprobs: list[TokenLogprobs] = dataclasses.field(default_factory=list)


class Answer:
    """Takes tokens, gives events, as ``wire.generation`` says.

    Text is held back while it may turn out to be markup or one of the request's stop strings. These are looked for in the
    content alone, not in reasoning and calls.
    """

    def __init__(self, generate: Generate, prompt: list[int], tokenizer: Tokenizer) -> None:
        """Continues after ``generate.resume``, whose events were already sent by another rank."""
        self.stopped = False
        """The answer is over: by an end token, one of the request's stop strings, or because it only repeats itself."""
        self.request = generate.request
        self._generate = generate
        self._tokenizer = tokenizer
        self._ends = ends_of(generate.ending, tokenizer.end_ids)
        self._prompt = prompt
        self._prompt_tokens = len(prompt)
        self._tokens = 0
        self._calls = _Calls(generate, prompt)
        self._detokenizer = tokenizer.detokenizer()
        self._stop = StopStrings(generate.stop)
        wanted = generate.repetition
        self._repetition = RepetitionScanner(wanted) if wanted is not None and wanted.pattern_max else None
        self._repeated = False
        literal = generate.prompt is not None or generate.prompt_tokens is not None
        formed = generate.form.schema is not None or generate.form.regex is not None
        self._parser = None if literal else tokenizer.parser(prompt, generate.tools, formed)
        self._end_token: tuple[int, ...] = ()
        self._pending = _Pending()
        for token in generate.resume:
            if not self.stopped:
                self.take(token)
        self._pending = _Pending()
        self._text_sent = bool(generate.resume)

    def take(self, token: int, logprobs: Logprobs | None = None) -> None:
        """Take the next token of the answer, with its log-probabilities where they are reported."""
        self._text_sent = False
        if token in self._ends:
            self.stopped = True
            self._end_token = (token,)
            if logprobs is not None and self._generate.scores is not None:
                self._pending.logprobs.append(self._described(token, logprobs))
            return
        self._tokens += 1
        self._pending.tokens.append(token)
        if logprobs is not None:
            self._pending.logprobs.append(self._described(token, logprobs))
        text = self._detokenizer.text(token)
        if text:
            self._read(text)
        if self._repetition is not None and self._repetition.repeats(token) and not self.stopped:
            self.stopped = self._repeated = self._tokens >= self._generate.ending.tokens_min

    def scored(self, first: int, logprobs: Sequence[Logprobs]) -> Scored:
        """Return the event with tokens of the prompt from a place on."""
        tokens = zip(self._prompt[first:], logprobs, strict=False)
        return Scored(self.request, first, tuple(self._described(*each) for each in tokens))

    def events(self) -> list[Event]:
        """Return the new events since the last call."""
        pending = self._pending
        if not (pending.tokens or pending.text or pending.reasoning or pending.calls or pending.logprobs):
            return []
        self._pending = _Pending()
        tokens, calls = tuple(pending.tokens), tuple(pending.calls)
        logprobs = tuple(pending.logprobs)
        return [Delta(self._generate.request, tokens, pending.text, pending.reasoning, calls, logprobs)]

    def finish(self, reason: str) -> list[Event]:
        """Return the last events. ``reason`` is ``stop``, ``length`` or ``cancelled``."""
        if reason != "cancelled":
            self._flush_held()
        if reason == "stop" and self._calls.complete:
            reason = "tool_calls"
        last = Finished(
            self._generate.request,
            reason,
            self._prompt_tokens,
            self._tokens,
            stop=self._stop.found,
            repeated=self._repeated,
        )
        return [*self.events(), last]

    def _flush_held(self) -> None:
        """Emit the held text, together with the token that ended the answer.

        A continued answer with tokens up to there knows that all of its text was sent.
        """
        if not self._stop.over:
            self._read(self._detokenizer.rest())
        if not self._stop.over and self._parser is not None:
            self._place(self._parser.end())
        self._say_held()
        if self._pending.text or self._pending.reasoning or self._pending.calls:
            self._pending.tokens.extend(self._end_token)
        if self._text_sent:
            self._pending = _Pending()

    def _described(self, token: int, logprobs: Logprobs) -> TokenLogprobs:
        likeliest = tuple(self._likely(other, logprob) for other, logprob in logprobs.likeliest)
        return TokenLogprobs(self._likely(token, logprobs.chosen), likeliest)

    def _likely(self, token: int, logprob: float) -> Likely:
        text, content = self._tokenizer.texts.of(token)
        # A model that computes no numbers has no likely tokens either.
        finite = max(logprob, LOGPROB_MIN) if logprob == logprob else LOGPROB_MIN
        return Likely(token, text, finite, content)

    def _read(self, text: str) -> None:
        if self._parser is None:
            self._say(text)
        else:
            self._place(self._parser.feed(text))

    def _say(self, text: str) -> None:
        """Add content up to a stop string, which ends the answer. One that may still come is held back."""
        if not self._generate.stop or self._tokens <= self._generate.ending.tokens_min:
            self._pending.text += text
            return
        self._pending.text += self._stop.before(text)
        self.stopped = self.stopped or self._stop.over

    def _say_held(self) -> None:
        """Add the content that was held back, because no stop string follows from it."""
        if not self._stop.over:
            self._pending.text += self._stop.rest()

    def _place(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if self._stop.over:
                return
            if not isinstance(part, Content):
                self._say_held()
            match part:
                case Content():
                    self._say(part.text)
                case Reasoning():
                    self._pending.reasoning += part.text
                case CallBegun():
                    self._pending.calls.append(self._calls.begin(part))
                case Arguments():
                    self._calls.add(self._pending.calls, part.text)
                case CallWithdrawn():
                    self._pending.calls.append(self._calls.withdraw())
                case CallEnded():
                    self._calls.complete += 1
                    if self._calls.enough:
                        self.stopped = True
                        return


class StopStrings:
    """Looks for a request's stop strings in text as it comes. The one that ends first counts; of several, the longest."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.found: str | None = None
        """The string that has come: nothing after it belongs to the answer."""
        self._stop = stop
        self._held = ""

    @property
    def over(self) -> bool:
        return self.found is not None

    def before(self, text: str) -> str:
        """Return the text before a stop string, without what may be the beginning of one: it is held."""
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            end, at = min(found)
            self.found, self._held = text[at:end], ""
            return text[:at]
        begins = (at for at in range(len(text)) if any(stop.startswith(text[at:]) for stop in self._stop))
        at = next(begins, len(text))
        self._held = text[at:]
        return text[:at]

    def rest(self) -> str:
        """Return the text that is held, once no stop string follows from it."""
        held, self._held = self._held, ""
        return held


class RepetitionScanner:
    """Looks whether the last tokens of an answer are one pattern, many times in a row, as vLLM does at the end of each step
    (vllm/v1/core/sched/utils.py).

    A step costs as much as its token is frequent among the last ``Repetition.pattern_max`` tokens.
    """

    def __init__(self, wanted: Repetition) -> None:
        self._wanted = wanted
        self._count = 0
        self._places: defaultdict[int, deque[int]] = defaultdict(deque)
        """The places of each of the last tokens, oldest first."""
        self._equal: dict[int, int] = {}
        """By distance: the number of tokens at the end that are each equal to the token that far before it."""

    def repeats(self, token: int) -> bool:
        """Take the next token. Returns whether the answer ends with a pattern that is there often enough."""
        wanted, at, places = self._wanted, self._count, self._places[token]
        self._count += 1
        while places and at - places[0] > wanted.pattern_max:
            places.popleft()
        self._equal = {at - place: self._equal.get(at - place, 0) + 1 for place in places}
        places.append(at)
        return any(
            distance >= wanted.pattern_min and equal >= distance * (wanted.count - 1)
            for distance, equal in self._equal.items()
        )


class _Calls:
    def __init__(self, generate: Generate, prompt: Sequence[int]) -> None:
        self.complete = 0
        self._generate = generate
        self._prompt = prompt
        self._ids: set[str] = set()
        self._begun = 0

    @property
    def enough(self) -> bool:
        """Return whether the answer has as many calls as the request allows."""
        return self._generate.tool_calls_max == self.complete

    def begin(self, call: CallBegun) -> CallPart:
        self._begun += 1
        return CallPart(self._begun - 1, call.name, self._id(call.id))

    def add(self, parts: list[CallPart], arguments: str) -> None:
        """Add a fragment to the last of ``parts`` if that is of the same call, else as a part of its own."""
        index = self._begun - 1
        if parts and parts[-1].index == index:
            parts[-1] = dataclasses.replace(parts[-1], arguments=parts[-1].arguments + arguments)
        else:
            parts.append(CallPart(index, arguments=arguments))

    def withdraw(self) -> CallPart:
        return CallPart(self._begun - 1, withdrawn=True)

    def _id(self, id: str) -> str:
        """Return the id of the model, or else one that the same call of a continued answer has as well."""
        if not id or id in self._ids:
            made = repr((list(self._prompt), self._generate.sampling.seed, self._begun))
            id = "call_" + hashlib.sha256(made.encode()).hexdigest()[:24]
        self._ids.add(id)
        return id
