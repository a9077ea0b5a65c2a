"""Who goes next, where to, and what follows from each event of a group: after long fixed histories of requests.

Of long histories the first steps are lines, and every further 25 steps have one digest.

``UPDATE_GOLDEN=1 .venv/bin/python -m pytest -n 0 tests/gateway/recorded`` writes the files again. Read each line of the
difference: a line that nobody meant to change is a fault.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from reconciler.gateway.routing import affinity, fairness, prompts, suspects
from reconciler.gateway.routing.affinity import Affinity, beginnings
from reconciler.gateway.routing.defaults import settled, with_defaults
from reconciler.gateway.routing.fairness import Turn, Turns, queue_of
from reconciler.gateway.routing.progress import (
    Attempt,
    Limits,
    Lost,
    Progress,
    Tokens,
    begin,
    postponed,
    seek,
    silent_at,
    step,
)
from reconciler.gateway.routing.rank_frames import plain_delta, request_frame
from reconciler.gateway.routing.suspects import Group, Prompt, Suspects
from reconciler.gateway.routing.suspicion import Suspicion
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.form import Form
from reconciler.wire.generation import (
    Accepted,
    Backend,
    Delta,
    Failed,
    Finished,
    Generate,
    Prefill,
    Route,
    Scored,
    ToolCall,
)
from reconciler.wire.question import Question, Texts
from reconciler.wire.sampling import Repetition, Sampling, SamplingDefaults
from tests.recorded import compare, digest

from .telling import FOLDER, folded, outcome, short, told

LIMITS = {
    "usual": Limits(Timing(), 30.0),
    "soon": Limits(Timing(), 30.0, 5.5),
    "later": Limits(Timing(), 12.4, 1000.2),
    "refused": Limits(Timing(), 90.0, None, "NoRoom"),
    "refused now": Limits(Timing(), 0.2, 0.0, "NoRoom"),
    "few": Limits(Timing(losses_max=2, attempts_max=2, retry_same_backend=3.0), 30.0),
}
FAILED = [
    Failed("r", code, "text", parameter)
    for code, parameter in (
        ("context_length_exceeded", None), ("context_length_exceeded", "prompt"), ("invalid_request", "tokens_max"),
        ("invalid_request", "tools"), ("invalid_request", None), ("draining", None), ("overloaded", None), ("internal", None),
        ("else", None),
    )
]  # fmt: skip
EVENTS: list[Any] = [
    Accepted("r", (1, 2)), Delta("r", (5, 6), "x"), Delta("r", ()), Prefill("r", 1, 2), Scored("r", 0, ()), ToolCall("r", 0, "f", "{}"),
    ToolCall("r", 1, "f", "{}"), ToolCall("r", 2, "f", "{}"), Finished("r", "stop", 1, 2), Finished("r", "length", 1, 2),
    Finished("r", "tool_calls", 1, 2), Finished("r", "stop", 1, 2, repeated=True), Finished("r", "cancelled", 1, 2), Lost(), *FAILED,
]  # fmt: skip
PROGRESSES: dict[str, Progress[str]] = {
    "new": Progress(130.0),
    "accepted": Progress(130.0, True, attempts=1),
    "half": Progress(130.0, True, Tokens().plus((1, 2)).plus(()).plus((3,)), 1, 1, 2, {"b": 105.0, "c": 99.0, "d": 100.0}),
    "unlucky": Progress(130.0, True, Tokens(), 0, 3, 63, {"a": 140.0}),
}  # fmt: skip


def seen(progress: Progress[str]) -> str:
    usual = {**Progress._field_defaults, "avoid": None}
    fields = progress._replace(tokens=Tokens())._asdict().items()
    shown = " ".join(f"{name}={told(value)}" for name, value in fields if value != usual.get(name))
    return f"Progress({shown}){told(progress.tokens.ids())}{progress.tokens.count}"


def test_events_of_a_group_are_followed_as_before() -> None:
    lines = []
    for (name, progress), (limit, limits), accepted in itertools.product(
        PROGRESSES.items(), LIMITS.items(), (False, True)
    ):
        if limit not in ("usual", "few") or (limit == "few" and accepted):
            continue
        for event in EVENTS:
            attempt = Attempt("a", "r.1", 90.0, accepted)
            after, going, decision = step(progress, attempt, event, 100.0, limits)
            label = f"{name} {limit} {'accepted' if accepted else 'sent'} {type(event).__name__}"
            more = event.code if isinstance(event, Failed) else ""
            what = type(decision).__name__ if isinstance(event, Delta) else told(decision)
            line = f"{label} {more}: {what} {told(going)} {seen(after)}"
            lines.append(short(line, 110))
    compare(
        FOLDER / "steps.txt",
        lines[:40] + [f"{len(lines)} {digest(lines[at : at + 10])}" for at in range(40, len(lines), 10)],
    )


def test_requests_without_a_group_wait_as_before() -> None:
    lines = []
    for (name, progress), (limit, limits) in itertools.product(PROGRESSES.items(), LIMITS.items()):
        for now, connection in itertools.product((100.0, 124.5, 130.0), (None, "a")):
            if connection and now > 100.0:
                continue
            found = seek(progress, connection, "m", now, limits)
            lines.append(f"{name} {limit} {now} {connection}: {short(told(found), 100)}")
    for name, progress in PROGRESSES.items():
        for until, limit in ((100.0, "usual"), (50.0, "later")):
            lines.append(f"{name} postponed {until}: {seen(postponed(progress, until, LIMITS[limit]))}")
        lines.append(
            f"{name} begun: {told(begin(progress, 'a', 'q', 100.0)[1])} {seen(begin(progress, 'a', 'q', 100.0)[0])}"
        )
        lines.append(f"{name} avoided: {told(progress.avoided(100.0))}")
    silent = [silent_at(Attempt("a", "r", 90.0), last, LIMITS["usual"]) for last in (80.0, 95.0)]
    lines.append(f"silent: {silent}")
    compare(FOLDER / "seeking.txt", folded(lines, 30, 3))


# --- suspects -----------------------------------------------------------------------------------------

NAMES = "abcd"
GROUPS: list[Group] = [(replica, epoch) for replica in range(2) for epoch in range(1, 3)]


def test_suspects_are_found_as_before() -> None:
    lines = []
    for seed in range(40):
        lines += suspected(Random(f"suspects {seed}"), 50, seed)
    compare(FOLDER / "suspects.txt", folded([short(line, 130) for line in lines], 60))


def suspected(rng: Random, steps: int, seed: int) -> list[str]:
    found, now, wall, lines = Suspects("m"), 0.0, 1_700_000_000.0, []
    for number in range(steps):
        passed = rng.choice((0, 0, 0, 0, 0, 1, 5, 30, 59, 60, 300, 600))
        now, wall = now + passed, wall + passed
        name, group = rng.choice(NAMES), rng.choice(GROUPS)
        match rng.choice(
            ("died",) * 4
            + ("judge",) * 4
            + ("turn",) * 4
            + ("begun", "begun", "clear", "ended", "left", "progressing")
        ):
            case "died":
                progressing = rng.random() < 0.4
                found.died(group, f"run-{name}", Prompt(name, f"req-{name}", "1 message"), progressing, now)
                text = f"{name} died with {group} {progressing}"
            case "judge":
                points = {each: rng.choice((None, 0, 1, 2, 2, 4)) for each in GROUPS}
                judged = found.judge(points.__getitem__, now, wall)
                text = f"judged {told(list(points.values()))} {judged}"
            case "turn":
                waited, crowded = rng.choice((0, 0, 59.5, 60, 61)), rng.random() < 0.3
                text = f"{name} asks {waited} {crowded} {told(found.turn(f'run-{name}', name, waited, crowded, now))}"
            case "begun":
                found.begun(f"run-{name}", f"run-{name}.0", name, now)
                text = f"{name} begun"
            case "clear":
                found.clear(name)
                text = f"{name} cleared"
            case "ended":
                found.ended(f"run-{name}.0")
                text = f"{name} ended"
            case "left":
                found.left(f"run-{name}")
                text = f"{name} left"
            case _:
                text = f"{name} progress {[found.progressing(name, tokens) for tokens in (0, 1, 15, 16, 17, 255, 256)]}"
        guilty = [(each.digest, each.ended, each.until - wall) for each in found.quarantined(wall)]
        refused = "".join(
            name for name in NAMES if found.refused(name, wall - rng.choice((0, 301, 3700))) is not None
        )
        doubted = "".join(name for name in NAMES if found.suspected(name))
        idle = "idle" if found.idle else ""
        lines.append(f"{seed}-{number}: {text} {doubted}/{refused} {idle} {told(guilty)}")
    return lines


class Bench:
    """Requests of one model, and what they ask each other."""

    def __init__(self) -> None:
        self.of: dict[str, Suspects] = {}
        self.requests: dict[str, Suspicion] = {}
        self.now = 0.0
        self.woken = 0

    def suspects(self, model: str) -> Suspects:
        return self.of.setdefault(model, Suspects(model))

    def crowded(self, model: str, beside: Suspicion) -> bool:
        return any(each.likely(model) for each in self.requests.values() if each is not beside)

    def wake_held(self) -> None:
        self.woken += 1

    def wall(self) -> float:
        return 1_700_000_000.0 + self.now


def test_suspicion_follows_requests_as_before() -> None:
    lines = []
    for seed in range(30):
        rng, bench = Random(f"suspicion {seed}"), Bench()
        for name in NAMES:
            said = ({"role": "user", "content": name if name != "d" else "a"},)
            bench.requests[name] = Suspicion(bench, Generate("", said), f"run-{name}", f"req-{name}")
        for number in range(70):
            bench.now += rng.choice((0, 0, 1, 10, 59, 61))
            name, group = rng.choice(NAMES), rng.choice(GROUPS)
            each = bench.requests[name]
            match rng.choice(
                ("wait",) * 4
                + ("sent",) * 3
                + ("died",) * 3
                + ("judge",) * 2
                + ("tokens", "delta", "accepted", "ended", "left")
            ):
                case "wait":
                    available = rng.random() < 0.8
                    waits = outcome(each.wait, "m", available, bench.now)
                    text = f"waits {available} {waits}"
                case "sent":
                    each.wait("m", False, bench.now) if bench.suspects("m").idle else None
                    each.sent(f"{name}.{number}", bench.now)
                    text = "sent"
                case "died":
                    each.died(Backend(*group, "s", "n"), bench.now)
                    text = f"died with {group}"
                case "judge":
                    points = rng.choice((None, 0, 2, 2, 4))
                    judged = bench.suspects("m").judge(
                        dict.fromkeys(GROUPS, points).__getitem__, bench.now, bench.wall()
                    )
                    text = f"judged {points} {judged}"
                case "tokens":
                    each.on_tokens(rng.choice((0, 1, 16)))
                    text = "tokens"
                case "delta":
                    each.on_event(Delta("", (1, 2)))
                    text = "delta"
                case "accepted":
                    each.on_event(Accepted("", (1, 2, 3)))
                    text = "accepted"
                case "ended":
                    answered = rng.random() < 0.5
                    each.ended(answered)
                    text = f"ended {answered}"
                case _:
                    each.left()
                    text = "left"
            likely = "".join(name for name, other in bench.requests.items() if other.likely("m"))
            doubted = "".join(
                name for name, other in bench.requests.items() if bench.suspects("m").suspected(other.digest)
            )
            guilty = [(one.request, one.shape) for one in bench.suspects("m").quarantined(bench.wall())]
            lines.append(
                f"{seed}-{number} {name}: {text} woken {bench.woken} {likely}/{doubted} {told(guilty)} {bench.requests['a'].likely('n')}"
            )
    compare(FOLDER / "suspicion.txt", folded([short(line, 130) for line in lines], 60))


# --- turns --------------------------------------------------------------------------------------------


class Asked:
    """A request of a client, and what was asked of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tokens = 0
        self.told: list[str] = []

    def wake(self) -> None:
        self.told.append("woken")

    def give_way(self) -> None:
        self.told.append("gives way")


