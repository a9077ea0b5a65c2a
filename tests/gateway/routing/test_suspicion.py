"""One request's part in the search for the prompt that ended a group."""

from __future__ import annotations

import pytest

from reconciler.gateway.errors import ApiError
from reconciler.gateway.routing.suspects import STRONG, TURN_SECONDS, Suspects
from reconciler.gateway.routing.suspicion import Suspicion
from reconciler.wire.generation import Accepted, Backend, Delta, Finished, Generate, Prefill

WALL = 1_700_000_000.0
BACKEND = Backend(0, 1, "/run/0.sock", "node-a", None)


class Court:
    """Suspects of one model, and who is told to look again."""

    def __init__(self) -> None:
        self.of_model = Suspects("llama")
        self.beside = False
        self.woken = 0

    def suspects(self, model: str) -> Suspects:
        assert model == "llama"
        return self.of_model

    def crowded(self, model: str, beside: Suspicion) -> bool:
        return self.beside

    def wake_held(self) -> None:
        self.woken += 1

    def wall(self) -> float:
        return WALL

    def request(self, name: str, said: str = "") -> Suspicion:
        messages = ({"role": "user", "content": said or name},)
        return Suspicion(self, Generate("", messages), name, f"req-{name}")

    def sent(self, name: str, said: str = "", now: float = 0.0) -> Suspicion:
        """A request that is with a group."""
        made = self.request(name, said)
        assert made.wait("llama", True, now) is None
        made.sent(f"{name}.0", now)
        return made

    def die_with(self, *those: Suspicion, now: float = 0.0, epoch: int = 1) -> None:
        """A group dies, for no reason that anybody knows of."""
        backend = Backend(0, epoch, "/run/0.sock", "node-a", None)
        for each in those:
            each.died(backend, now)
            each.ended(answered=False)
        self.of_model.judge(lambda _: STRONG, now, WALL)


def tokens(*numbers: int) -> Delta:
    return Delta("", numbers, "text")


def test_it_may_have_ended_a_group_from_the_moment_it_is_sent_until_its_first_token() -> None:
    court = Court()
    asking = court.request("a")
    asking.wait("llama", True, 0.0)
    assert not asking.likely("llama"), "it is with no group"
    asking.sent("a.0", 0.0)
    assert asking.likely("llama")
    assert not asking.likely("qwen")
    asking.on_event(Accepted("a.0", (1, 2)))
    assert asking.likely("llama")
    asking.on_event(tokens(7))
    assert not asking.likely("llama")
    asking.ended(answered=False)
    asking.sent("a.1", 1.0)
    assert asking.likely("llama"), "each attempt has to show it anew"


def test_nobody_waits_and_no_digest_is_made_as_long_as_no_group_died() -> None:
    court = Court()
    asking = court.sent("a")
    asking.on_event(tokens(7))
    asking.ended(answered=True)
    asking.left()
    assert asking._digest == ""
    assert court.woken == 0


def test_a_prompt_that_ended_two_groups_is_refused_with_the_time_that_is_left() -> None:
    court = Court()
    for epoch in (1, 2):
        court.die_with(court.sent("a", "bad"), epoch=epoch)
    with pytest.raises(ApiError) as refused:
        court.request("b", "bad").wait("llama", False, 0.0)
    assert (refused.value.code, refused.value.retry) == ("prompt_quarantined", False)
    assert "2 groups of the model 'llama'" in refused.value.text
    assert "req-a" in refused.value.text
    assert "in 3600 s" in refused.value.text
    assert court.request("c", "good").wait("llama", True, 0.0) is None


def test_what_is_told_of_a_refused_prompt_is_its_size_and_not_its_content() -> None:
    court = Court()
    for epoch in (1, 2):
        asking = court.sent("a", "bad news")
        asking.on_event(Accepted("a.0", (1, 2, 3)))
        court.die_with(asking, epoch=epoch)
    (prompt,) = court.of_model.quarantined(WALL)
    assert (prompt.digest, prompt.request) == (asking.digest, "req-a")
    assert "3 tokens" in prompt.shape
    assert "news" not in prompt.shape


def test_a_prompt_of_which_no_rank_has_said_its_length_is_told_of_without_one() -> None:
    court = Court()
    for epoch in (1, 2):
        court.die_with(court.sent("a", "bad"), epoch=epoch)
    (prompt,) = court.of_model.quarantined(WALL)
    assert "token" not in prompt.shape


