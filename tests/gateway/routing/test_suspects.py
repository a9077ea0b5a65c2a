"""Which prompt ended a group: who is suspected, who waits for whom, and who is refused."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.gateway.routing.suspects import (
    QUARANTINED_MAX,
    QUARANTINED_SECONDS,
    STRONG,
    SUSPECTED_SECONDS,
    TURN_SECONDS,
    Group,
    Prompt,
    Suspects,
)
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt
from tests.examples import examples

WALL = 1_700_000_000.0
FIRST, SECOND, THIRD = (0, 1), (0, 2), (0, 3)


def prompt(name: str) -> Prompt:
    return Prompt(name, f"req-{name}", "1 message")


def die(suspects: Suspects, group: Group, points: int, now: float = 0.0, **progressing: bool) -> None:
    """A group dies, and the controller says at once what that was."""
    for name, makes_progress in progressing.items():
        suspects.died(group, name, prompt(name), makes_progress, now)
    suspects.judge(lambda _: points, now, WALL + now)


def turn(suspects: Suspects, name: str, waited: float = 0.0, crowded: bool = False, now: float = 0.0) -> bool:
    """Whether a request may be sent now; if so, it is."""
    if suspects.turn(name, name, waited, crowded, now) is not None:
        return False
    suspects.begun(name, f"{name}.0", name, now)
    return True


def refused(suspects: Suspects) -> set[str]:
    return {prompt.digest for prompt in suspects.quarantined(WALL)}


def test_nobody_is_suspected_at_first() -> None:
    suspects = Suspects("llama")
    assert suspects.idle
    assert turn(suspects, "a")
    assert turn(suspects, "b", crowded=True)


def test_a_prompt_that_was_there_alone_twice_is_refused_for_an_hour() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, bad=False)
    assert refused(suspects) == set()
    die(suspects, SECOND, STRONG, now=30, bad=False)
    ended = (EndedGroup(0, 1), EndedGroup(0, 2))
    assert suspects.quarantined(WALL) == (
        QuarantinedPrompt(
            "llama", "bad", "req-bad", "1 message", ended, WALL + 30, WALL + 30 + QUARANTINED_SECONDS
        ),
    )
    assert suspects.refused("bad", WALL + 31) is not None
    assert suspects.refused("other", WALL + 31) is None
    assert suspects.refused("bad", WALL + 31 + QUARANTINED_SECONDS) is None
    assert suspects.quarantined(WALL + 31 + QUARANTINED_SECONDS) == ()
    assert suspects.idle


def test_a_prompt_that_was_answered_since_is_refused_only_after_one_more_death() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, often=False)
    suspects.answered("often")
    assert turn(suspects, "often")
    die(suspects, SECOND, STRONG, now=30, often=False)
    die(suspects, THIRD, STRONG, now=60, often=False)
    assert refused(suspects) == set(), "machines that fail twice in a minute take no question from anybody"
    die(suspects, (0, 4), STRONG, now=90, often=False)
    (found,) = suspects.quarantined(WALL)
    assert found.ended == (EndedGroup(0, 2), EndedGroup(0, 3), EndedGroup(0, 4)), (
        "not the one before the answer"
    )


def test_a_prompt_that_was_answered_is_cleared_by_its_first_token_again() -> None:
    suspects = Suspects("llama")
    for group in (FIRST, SECOND):
        die(suspects, group, STRONG // 2, slow=True)
    assert not suspects.progressing("slow", 1)
    suspects.answered("slow")
    assert suspects.progressing("slow", 1)


def test_an_answer_clears_nobody_else() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, a=False, b=False)
    suspects.answered("a")
    assert (suspects.suspected("a"), suspects.suspected("b")) == (False, True)
    suspects.answered("never suspected")
    die(suspects, SECOND, STRONG, now=30, b=False)
    assert refused(suspects) == {"b"}


@pytest.mark.parametrize(("before", "waits"), [(0, False), (1, False), (2, True)])
def test_an_answered_prompt_waits_for_the_explanation_that_would_make_it_guilty(
    before: int, waits: bool
) -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, a=False)
    suspects.answered("a")
    for epoch in range(2, 2 + before):
        die(suspects, (0, epoch), STRONG, now=epoch, a=False)
    suspects.died((0, 9), "a", prompt("a"), False, 10)
    assert turn(suspects, "a", now=11) is not waits


def test_a_death_that_a_machine_explains_clears_everybody() -> None:
    suspects = Suspects("llama")
    for epoch in range(1, 20):
        die(suspects, (0, epoch), 0, only=False)
    assert suspects.idle


def test_a_rank_that_was_killed_from_outside_counts_for_less() -> None:
    suspects = Suspects("llama")
    for epoch in range(1, 4):
        die(suspects, (0, epoch), 1, only=False)
    assert refused(suspects) == set()
    die(suspects, (0, 4), 1, only=False)
    assert refused(suspects) == {"only"}


def test_of_several_those_without_a_new_token_are_the_likely_ones() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, one=True, bad=False, two=True)
    assert not turn(suspects, "one"), "the likely one goes first"
    assert turn(suspects, "bad")
    assert not turn(suspects, "one")
    die(suspects, SECOND, STRONG, bad=False)
    assert refused(suspects) == {"bad"}
    assert turn(suspects, "one")
    assert turn(suspects, "two", crowded=True)


def test_several_likely_ones_are_tried_one_after_the_other() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, a=False, b=False, c=False)
    assert turn(suspects, "a")
    assert not turn(suspects, "b")
    assert not turn(suspects, "new"), "nor does anybody else begin beside it"
    suspects.clear("a")
    assert turn(suspects, "b")
    die(suspects, SECOND, STRONG, a=True, b=False)
    assert refused(suspects) == {"b"}
    assert turn(suspects, "c")
    die(suspects, THIRD, STRONG, a=True, c=False)
    assert refused(suspects) == {"b", "c"}, "each was there at two deaths"
    assert turn(suspects, "a")


def test_a_trial_begins_when_nobody_else_is_without_a_token() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, a=False)
    assert not turn(suspects, "a", crowded=True)
    assert turn(suspects, "a")


def test_while_any_suspect_waits_for_its_trial_nobody_else_begins() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, a=False, b=False)
    for name in "ab":
        suspects.left(name)  # their clients ask again, with the same prompts
        assert suspects.turn(f"{name}-again", name, 0.0, True, 0.0) is not None
    assert not turn(suspects, "new")
    suspects.left("b-again")
    assert not turn(suspects, "new")
    suspects.left("a-again")
    suspects.left("new")
    assert turn(suspects, "newer")


def test_of_two_that_were_there_at_two_explained_deaths_one_is_tried_at_once() -> None:
    suspects = Suspects("llama")
    for group in (FIRST, SECOND):
        die(suspects, group, STRONG, a=False, b=False)
    assert refused(suspects) == set()
    assert turn(suspects, "a")
    assert not turn(suspects, "b")


def test_no_one_waits_for_trials_for_longer_than_a_turn() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, a=False, b=False)
    assert turn(suspects, "a")
    assert suspects.turn("b", "b", 20.0, False, 20.0) == pytest.approx(TURN_SECONDS)
    assert turn(suspects, "b", waited=TURN_SECONDS, now=TURN_SECONDS)
    assert not turn(suspects, "new", now=TURN_SECONDS), "that one is on trial now"
    assert turn(suspects, "new", waited=TURN_SECONDS, now=TURN_SECONDS)


def test_a_trial_ends_with_its_attempt() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, a=False, b=False)
    assert turn(suspects, "a")
    suspects.ended("a.0")
    suspects.left("a")
    assert turn(suspects, "b"), "the client of the first one has gone"


def test_a_prompt_that_ends_groups_somewhere_in_its_answer_is_found_too() -> None:
    """It comes through its first token each time: so it has to come further the next time."""
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, bad=True, good=True)
    assert turn(suspects, "bad")
    assert suspects.progressing("bad", 1)
    suspects.clear("bad")
    assert turn(suspects, "good")
    suspects.clear("good")
    die(suspects, SECOND, STRONG, bad=True, good=True)
    assert not suspects.progressing("bad", 10)
    assert turn(suspects, "bad")
    die(suspects, THIRD, STRONG, bad=False)
    assert refused(suspects) == {"bad"}
    assert turn(suspects, "good"), "what it was suspected of is explained"
    assert suspects.progressing("good", 1)


def test_as_long_as_nothing_is_known_of_a_death_its_requests_are_tried_apart_elsewhere() -> None:
    suspects = Suspects("llama")
    suspects.died((0, 1), "a", prompt("a"), False, 0.0)
    suspects.died((0, 1), "b", prompt("b"), False, 0.0)
    assert not suspects.judge(lambda _: None, 1.0, WALL)
    assert turn(suspects, "a")
    assert not turn(suspects, "b")
    suspects.judge(lambda _: 0, 2.0, WALL)
    suspects.clear("a")
    assert turn(suspects, "b")


def test_a_prompt_that_two_unexplained_deaths_point_to_waits_for_the_explanation() -> None:
    suspects = Suspects("llama")
    for group in ((0, 1), (1, 1)):
        suspects.died(group, "a", prompt("a"), False, 0.0)
    assert not turn(suspects, "a")
    suspects.judge(lambda group: 0 if group == (0, 1) else STRONG, 1.0, WALL)
    assert turn(suspects, "a")


def test_a_prompt_waits_for_the_explanation_that_would_make_it_guilty() -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, a=False)
    suspects.died(SECOND, "a", prompt("a"), False, 0.0)
    assert not turn(suspects, "a"), "it was there at one that is explained by nothing else, and at this one"
    suspects.judge(lambda _: 0, 1.0, WALL)
    assert turn(suspects, "a")


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_of_two_requests_with_one_prompt_the_one_without_a_token_counts(order: tuple[bool, bool]) -> None:
    suspects = Suspects("llama")
    for group in (FIRST, SECOND):
        for run, progressing in zip(("one", "two"), order, strict=True):
            suspects.died(group, run, prompt("bad"), progressing, 0.0)
        suspects.died(group, "other", prompt("good"), True, 0.0)
        suspects.judge(lambda _: STRONG, 0.0, WALL)
    assert refused(suspects) == {"bad"}
    assert not suspects.suspected("good")


def test_a_suspicion_is_dropped_after_a_while() -> None:
    suspects, died_at = Suspects("llama"), 5000.0
    die(suspects, FIRST, STRONG, now=died_at, a=False, b=False)
    assert not turn(suspects, "b", crowded=True, now=died_at + SUSPECTED_SECONDS - 1)
    assert turn(suspects, "b", crowded=True, now=died_at + SUSPECTED_SECONDS)
    assert suspects.idle


def test_a_death_that_is_never_explained_is_forgotten_after_a_while() -> None:
    suspects, died_at = Suspects("llama"), 5000.0
    suspects.died(FIRST, "a", prompt("a"), False, died_at)
    assert not suspects.idle
    assert not turn(suspects, "a", crowded=True, now=died_at + SUSPECTED_SECONDS - 1)
    assert turn(suspects, "a", crowded=True, now=died_at + SUSPECTED_SECONDS)
    assert suspects.idle


def test_what_is_remembered_has_a_bound() -> None:
    suspects = Suspects("llama")
    for number in range(QUARANTINED_MAX + 10):
        for epoch in (2 * number, 2 * number + 1):
            die(suspects, (0, epoch), STRONG, **{f"p{number}": False})
    assert len(suspects.quarantined(WALL)) == QUARANTINED_MAX == 256
    assert suspects.refused("p0", WALL) is None
    for number in range(3000):
        die(suspects, (1, number), STRONG, **{f"q{number}": False, f"r{number}": False})
    assert len(suspects._suspects) <= 1024


# --- whatever is sent ---------------------------------------------------------------------------------


@dataclass
class Client:
    """A request that needs so many tokens. A poison ends its group instead of getting the one at ``poison_at``."""

    name: str
    tokens: int
    poison_at: int | None
    got: int = 0
    fresh: int = 0
    """New tokens of the attempt."""
    with_group: bool = False
    deaths: int = 0
    refused: bool = False

    @property
    def done(self) -> bool:
        return self.refused or self.got >= self.tokens


@dataclass
class Service:
    """One group at a time, and a gateway that asks ``Suspects``."""

    clients: list[Client]
    suspects: Suspects = field(default_factory=lambda: Suspects("llama"))
    epoch: int = 1
    now: float = 0.0
    deaths: int = 0

    def act(self, client: Client) -> None:
        """Send a request, or compute its next token."""
        self.now += 0.01
        if client.with_group:
            self._compute(client)
        elif self.suspects.refused(client.name, WALL) is not None:
            client.refused = True
            self.suspects.left(client.name)
        else:
            self._send(client)

    def _send(self, client: Client) -> None:
        others = (other for other in self.clients if other is not client and other.with_group)
        crowded = any(not self.suspects.progressing(other.name, other.fresh) for other in others)
        if self.suspects.turn(client.name, client.name, 0.0, crowded, self.now) is None:
            self.suspects.begun(client.name, f"{client.name}.{self.epoch}", client.name, self.now)
            client.with_group, client.fresh = True, 0

    def _compute(self, client: Client) -> None:
        if client.got == client.poison_at:
            self._die()
            return
        client.got, client.fresh = client.got + 1, client.fresh + 1
        if self.suspects.progressing(client.name, client.fresh):
            self.suspects.clear(client.name)
        if client.done:
            self.suspects.answered(client.name)
            client.with_group = False
            self.suspects.ended(f"{client.name}.{self.epoch}")
            self.suspects.left(client.name)

    def _die(self) -> None:
        self.deaths += 1
        for client in (client for client in self.clients if client.with_group):
            progressing = self.suspects.progressing(client.name, client.fresh)
            group = (0, self.epoch)
            self.suspects.died(group, client.name, prompt(client.name), progressing, self.now)
            client.with_group, client.fresh, client.deaths = False, 0, client.deaths + 1
        self.suspects.judge(lambda _: STRONG, self.now, WALL)
        self.epoch += 1


@settings(max_examples=examples(150), deadline=None)
@given(
    goods=st.integers(0, 8),
    poisons=st.one_of(
        st.lists(st.just(0), min_size=1, max_size=3), st.sampled_from([1, 5, 30]).map(lambda at: [at])
    ),
    data=st.data(),
)
def test_every_poison_is_refused_and_everybody_else_is_answered(
    goods: int, poisons: list[int], data: st.DataObject
) -> None:
    clients = [Client(f"good-{number}", 3 + 7 * number, None) for number in range(goods)]
    clients += [Client(f"bad-{number}", 60, at) for number, at in enumerate(poisons)]
    service = Service(clients)
    order = data.draw(st.randoms(use_true_random=False))
    for _ in range(20_000):
        left = [client for client in clients if not client.done]
        if not left:
            break
        service.act(order.choice(left))
    assert all(client.refused for client in clients if client.poison_at is not None), clients
    assert not any(client.refused for client in clients if client.poison_at is None), clients
    assert service.deaths <= 2 * len(poisons) + 1
    assert all(client.deaths <= 2 for client in clients if client.poison_at == 0)


@pytest.mark.parametrize("ahead", [600.0, 86_400.0, 365 * 86_400.0])
def test_a_prompt_is_not_refused_until_the_day_of_a_clock_that_was_ahead(ahead: float) -> None:
    suspects = Suspects("llama")
    until = WALL + ahead + QUARANTINED_SECONDS
    suspects.quarantine(QuarantinedPrompt("llama", "bad", "req", "1 message", (), WALL + ahead, until))
    assert suspects.refused("bad", WALL + ahead + 1) is not None
    assert suspects.refused("bad", WALL) is None
    assert suspects.quarantined(WALL) == ()


@pytest.mark.parametrize(
    ("ends", "free"), [("bad.0", True), ("other.0", False), ("bad.1", False), (None, False)], ids=str
)
def test_the_next_trial_begins_when_the_one_that_runs_has_ended_and_no_other(
    ends: str | None, free: bool
) -> None:
    suspects = Suspects("llama")
    die(suspects, FIRST, STRONG, bad=False, worse=False)
    assert turn(suspects, "bad")
    assert not turn(suspects, "worse"), "a trial runs"
    if ends is not None:
        suspects.ended(ends)
    assert turn(suspects, "worse") is free
