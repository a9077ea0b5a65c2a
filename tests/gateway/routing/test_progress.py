"""What a request does after each event of a backend: decisions alone, without sockets and without waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.errors import ApiError, overloaded
from reconciler.gateway.events import Answer, Event
from reconciler.gateway.routing.progress import (
    Attempt,
    Decision,
    Deliver,
    Done,
    Fail,
    Hold,
    Ignore,
    Limits,
    Lost,
    Progress,
    Requeue,
    Send,
    Tokens,
    begin,
    seek,
    silent_at,
    step,
)
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.generation import Accepted, Delta, Failed, Finished, Prefill, ToolCall

LIMITS = Limits(
    Timing(losses_max=3, attempts_max=5, retry_same_backend=1.0, withdrawn_silence=10.0), hold_seconds=60.0
)
ACCEPTED = Accepted("r", (901, 902))


def delta(*tokens: int) -> Delta:
    return Delta("r", tokens, "".join(f"w{token} " for token in tokens))


def call(index: int) -> ToolCall:
    return ToolCall("r", index, "weather", "{}")


def finished(reason: str = "stop") -> Finished:
    return Finished("r", reason, 2, 0)


def failed(code: str, parameter: str | None = None) -> Failed:
    return Failed("r", code, "no", parameter)


@dataclass
class Request:
    """A request and what its client has received, at a time that the test sets."""

    limits: Limits = LIMITS
    now: float = 0.0
    progress: Progress[str] = field(default_factory=lambda: Progress(LIMITS.hold_seconds))
    attempt: Attempt[str] | None = None
    received: list[Answer] = field(default_factory=list)

    def seek(self, connection: str | None = "a") -> Send[str] | Hold | Fail:
        return seek(self.progress, connection, "llama", self.now, self.limits)

    def send(self, connection: str = "a") -> Attempt[str]:
        assert self.attempt is None
        assert self.seek(connection) == Send(connection)
        self.progress, self.attempt = begin(self.progress, connection, "run-1", self.now)
        return self.attempt

    def take(self, *events: Event | Lost) -> Decision:
        """Return the decision about the last of these events."""
        decision: Decision = Ignore()
        for event in events:
            assert self.attempt is not None
            self.progress, self.attempt, decision = step(
                self.progress, self.attempt, event, self.now, self.limits
            )
            assert (self.attempt is None) == isinstance(decision, Done | Requeue | Fail)
            if isinstance(decision, Deliver | Done):
                self.received.append(decision.answer)
        return decision

    @property
    def tokens(self) -> list[int]:
        """Those that the client has received."""
        return [token for answer in self.received if isinstance(answer, Delta) for token in answer.tokens]

    @property
    def calls(self) -> list[int]:
        """The tool calls that the client has received."""
        return [answer.index for answer in self.received if isinstance(answer, ToolCall)]


@pytest.fixture
def chat() -> Request:
    return Request()


def error_of(decision: object) -> ApiError:
    assert isinstance(decision, Fail)
    return decision.error


# --- without an attempt ------------------------------------------------------------------------------


def test_a_request_without_a_backend_waits_until_its_deadline(chat: Request) -> None:
    assert chat.seek(None) == Hold(60.0)
    chat.now = 59.9
    assert chat.seek(None) == Hold(60.0)
    chat.now = 60.0
    error = error_of(chat.seek(None))
    assert (error.status, error.kind, error.code) == (503, "server_error", "model_loading")
    assert error.retry


def test_a_request_that_waits_for_a_person_is_told_why(chat: Request) -> None:
    chat.limits, chat.now = replace(LIMITS, refused="NotEnoughMemory"), 60.0
    error = error_of(chat.seek(None))
    assert (error.status, error.code, error.retry_after) == (503, "model_unavailable", 30)
    assert "before somebody acts (NotEnoughMemory)" in str(error)
    assert "reconciler describe modeldeployment/llama" in str(error)


@pytest.mark.parametrize(("hold_seconds", "retry_after"), [(0.0, 1), (7.0, 7), (600.0, 30)])
def test_a_client_comes_back_after_one_to_thirty_seconds(hold_seconds: float, retry_after: int) -> None:
    request = Request(replace(LIMITS, hold_seconds=hold_seconds), now=600.0)
    assert error_of(request.seek(None)).retry_after == retry_after


def test_a_backend_that_is_there_at_the_deadline_is_used(chat: Request) -> None:
    chat.now = 60.0
    assert chat.seek("a") == Send("a")


def test_each_attempt_has_an_id_of_its_own(chat: Request) -> None:
    first = chat.send("a")
    chat.take(Lost())
    second = chat.send("b")
    assert (first.request, second.request) == ("run-1.0", "run-1.1")
    assert (first.connection, second.connection) == ("a", "b")


# --- answers -----------------------------------------------------------------------------------------


def test_an_answer_is_delivered_as_it_comes(chat: Request) -> None:
    events: list[Answer] = [ACCEPTED, delta(0), call(0), delta(1, 2), finished()]
    chat.send()
    chat.take(*events)
    assert chat.received == events
    assert chat.progress.finish == "stop"


def test_the_progress_of_a_prompt_is_for_nobody(chat: Request) -> None:
    chat.send()
    assert chat.take(ACCEPTED, Prefill("r", 1, 2)) == Ignore()


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls"])
def test_an_answer_ends_for_one_of_three_reasons(chat: Request, reason: str) -> None:
    chat.send()
    assert chat.take(ACCEPTED, finished(reason)) == Done(finished(reason))


def test_an_answer_that_a_rank_cut_is_not_finished(chat: Request) -> None:
    chat.send()
    assert isinstance(chat.take(ACCEPTED, delta(0), finished("cancelled")), Requeue)


def test_the_client_learns_once_that_its_request_is_accepted(chat: Request) -> None:
    chat.send("a")
    chat.take(ACCEPTED, Lost())
    chat.send("b")
    assert chat.take(ACCEPTED) == Ignore()
    assert chat.received == [ACCEPTED]


def test_a_tool_call_that_is_told_again_is_not_delivered_again(chat: Request) -> None:
    chat.send("a")
    chat.take(ACCEPTED, call(0), delta(1), Lost())
    chat.send("b")
    chat.take(ACCEPTED, call(0), delta(2), call(1), finished("tool_calls"))
    assert chat.calls == [0, 1]


# --- losses ------------------------------------------------------------------------------------------


def test_a_loss_leaves_the_backend_alone_for_a_while(chat: Request) -> None:
    chat.now = 5.0
    chat.send("a")
    decision = chat.take(ACCEPTED, delta(0), Lost())
    assert decision == Requeue(loss="the group that worked on it was lost")
    assert chat.progress.avoided(5.9) == {"a": 6.0}
    assert chat.progress.avoided(6.0) == {}
    assert chat.seek(None) == Hold(6.0)


def test_a_request_that_ends_every_group_is_given_up(chat: Request) -> None:
    for connection in ("a", "b"):
        chat.send(connection)
        assert isinstance(chat.take(ACCEPTED, Lost()), Requeue)
    chat.send("c")
    error = error_of(chat.take(ACCEPTED, failed("internal")))
    assert str(error) == "given up after 3 attempts without a new token: no"
    assert (error.status, error.code, error.retry) == (500, "internal_error", False)


def test_each_new_token_forgives_the_losses_before_it(chat: Request) -> None:
    for number in range(5):
        chat.send(f"{number}")
        assert isinstance(chat.take(ACCEPTED, delta(number), Lost()), Requeue)
    assert chat.progress.losses == 1
    assert chat.tokens == [0, 1, 2, 3, 4]


def test_a_request_that_no_group_can_do_is_given_up_after_so_many_attempts(chat: Request) -> None:
    for number in range(5):
        chat.send(f"{number}")
        chat.take(ACCEPTED, delta(number), Lost())
    error = error_of(chat.seek())
    assert (str(error), error.code) == ("given up after 5 attempts", "internal_error")


@pytest.mark.parametrize(("accepted", "deadline"), [(True, 100.0), (False, 60.0)])
def test_the_time_to_wait_starts_anew_only_after_a_backend_accepted(accepted: bool, deadline: float) -> None:
    request = Request()
    request.send()
    request.now = 40.0
    request.take(*([ACCEPTED] if accepted else []), Lost())
    assert request.progress.deadline == deadline


def test_a_withdrawn_backend_is_lost_after_a_silence_of_its_own_and_of_its_connection(
    chat: Request,
) -> None:
    attempt = chat.send()
    assert silent_at(attempt, 0.0, LIMITS) == 10.0
    assert silent_at(attempt, 7.0, LIMITS) == 17.0  # it works on another request
    chat.now = 8.0
    chat.take(ACCEPTED)
    assert chat.attempt is not None
    assert silent_at(chat.attempt, 7.0, LIMITS) == 18.0


# --- refusals ----------------------------------------------------------------------------------------


def test_a_backend_that_drains_hands_the_request_over(chat: Request) -> None:
    chat.send()
    assert chat.take(ACCEPTED, delta(0), failed("draining")) == Requeue(draining=True)
    assert (chat.progress.losses, chat.progress.avoid) == (0, {})
    assert chat.progress.tokens.ids() == (0,)


def test_a_full_backend_is_the_last_word_where_there_is_no_other(chat: Request) -> None:
    chat.send()
    decision = chat.take(failed("overloaded"))
    assert isinstance(decision, Requeue)
    assert decision.unless_alone is not None
    assert vars(decision.unless_alone) == vars(overloaded("no"))
    assert chat.progress.avoid == {"a": 1.0}
    assert chat.progress.losses == 0


def test_an_answer_that_has_begun_waits_for_a_full_backend(chat: Request) -> None:
    chat.send("a")
    chat.take(ACCEPTED, delta(0), Lost())
    chat.send("b")
    assert chat.take(failed("overloaded")) == Requeue()


@pytest.mark.parametrize(
    ("refusal", "code", "parameter"),
    [
        (failed("context_length_exceeded"), "context_length_exceeded", "messages"),
        (failed("context_length_exceeded", "prompt"), "context_length_exceeded", "prompt"),
        (failed("invalid_request"), None, None),
        (failed("invalid_request", "tools"), None, "tools"),
    ],
)
def test_a_request_that_is_wrong_goes_to_no_other_backend(
    chat: Request, refusal: Failed, code: str | None, parameter: str | None
) -> None:
    chat.send()
    error = error_of(chat.take(refusal))
    assert (error.status, error.kind, error.code, error.param) == (
        400,
        "invalid_request_error",
        code,
        parameter,
    )
    assert error.text == "no"


# --- whatever happens ---------------------------------------------------------------------------------

ANSWER_TOKENS = 6
CALLS_BEFORE = {2: 0, 4: 1}
"""A tool call is sent before the delta with its last token: which one before which token."""
ENDS = (Lost(), failed("draining"), failed("overloaded"), failed("internal"), finished("cancelled"))
ATTEMPTS = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.integers(1, 3), min_size=ANSWER_TOKENS, max_size=ANSWER_TOKENS),
        st.integers(0, 12),
        st.sampled_from(ENDS),
        st.floats(0.0, 30.0),
    ),
    max_size=8,
)
"""For each attempt: a report on the prompt, tokens a delta, events before it breaks, how, and seconds it took."""
EVENTS = st.one_of(
    st.just(ACCEPTED),
    st.builds(delta, st.integers(0, 9)),
    st.just(delta(7, 8)),
    st.builds(call, st.integers(0, 4)),
    st.just(Prefill("r", 1, 2)),
    st.builds(finished, st.sampled_from(("stop", "length", "tool_calls", "cancelled"))),
    st.builds(
        failed,
        st.sampled_from(("draining", "overloaded", "internal", "invalid_request", "context_length_exceeded")),
    ),
    st.just(Lost()),
)


def rank_events(resume: tuple[int, ...], prefill: bool, sizes: list[int]) -> Iterator[Event]:
    """What a rank says that continues the answer 0, 1, 2 ... after ``resume``."""
    yield ACCEPTED
    if prefill:
        yield Prefill("r", 1, 2)
    yield from (call(index) for before, index in CALLS_BEFORE.items() if before < len(resume))
    at = len(resume)
    for size in sizes:
        tokens = range(at, min(at + size, ANSWER_TOKENS))
        yield from (call(CALLS_BEFORE[token]) for token in tokens if token in CALLS_BEFORE)
        if tokens:
            yield delta(*tokens)
        at += len(tokens)
    yield finished()


@given(ATTEMPTS)
def test_an_answer_is_delivered_once_and_in_order_however_often_its_group_is_lost(
    attempts: list[tuple[bool, list[int], int, Event | Lost, float]],
) -> None:
    request = Request()
    for prefill, sizes, events_max, end, seconds in attempts:
        if not isinstance(request.seek(), Send):
            break
        request.send(f"{request.progress.attempts}")
        for number, event in enumerate(rank_events(request.progress.tokens.ids(), prefill, sizes)):
            request.now += seconds / 10
            request.take(end if number == events_max else event)
            if request.attempt is None:
                break
        if request.progress.finish:
            break
    calls = sorted(CALLS_BEFORE.values())
    assert request.tokens == list(range(len(request.tokens)))
    assert request.calls == calls[: len(request.calls)]
    assert request.progress.tokens.ids() == tuple(request.tokens)
    assert request.progress.attempts <= LIMITS.timing.attempts_max
    if request.received:
        assert request.received[0] == ACCEPTED
        assert request.received.count(ACCEPTED) == 1
    if request.progress.finish:
        assert request.tokens == list(range(ANSWER_TOKENS))
        assert request.calls == calls
        assert request.received[-1] == finished()


@given(st.lists(EVENTS, max_size=60))
def test_any_events_in_any_order_keep_what_clients_rely_on(events: list[Event | Lost]) -> None:
    request = Request()
    sent: list[int] = []
    for event in events:
        if request.attempt is None:
            if not isinstance(request.seek(), Send):
                break
            request.send(f"{request.progress.attempts}")
        decision = request.take(event)
        sent.extend(event.tokens if isinstance(event, Delta) else ())
        if isinstance(decision, Done | Fail):
            break
    assert request.tokens == sent
    assert request.progress.tokens.ids() == tuple(sent)
    assert request.calls == sorted(set(request.calls))
    assert request.received.count(ACCEPTED) <= 1
    assert sum(isinstance(answer, Finished) for answer in request.received) <= 1
    assert not any(isinstance(answer, Finished) for answer in request.received[:-1])
    assert request.progress.attempts <= LIMITS.timing.attempts_max
    assert request.progress.losses <= LIMITS.timing.losses_max


@given(st.lists(st.lists(st.integers(), max_size=3).map(tuple)))
def test_tokens_are_kept_in_order(parts: list[tuple[int, ...]]) -> None:
    tokens = Tokens()
    for part in parts:
        tokens = tokens.plus(part)
    assert tokens.ids() == sum(parts, ())
    assert tokens.count == len(tokens.ids())
