"""What keys may use: windows, ledgers, days, estimates, refusals, counts and headers, after long fixed histories.

Of long histories the first steps are lines, and every further 25 steps have one digest. A line is a step and what it
answers, then what the account has.

``UPDATE_GOLDEN=1 .venv/bin/python -m pytest -n 0 tests/gateway/recorded`` writes the files again. Read each line of the
difference: a line that nobody meant to change is a fault.
"""

from __future__ import annotations

import dataclasses
import itertools
from random import Random
from typing import Any, cast

from prometheus_client.registry import Collector

from reconciler.gateway.dialects.rate_limits import anthropic_headers, openai_headers
from reconciler.gateway.errors import ApiError, invalid, overloaded
from reconciler.gateway.figures import Figure, Figures
from reconciler.gateway.handover.reports import Reports, together
from reconciler.gateway.keys.caller import Caller, KeyRing
from reconciler.gateway.keys.desk import Desk, Ticket
from reconciler.gateway.keys.estimate import Estimate, estimate
from reconciler.gateway.keys.ledger import DAY_SECONDS, Grant, MemoryLedger, Moment, share_of
from reconciler.gateway.keys.usage import KeyMetrics, Usage
from reconciler.gateway.keys.window import Window
from reconciler.wire.figures import ModelFigures
from reconciler.wire.generation import Generate
from reconciler.wire.keys import AccessKey, KeyLimits, KeyUsage, SecretHash, hash_of, secret_of
from reconciler.wire.question import Question, Texts
from tests.recorded import compare

from .telling import FOLDER, folded, outcome, short, told

NOON = 20_000 * DAY_SECONDS + DAY_SECONDS // 2
LIMITS = {
    "requests": KeyLimits(requests_per_minute=3),
    "tokens": KeyLimits(tokens_per_minute=100),
    "day": KeyLimits(tokens_per_day=500),
    "parallel": KeyLimits(parallel_requests=2),
    "all": KeyLimits(6, 120, 900, 3),
    "none": KeyLimits(),
}
STEPS = (0, 0, 0.25, 0.5, 1, 1, 3, 7.5, 20, 59.75, 60, 61, 3600)