def test_turns_are_given_as_before() -> None:
    lines = []
    for seed in range(30):
        lines += given(Random(f"turns {seed}"), seed)
    compare(FOLDER / "turns.txt", folded([short(line, 120) for line in lines], 60))


def given(rng: Random, seed: int) -> list[str]:
    turns, lines = Turns(rng.choice((4, 8, 100))), []
    asked: list[tuple[Asked, Turn]] = []
    batch = rng.choice((1, 2, 3, 8))
    for number in range(80):
        if not asked or rng.random() < 0.25:
            one = Asked(f"r{number}")
            turn = turns.turn(rng.choice("mmn"), rng.choice("xxy"), rng.choice((None, 1, 64, 65, 500)), one)
            asked.append((one, turn))
        one, turn = rng.choice(asked)
        match rng.choice(
            ("take",) * 6 + ("tokens",) * 4 + ("leave", "unread", "unread", "read", "again", "prompt")
        ):
            case "take" if turn.place is None:
                size, place = rng.choice((batch, batch, batch, 0)), rng.choice(("g", "g", "h"))
                text = f"asks {turn.model} {turn.client} {place} of {size} {outcome(turns.take, turn, place, size)}"
            case "leave":
                turns.leave(turn)
                text = "leaves"
            case "unread" | "read" as which:
                turns.read(turn, which == "unread")
                text = which
            case "again":
                turns.look_again()
                text = "looks again"
            case "prompt":
                turn.prompt = rng.choice((100, 4000, 4080, 4096, 5000))
                text = f"prompt {turn.prompt}"
            case _:
                one.tokens += rng.choice((1, 15, 16, 17))
                text = f"has {one.tokens}"
        heard = [f"{each.name} {what}" for each, _ in asked for what in each.told]
        for each, _ in asked:
            each.told.clear()
        lines.append(
            f"{seed}-{number}: {one.name} {text} [{', '.join(heard)}] {turn.place} {turn.gave_way} {turn.may_give_way} {turn.cost}"
        )
    return lines