def test_a_suspect_that_was_there_at_two_deaths_is_cleared_by_16_tokens_and_not_by_one() -> None:
    court = Court()
    for epoch in (1, 2):
        both = [court.sent(name) for name in ("a", "b")]
        for each in both:
            each.on_event(tokens(7))
        court.die_with(*both, epoch=epoch)
        court.of_model.clear(both[0].digest)
        court.of_model.clear(both[1].digest)
    suspect = court.sent("a")
    suspect.on_event(tokens(*range(15)))
    assert suspect.likely("llama")
    suspect.on_event(tokens(16))
    assert not suspect.likely("llama")


def test_the_digest_of_a_prompt_is_made_once() -> None:
    asking = Court().request("a")
    assert asking.digest is asking.digest


def test_what_tells_of_no_tokens_changes_nothing() -> None:
    asking = Court().sent("a")
    for event in (Prefill("a.0", 1, 3), Finished("a.0", "stop", 3, 1)):
        asking.on_event(event)
    assert asking.likely("llama")


def test_a_suspect_waits_while_another_request_has_no_token_yet() -> None:
    court = Court()
    suspect, other = court.sent("a"), court.sent("b")
    court.die_with(suspect, other)
    court.beside = True
    assert suspect.wait("llama", True, 10.0) == 10.0 + TURN_SECONDS
    assert suspect.wait("llama", True, 25.0) == 10.0 + TURN_SECONDS, "it has waited for some of that time"
    court.beside = False
    assert suspect.wait("llama", True, 26.0) is None


def test_time_without_any_group_is_no_part_of_the_wait_for_a_trial() -> None:
    court = Court()
    suspect = court.sent("a")
    court.die_with(suspect, court.sent("b"))
    court.beside = True
    assert suspect.wait("llama", True, 10.0) == 10.0 + TURN_SECONDS
    assert suspect.wait("llama", False, 20.0) is None
    assert suspect.wait("llama", True, 30.0) == 30.0 + TURN_SECONDS


def test_a_suspect_with_a_new_token_is_cleared_and_those_that_wait_look_again() -> None:
    court = Court()
    suspect, other = court.sent("a"), court.sent("b")
    court.die_with(suspect, other)
    assert suspect.wait("llama", True, 0.0) is None
    suspect.sent("a.1", 0.0)
    assert other.wait("llama", True, 0.0) is not None, "the first one is on trial"
    woken = court.woken
    suspect.on_event(tokens())
    assert court.woken == woken
    suspect.on_event(tokens(7))
    suspect.on_event(tokens(8))
    assert court.woken == woken + 1, "once is enough"
    assert other.wait("llama", True, 0.0) is None


@pytest.mark.parametrize("answered", [True, False])
def test_a_trial_is_over_with_its_attempt(answered: bool) -> None:
    court = Court()
    suspect, other = court.sent("a"), court.sent("b")
    court.die_with(suspect, other)
    assert suspect.wait("llama", True, 0.0) is None
    suspect.sent("a.1", 0.0)
    woken = court.woken
    suspect.ended(answered)
    suspect.ended(answered)
    assert court.woken == woken + 1
    assert court.of_model.suspected(suspect.digest) is not answered
    assert other.wait("llama", True, 0.0) is None


def test_whoever_leaves_keeps_nobody_waiting() -> None:
    court = Court()
    suspect, other = court.sent("a"), court.sent("b")
    court.die_with(suspect, other)
    court.beside = True
    assert suspect.wait("llama", True, 0.0) is not None
    assert other.wait("llama", True, 0.0) is not None
    new = court.request("new")
    assert new.wait("llama", True, 0.0) is not None
    woken = court.woken
    suspect.left()
    other.left()
    assert court.woken == woken + 2
    assert new.wait("llama", True, 0.0) is None


def test_a_request_that_was_with_no_group_has_ended_none() -> None:
    court = Court()
    asking = court.request("a")
    asking.wait("llama", True, 0.0)
    asking.died(BACKEND, 0.0)
    asking.ended(answered=False)
    court.request("unasked").left()
    assert court.of_model.idle
    assert court.woken == 0