class Clock:
    """Two clocks that a test moves."""

    def __init__(self) -> None:
        self.monotonic, self.wall = 1000.0, float(NOON)

    def move(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds

    @property
    def now(self) -> Moment:
        return Moment(self.monotonic, self.wall)


def test_windows_count_as_before() -> None:
    rng, window, now, lines = Random("windows"), Window(), 100.25, []
    for number in range(400):
        now += rng.choice((0, 0.25, 0.5, 1, 2, 10, 30, 59, 60.5))
        match rng.choice(("take", "take", "correct", "room", "reset", "ages", "go on")):
            case "take":
                text = f"take {window.take(rng.choice((1, 5, 20)), now)}"
            case "correct":
                second, change = int(now) - rng.choice((0, 1, 30, 60, 61, 90)), rng.choice((-2, 3))
                window.correct(second, change)
                text = f"correct {second} by {change}"
            case "room":
                amount, limit = rng.choice((1, 5, 40, 41)), rng.choice((40, 60))
                text = f"room for {amount} of {limit} {window.room_in(amount, max(limit, window.total), now)}"
            case "reset":
                text = f"reset {window.reset_in(now)}"
            case "ages":
                text = f"ages {told(window.ages(now))}"
            case _:
                ages = [59.0, rng.choice((1, 2)), 10.0, 4, rng.choice((0.5, 9.0)), 8]
                other = Window()
                other.go_on(ages, now)
                text = f"another {told(other.ages(now))} {other.total}"
        window.forget(now)
        lines.append(f"{number} at {now}: {text} has {window.total}")
    compare(FOLDER / "windows.txt", folded(lines, 50))


def history(gateways: int, steps: int) -> list[str]:
    """Requests of keys with all sorts of limits, as a ledger answers them."""
    rng, clock, ledger, lines = Random(f"ledger {gateways}"), Clock(), MemoryLedger(gateways), []
    running: list[tuple[str, Grant]] = []
    for number in range(steps):
        clock.move(rng.choice(STEPS))
        if rng.random() < 0.03:
            clock.wall += rng.choice((-1, 1, 1)) * DAY_SECONDS
        name = rng.choice(list(LIMITS))
        match rng.choice(("reserve",) * 5 + ("settle", "settle", "release", "add", "keep", "recent")):
            case "settle" if running:
                name, grant = running.pop(rng.randrange(len(running)))
                used = rng.choice((0, 1, grant.tokens, grant.tokens + 7))
                ledger.settle(name, grant, used, clock.now)
                text = f"settle {used} of {grant.tokens}"
            case "release" if running:
                name, grant = running.pop()
                ledger.release(name, grant, clock.now)
                text = f"release {grant.tokens}"
            case "add":
                day = int(clock.wall // DAY_SECONDS) - rng.choice((-1, 0, 0, 1, 2))
                ledger.add(name, day, 40)
                text = f"add 40 on {day}"
            case "keep":
                ledger.keep(frozenset(rng.sample(list(LIMITS), 4)))
                text = f"keep {told(ledger.names())}"
            case "recent":
                requests, tokens = ledger.recent(name, clock.now)
                other = MemoryLedger()
                other.go_on(name, requests, tokens, clock.now)
                text = f"recent {told(requests)} {told(tokens)} {told(other.recent(name, clock.now))}"
            case _:
                asked = rng.choice((0, 1, 10, 30, 100, 101, 450))
                verdict = ledger.decide(name, LIMITS[name], asked, clock.now)
                if isinstance(verdict, Grant):
                    running.append((name, verdict))
                text = f"reserve {asked}: {told(verdict)}"
        account = ledger.account(name, clock.now)
        has = (
            account.open,
            account.reserved,
            account.used_today,
            account.requests.total,
            account.tokens.total,
        )
        lines.append(f"{number} {name}: {text} has {told(has)}")
    return lines


def test_ledgers_answer_as_before() -> None:
    alone, shared = history(1, 700), history(3, 400)
    compare(FOLDER / "ledgers.txt", [*folded([short(line, 150) for line in alone], 70), *folded(shared, 10)])


def test_shares_of_limits_are_as_before() -> None:
    lines = [
        f"{name} of {count}: {told(share_of(limits, count))}"
        for name, limits in (*LIMITS.items(), ("large", KeyLimits(7, 1000, 1001, 8)))
        for count in (1, 2, 3, 4, 1000)
    ]
    compare(FOLDER / "shares.txt", lines)


def generates() -> dict[str, Generate]:
    hello: tuple[dict[str, Any], ...] = ({"role": "user", "content": "hello"},)
    return {
        "chat": Generate("", hello),
        "chat of 50": Generate("", hello, tokens_max=50),
        "with tools": Generate("", hello, ({"type": "function"},), tokens_max=1),
        "text": Generate("", (), prompt="héllo" * 5, tokens_max=16),
        "half a character": Generate("", (), prompt="\ud83e" * 9, tokens_max=16),
        "tokens": Generate("", (), prompt_tokens=(1, 2, 3, 4, 5), tokens_max=0),
        "question": Generate("", hello, tokens_max=0, question=Question()),
        "texts": Generate("", (), tokens_max=0, question=Question(texts=Texts(texts=("a" * 10, "ü" * 7)))),
        "texts of tokens": Generate(
            "", (), tokens_max=0, question=Question(texts=Texts(tokens=((1, 2, 3), (4,))))
        ),
    }


def test_estimates_are_as_before() -> None:
    found, lines = generates(), []
    for name, generate in found.items():
        lines.append(f"{name}: {told(estimate([generate], 1))}")
        lines.append(
            f"{name} twice: {told(estimate([generate, generate], 2))} {told(estimate([generate, generate], 1))}"
        )
    for one, other in itertools.pairwise(found):
        choices = [found[one], found[one], found[other], found[other]]
        lines.append(f"{one} and {other}, two each: {told(estimate(choices, 2))}")
    for minute, day in itertools.product((None, 5, 50, 500), (None, 20, 60)):
        limits = KeyLimits(tokens_per_minute=minute, tokens_per_day=day)
        within = [
            Estimate(least, usual).within(limits) for least, usual in ((10, 40), (10, 1000), (100, 200))
        ]
        lines.append(f"within {minute} {day}: {within}")
    compare(FOLDER / "estimates.txt", lines)


def test_headers_of_limits_are_as_before() -> None:
    lines = []
    for reset in (
        0,
        0.0004,
        0.5,
        0.9995,
        1,
        1.2,
        59,
        59.5,
        60,
        61,
        119.2,
        3599,
        3599.5,
        3600,
        3661,
        90000,
        90061.5,
    ):
        figures = Figures(Figure(10, 3, reset), Figure(1000, 0, reset + 1), NOON + 0.25)
        lines.append(f"{reset}: {told(openai_headers(figures)[2])} {told(anthropic_headers(figures)[5])}")
    for figures in (
        Figures(),
        Figures(Figure(1, 2, 3)),
        Figures(None, Figure(4, 5, 6)),
        Figures(Figure(1, 2, 3), Figure(4, 5, 6), 7),
    ):
        lines.append(told(openai_headers(figures)))
        lines.append(told(anthropic_headers(figures)))
    compare(FOLDER / "limit_headers.txt", lines)


class Running:
    """A request with its tokens so far."""

    def __init__(self, usage: Usage) -> None:
        self.used = usage
        self.error: ApiError | None = None

    def usage(self, answers: int) -> Usage:
        return Usage(self.used.prompt * answers, self.used.completion, self.used.cached)

    def end(self, error: ApiError) -> None:
        self.error = error


def secret(number: int) -> str:
    return secret_of(bytes([number] * 32))


def keys() -> list[AccessKey]:
    found = [
        AccessKey(name, (SecretHash(hash_of(secret(at))),), limits=each)
        for at, (name, each) in enumerate(LIMITS.items())
    ]
    return [
        *found,
        AccessKey("tight", (SecretHash(hash_of(secret(9))),), limits=KeyLimits(tokens_per_minute=5)),
    ]


ENDINGS: tuple[BaseException | None, ...] = (
    None,
    None,
    None,
    overloaded("full"),
    invalid("wrong", None),
    RuntimeError(),
)


async def test_desks_let_in_and_count_as_before() -> None:
    rng, clock, lines = Random("desk"), Clock(), []
    desk = Desk(lambda: clock.wall, lambda: clock.monotonic)
    reports, found = Reports(desk), list(generates().values())
    running: list[tuple[Ticket, Running]] = []
    given = keys()
    for number in range(350):
        clock.move(rng.choice(STEPS))
        if rng.random() < 0.02:
            clock.wall += rng.choice((-1, 1)) * DAY_SECONDS
        key = rng.choice(given)
        match rng.choice(
            ("admit",) * 4 + ("leave",) * 3 + ("seen", "add", "news", "first", "look", "follow", "nobody")
        ):
            case "leave" if running:
                ticket, metered = running.pop(rng.randrange(len(running)))
                error = rng.choice(ENDINGS)
                ticket.__exit__(type(error) if error else None, error, None)
                text = f"leave {ticket.caller.key_name} {told(metered.used)} {type(error).__name__}"
            case "seen":
                desk.seen(Caller("c", key))
                text = "seen"
            case "add":
                day = int(clock.wall // DAY_SECONDS) - rng.choice((0, 0, 1))
                desk.add(KeyUsage(key.name, day, 30, 2, int(clock.wall) - rng.choice((-5, 100))), 1, 20, 10)
                text = f"add {key.name} on {day}"
            case "news":
                text = f"news {told(reports.news())}"
            case "first":
                text = f"first {told(Reports(desk).first())}"
            case "look" | "follow" as which:
                revoked = dataclasses.replace(key, revoked=True)
                ring = KeyRing([revoked if each is key else each for each in given if each.name != "none"])
                (desk.look if which == "look" else desk.follow)(ring)
                text = f"{which} {key.name} {told([(t.caller.key_name, m.error) for t, m in running if m.error])}"
            case "nobody":
                ticket = await desk.admit(Caller("address"), [found[0]], 1, Running(Usage(5, 5)))
                with ticket:
                    text = f"nobody {told(ticket.figures)} {told(ticket.usage())}"
            case _:
                choices, metered = (
                    rng.choices(found, k=2),
                    Running(Usage(rng.choice((0, 0, 0, 9)), rng.choice((0, 0, 5, 60)), 1)),
                )
                answers = rng.choice((1, 2))
                try:
                    ticket = await desk.admit(
                        Caller("c", key, key.secrets[0].hash), choices, answers, metered
                    )
                    running.append((ticket, metered))
                    text = f"admit {key.name} {told(ticket.figures)} {told(ticket.grant and ticket.grant.tokens)}"
                except ApiError as refusal:
                    text = f"admit {key.name} {told(refusal)}"
        lines.append(
            f"{number}: {text} busy {desk.busy} {desk.book.changes} {told(cast(MemoryLedger, desk.ledger).names())} {told(desk.snapshot())}"
        )
        if number % 50 == 49:
            lines.append(f"{number} shown: {told(collected(KeyMetrics(desk.book, lambda: clock.wall)))}")
    compare(FOLDER / "desks.txt", folded([short(line, 130) for line in lines], 50, 10))


async def test_desks_look_at_secrets_as_before() -> None:
    clock, lines = Clock(), []
    desk = Desk(lambda: clock.wall, lambda: clock.monotonic)
    key = dataclasses.replace(keys()[5], expires=clock.wall + 5)
    metered = Running(Usage(1, 2))
    desk.add(KeyUsage(key.name, 20_000, 30, 2, 7))
    with await desk.admit(Caller("c", key, key.secrets[0].hash), [], 1, metered):
        for seconds in (0, 4.5, 0.25, 0.25, 0.25, 0.25, 0.5):
            clock.move(seconds)
            desk.look(None)
            desk.follow(None)
            desk.look(KeyRing([key]))
            lines.append(f"{clock.monotonic} {told(metered.error)}")
            metered.error = None
    desk.look(KeyRing([]))
    lines.append(told([desk.snapshot(), collected(KeyMetrics(desk.book, lambda: clock.wall))]))
    compare(FOLDER / "desk_looks.txt", lines)


def collected(collector: Collector) -> list[Any]:
    return [
        (sample.name, *sample.labels.values(), sample.value)
        for family in collector.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


def test_keys_are_identified_as_before() -> None:
    ring = KeyRing(
        [
            AccessKey("good", (SecretHash(hash_of(secret(1))), SecretHash(hash_of(secret(2)), NOON))),
            AccessKey("old", (SecretHash(hash_of(secret(3))),), expires=NOON, models=("m",)),
            AccessKey("gone", (SecretHash(hash_of(secret(4))),), revoked=True),
            AccessKey("again", (SecretHash(hash_of(secret(1))),)),
        ]
    )
    sent = [*map(secret, range(1, 6)), secret(1)[:-1], secret(1)[:-1] + "0", "sk-other", "", "reconciler_x"]
    lines = []
    for now, (at, text) in itertools.product((NOON - 0.5, NOON, NOON + 0.5), enumerate(sent)):
        lines.append(f"{at} at {now}: {short(outcome(identified, ring, text, now), 130)}")
    compare(FOLDER / "callers.txt", lines)


def identified(ring: KeyRing, text: str, now: float) -> tuple[Any, ...]:
    caller = ring.identify(text, now)
    return caller.client, caller.key_name, caller.may_use("m"), caller.may_use("n"), caller.hash[-6:]


def test_figures_of_two_gateways_are_added_as_before() -> None:
    own = [ModelFigures("a", 1, 2, 3, (1, 2, 3), 10), ModelFigures("b", 1, 1, 1, (0, 0, 1), 5)]
    other = [
        ModelFigures("a", 4, 5, 6, (7, 8, 9), 11),
        ModelFigures("c", 2, 2, 2, (1, 1, 1), 6),
        ModelFigures("b", 9, 9, 9, (1, 1), 9),
    ]
    lines = [told(together(one, two, (0.1, 0.2))) for one, two in ((own, other), (own, []), ([], other))]
    compare(FOLDER / "figures_together.txt", lines)