def test_what_gives_way_is_as_before() -> None:
    lines = []
    for tokens, before, prompt, gave_way, unread in itertools.product(
        (15, 16, 17), (0, 1), (0, 4079, 4080, 4081), (0, 31, 32), (False, True)
    ):
        one = Asked("r")
        one.tokens = tokens
        turn = Turn("m", "x", False, one, 0, "g", prompt, before, gave_way, unread)
        lines.append("x" if turn.may_give_way else ".")
    rows = [f"{at * 6}: {''.join(lines[at * 6 : at * 6 + 6])}" for at in range(len(lines) // 6)]
    route = Route("m", (), 10, 1, batch=5)
    rows += [
        told(queue_of(Generate("", (), question=question), route))
        for question in (None, Question(), Question(texts=Texts(texts=("a",))))
    ]
    names = [
        name
        for module in (fairness, suspects, affinity)
        for name in dir(module)
        if name.isupper() and name[0] != "_"
    ]
    modules = {
        name: getattr(module, name)
        for module in (fairness, suspects, affinity)
        for name in names
        if hasattr(module, name)
    }
    rows += [f"{name}={value}" for name, value in modules.items() if isinstance(value, int | float)]
    rows.append(told(Timing()) + told([getattr(Timing(), each.name) for each in dataclasses.fields(Timing)]))
    compare(FOLDER / "giving_way.txt", rows)


# --- requests -----------------------------------------------------------------------------------------

HELLO: tuple[Mapping[str, Any], ...] = (
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "hi"},
)
GENERATES = {
    "chat": Generate("", HELLO),
    "other order": Generate("", ({"content": "hello", "role": "user"},)),
    "tools": Generate("", HELLO, ({"type": "function"}, {"type": "function"})),
    "text": Generate("", (), prompt="x" * 2049),
    "block": Generate("", (), prompt="x" * 1024),
    "tokens": Generate("", (), prompt_tokens=tuple(range(513))),
    "question": Generate("", HELLO, question=Question(tokens=True)),
    "texts": Generate("", (), question=Question(texts=Texts(texts=("a", "b"), dimensions=2))),
    "long": Generate("", tuple({"role": "user", "content": str(at)} for at in range(66))),
    "64": Generate("", tuple({"role": "user", "content": str(at)} for at in range(64))),
    "sampled": Generate("", HELLO, tokens_max=5, sampling=Sampling(0.5, seed=3), unset=("top_p", "top_k")),
    "held": Generate("", HELLO, template={"thinking": True}, form=Form(regex="a"), repetition=Repetition(4, 1, 3), unset=("temperature",)),
    "nothing": Generate("", ()),
    "half": Generate("", ({"role": "user", "content": "\ud83e"},)),
}  # fmt: skip


def test_requests_are_named_and_compared_as_before() -> None:
    lines = []
    for name, each in GENERATES.items():
        if name != "half":
            begins = beginnings("m", each)
            named = beginnings("m", each, "s")
            lines.append(f"{name} begins: {len(begins)} {digest(begins)} {len(named)} {digest(named)}")
            lines.append(
                f"{name} digest: {digest(prompts.digest('m', each))} {told(prompts.describe('m', each, 'r', 0))[65:]}"
            )
            lines.append(f"{name} described: {prompts.describe('n', each, 'r', 1234)[1:]}")
        lines.append(
            f"{name} frame: {digest(request_frame(each))} {digest(request_frame(each, request='q', resume=(1,), tokens_max=None))}"
        )
    compare(FOLDER / "prompts.txt", lines)


def test_defaults_are_put_in_as_before() -> None:
    plain = Route("m", (), 10, 1)
    routes = {
        "plain": plain,
        "warm": dataclasses.replace(plain, sampling=SamplingDefaults(0.7, 0.9, 40, 0.1, 1.1)),
        "greedy": dataclasses.replace(plain, sampling=SamplingDefaults(temperature=0.0)),
        "thinking": dataclasses.replace(plain, thinking=True),
        "quiet": dataclasses.replace(plain, thinking=False),
        "patient": dataclasses.replace(plain, max_stall_seconds=2.0),
        "repeats": dataclasses.replace(plain, repetition=Repetition(8, 2, 4)),
    }
    lines = []
    for (name, each), (route, of) in itertools.product(GENERATES.items(), routes.items()):
        if name in ("chat", "sampled", "held"):
            found = with_defaults(each, of)
            parts = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
            more = " ".join(
                f"{key}={told(value)}" for key, value in parts.items() if value != getattr(each, key)
            )
            lines.append(f"{name} {route}: {more} {found is each}")
    templates = ({"reasoning_effort": "low"}, {"enable_thinking": 1}, {"thinking": 1}, {"other": 1})
    for template in templates:
        found = with_defaults(Generate("", (), template=template), routes["quiet"])
        lines.append(f"{told(template)}: {told(found.template)}")
    both = [
        settled(GENERATES["sampled"], each)
        for each in (Accepted("", ()), Accepted("", (), sampling=Sampling(0.1)))
    ]
    lines.append(f"settled: {told(both)}")
    compare(FOLDER / "defaults.txt", lines)


def test_groups_are_chosen_again_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, known, lines = Random("affinity"), Affinity[str](), []
    digests = [bytes([at]) for at in range(8)]
    for number in range(200):
        begins = rng.sample(digests, rng.randint(0, 3))
        if rng.random() < 0.3:
            group = rng.choice("ghi")
            known.note(begins, group)
            text = f"note {group}"
        else:
            loads = {
                group: rng.choice((0, 1, 2, 4, 5, 6, 7)) for group in rng.sample("ghi", rng.randint(0, 3))
            }
            batch = rng.choice((0, 1, 2, 5))
            text = f"choose {told(loads)} of {batch}: {known.choose(begins, loads, batch)}"
        lines.append(f"{number} {[each[0] for each in begins]}: {text}")
    monkeypatch.setattr(affinity, "REMEMBERED_MAX", 3)
    few = Affinity[str]()
    for number in range(40):
        few.note(rng.sample(digests, 2), rng.choice("ghi"))
        remembered = [few.choose([each], dict.fromkeys("ghi", 0), 0) for each in digests]
        lines.append(f"few {number}: {told(remembered)}")
    compare(FOLDER / "affinity.txt", folded(lines, 60))


def test_frames_of_deltas_are_read_as_before() -> None:
    usual = {"type": "delta", "request": "r", "tokens": [1, 2], "text": "x"}
    changes: list[dict[str, Any]] = [
        {}, {"tokens": []}, {"text": ""}, {"type": "finished"}, {"request": 5}, {"tokens": "x"}, {"tokens": [1, True]}, {"tokens": [1.0]},
        {"text": None}, {"more": 1}, {"tokens": ["1", 2]}, {"request": None}, {"tokens": None},
    ]  # fmt: skip
    lines = [f"{told(each)}: {told(plain_delta({**usual, **each}))}" for each in changes]
    for name in usual:
        fewer = {key: value for key, value in usual.items() if key != name}
        lines.append(f"without {name}: {told(plain_delta(fewer))} {told(plain_delta({**fewer, 'other': 1}))}")
    compare(FOLDER / "delta_frames.txt", lines)
