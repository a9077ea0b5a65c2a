# ruff: noqa: B023 - each function is called where it is written
"""What rank 0 decides, keeps, reads and says in many situations, line by line.

``UPDATE_GOLDEN=1 pytest tests/runner/decode/test_recorded_decisions.py`` writes the files again. A line has the situation and
what was decided in it; of a served run, each line is a step, in order. The first line that differs is the first other
decision; those after it may follow from it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from reconciler.runner.decode import leader as leading
from reconciler.runner.decode.adjustment import adjustment
from reconciler.runner.decode.answer import Answer, RepetitionScanner, StopStrings
from reconciler.runner.decode.batch import Batch, Own, known_endings
from reconciler.runner.decode.inbox import Orders, Ticket
from reconciler.runner.decode.lanes import Lanes
from reconciler.runner.decode.leader import Leader
from reconciler.runner.decode.measure import Gauge, Paces, _bounded
from reconciler.runner.decode.order import Order, together
from reconciler.runner.decode.pacing import Pacing
from reconciler.runner.decode.prefixes import Prefixes, packed, shared_length
from reconciler.runner.decode.reuse import Reuse
from reconciler.runner.decode.sampling import _key, keep_likely
from reconciler.runner.embedding.loop import EmbeddingLoop
from reconciler.runner.model.adapter import Tokenizer
from reconciler.runner.model.agreed_batch import Logprobs
from reconciler.runner.model.caches import ANY, EXACT, NOT, Footprint
from reconciler.runner.model.generator import Read, Token
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.form import Form
from reconciler.wire.group import Gauging, Insertion, Prefix, Reading, Seen, Step
from reconciler.wire.launch import RankEnd
from reconciler.wire.measuring import Measure
from reconciler.wire.sampling import Bias, Ending, Repetition, Sampling
from tests.recorded import compare, digest
from tests.runner.lines import RECORDED, Lines, compact
from tests.runner.ranks import question

from .loop import prefix_bytes

GREEDY = Sampling(temperature=0.0)
NOBODY: Any = None
FOOTPRINTS = {
    "any": Footprint(ANY, (((0, 8),), ((0, 10),))),
    "exact": Footprint(EXACT, (((0, 8), (64, 4), (1, 100)), ((0, 6),))),
    "not": Footprint(NOT, ((), ())),
    "windows": Footprint(ANY, (((64, 10),), ((0, 1), (300, 9)))),
}


def test_steps_are_paced_as_recorded() -> None:
    lines = Lines()
    for seed in range(12):
        drawn, pacing, said = random.Random(seed), Pacing(), []
        fixed, each, decode = (
            drawn.choice((0.0, 0.05)),
            drawn.choice((1e-5, 1e-3, 0.05)),
            drawn.choice((0.01, 0.2)),
        )
        for _ in range(24):
            stall = drawn.choice((None, 0.05, 0.5, 2.0, 30.0))
            tokens = pacing.tokens(stall)
            said.append(tokens)
            decoded = drawn.random() < 0.7
            read = drawn.choice((0, tokens, tokens // 2))
            pacing.measured(
                (fixed + each * read if read else 0.0) + (decode if decoded else 0.0), read, decoded
            )
        lines.add(f"{seed}", said, 400)
    compare(RECORDED / "decode_paced.txt", lines)


def ticket(number: int, prompt: Sequence[int], answer: Any = NOBODY, **fields: Any) -> Ticket:
    given = {"tokens_max": 9, "position": 0, "sampling": GREEDY, "answer": answer, "number": number, **fields}
    return Ticket("", tuple(prompt), **given)


def test_prompts_are_ordered_and_joined_as_recorded() -> None:
    lines = Lines()
    for seed in range(30):
        drawn, order = random.Random(seed), Order()
        tickets = [
            ticket(at, (5,) * drawn.choice((1, 40, 1000, 5000)), client=drawn.choice("abc"), uid=at, read=0)
            for at in range(drawn.randrange(8))
        ]
        said = []
        for _ in range(12):
            found = order.of([one for one in tickets if one.unread])
            said.append([one.number for one in found])
            for one in found:
                one.passed_over += drawn.choice((1, 1, 7))
            for one in found[:2]:
                tokens = min(one.unread, drawn.choice((16, 1024, 4096)))
                order.read(one, tokens)
                one.read += tokens
                one.reused = drawn.choice((0, 0, one.read))
            if drawn.random() < 0.3:
                tickets.append(ticket(len(tickets), (5,) * 30, client=drawn.choice("abcd"), uid=len(tickets)))
        lines.add(f"{seed}", said)
        rooms = drawn.choice((1, 2, 99))
        lengths = [drawn.choice((1, 1, 2, 30, 65, 66, 500, 600, 640)) for _ in range(8)]
        groups = together(
            [ticket(at, (5,) * length, uid=at) for at, length in enumerate(lengths)],
            lambda uids: len(uids) <= rooms,
        )
        lines.add(f"{seed} {lengths} {rooms}", [[one.number for one in group] for group in groups])
    compare(RECORDED / "decode_ordered.txt", lines)


def test_lanes_are_chosen_as_recorded() -> None:
    lines = Lines()
    for seed in range(24):
        drawn = random.Random(seed)
        name = drawn.choice(("any", "exact", "windows"))
        heavy = drawn.choice((1, 40_000))
        ranks = tuple(tuple((most, size * heavy) for most, size in rank) for rank in FOOTPRINTS[name].ranks)
        footprint = Footprint(ANY, ranks)
        tokens = drawn.choice((600, 2000, 9000))
        bounds = drawn.choice(([], [footprint.bytes_on(rank, tokens) for rank in range(2)]))
        lanes, said = Lanes(footprint, bounds, drawn.choice((0, 10**9))), []
        unread: list[int] = []
        live: list[int] = []
        for uid in range(14):
            length = drawn.choice((1, 100, 800, 3000))
            said.append(str(int(lanes.have_room(length))))
            lanes.enter(uid, length)
            unread.append(uid)
            live.append(uid)
            if drawn.random() < 0.5:
                group = unread[: drawn.choice((1, 1, 2, 3))]
                said.append(f"t{int(lanes.go_together(group))}")
                said.append(f"l{lanes.start(group)}{'d' if lanes._lanes else ''}")
                unread = [one for one in unread if one not in group]
            for _ in range(drawn.choice((0, 1, 200))):
                left = lanes.step()
                if left:
                    said.append(f"-{left}")
                unread = [one for one in unread if one not in left]
                live = [one for one in live if one not in left]
            if live and drawn.random() < 0.3:
                gone = drawn.choice(live)
                lanes.leave(gone)
                live.remove(gone)
                unread = [one for one in unread if one != gone]
                said.append(f"x{gone}{int(bool(lanes._lanes))}")
        lines.add(f"{seed} {name}", " ".join(said), 400)
    for name, footprint in FOOTPRINTS.items():
        if name != "not":
            sizes = [footprint.bytes(tokens) for tokens in (0, 1, 63, 64, 65, 300, 301, 1000)]
            fits = [footprint.fitting(size) for size in (0, 7, 10, 11, 640, 700, 10_000, 1 << 50)]
            lines.add(f"{name} sizes", [sizes, fits], 400)
    compare(RECORDED / "decode_lanes.txt", lines)


def test_prefixes_are_kept_and_found_as_recorded() -> None:
    lines = Lines()
    for name, footprint in FOOTPRINTS.items():
        for seed in range(6):
            drawn = random.Random(seed)
            prefixes, said = Prefixes(footprint, drawn.choice((0, 900, 3000, 20_000))), []
            said.append(f"max {prefixes.length_max} {prefixes.any_part}")
            texts: list[list[int]] = [[5] * 20]
            for uid in range(40):
                base = drawn.choice(texts)
                tokens = base[: drawn.choice((len(base), 15, 16, 17, 40))] + [drawn.randrange(5) for _ in range(drawn.choice((0, 1, 16, 60)))]  # fmt: skip
                texts.append(tokens)
                seen = prefixes.use(packed(tokens)) if drawn.random() < 0.5 else prefixes.find(packed(tokens))
                prefixes.offer(uid, packed(tokens))
                kept = prefixes.kept
                found = "-" if seen is None else f"{seen[0].uid}:{seen[0].length}/{seen[1]}"
                said.append(f"{found} {kept.entries},{kept.bytes},{kept.evictions},{prefixes.changes}")
            lines.add(f"{name} {seed}", said, 300)
            lines.add(f"{name} {seed} names", sorted((each.uid, each.length) for each in prefixes.names), 300)
    for one, other in (
        ((), ()),
        ((1,), ()),
        ((1, 2), (1, 2)),
        ((1, 2, 3), (1, 2, 4)),
        ((1, 2), (2, 1)),
        ((70000, 1), (70000, 2)),
    ):
        lines.add(f"{one} {other}", [shared_length(packed(one), packed(other)), packed(one).hex()])
    compare(RECORDED / "decode_prefixes.txt", lines)


def test_prompts_wait_for_each_other_and_are_cut_as_recorded() -> None:
    lines = Lines()
    for name, footprint in FOOTPRINTS.items():
        for seed in range(8):
            drawn, said = random.Random(seed), Lines()
            reuse = Reuse(Prefixes(footprint, drawn.choice((2000, 20_000))), frozenset({0}))
            base = [drawn.randrange(1, 9) for _ in range(400)]
            reading: list[Ticket] = []
            waiting: list[Ticket] = []
            for at in range(60):
                if drawn.random() < 0.5:
                    end = [0] if drawn.random() < 0.5 else []
                    more = [drawn.randrange(1, 9) for _ in range(drawn.choice((0, 1, 20, 100)))]
                    prompt = [*base[: drawn.choice((0, 63, 64, 65, 200, 400))], *end, *more] or [1]
                    scores = 1 if drawn.random() < 0.1 else None
                    waiting.append(ticket(at, prompt, scores=scores, said=[], tokens_max=3))
                for one in list(waiting):
                    worth = reuse.is_worth_waiting(one)
                    said.append(f"{one.number}{'w' if worth else 'b'}{one.behind}")
                    if not worth and len(reading) < 3:
                        waiting.remove(one)
                        one.uid = at * 10 + len(reading)
                        begun = reuse.begin(one)
                        said.append(f"+{len(begun.prompt)},{begun.reused},{one.cached}")
                        reading.append(one)
                        break
                for one in list(reading):
                    cut = reuse.up_to_cut(one) if one.unread else 0
                    tokens = min(cut, drawn.choice((1, 16, 100, 999)))
                    said.append(f"{one.number}:{cut}")
                    if tokens:
                        reuse.read(one, one.read + tokens)
                    if drawn.random() < 0.1 or (not one.unread and drawn.random() < 0.5):
                        one.said = [3] * drawn.choice((0, 1, 30))
                        reuse.end(one)
                        reading.remove(one)
                        if one.unread and drawn.random() < 0.5:
                            one.begin_again()
                            waiting.append(one)
                forget, keep = reuse.change()
                said.append(f"-{sorted(forget)}+{sorted(keep)}")
            lines.add(f"{name} {seed} {compact(reuse.kept)}", said)
    compare(RECORDED / "decode_waiting.txt", lines)


def test_tickets_go_on_as_recorded() -> None:
    lines = Lines()
    penal = Sampling(repetition_penalty=2.0)
    for sampling in (GREEDY, penal, Sampling(frequency_penalty=1.0)):
        for position in (0, 2):
            for scores, scored in ((None, 1), (1, 1), (1, 3), (1, 4), (1, 5)):
                one = ticket(
                    0, (9, 5, 5, 7, 6), sampling=sampling, position=position, scores=scores, scored=scored
                )
                shown = [one.unread, one.scoring, one.seen]
                one.said, one.uid, one.behind, one.read, one.reused, one.packed = [1, 2], 3, 4, 5, 2, b"x"
                shown.append(one.unread)
                one.begin_again()
                again = [
                    one.prompt,
                    one.position,
                    one.tokens_max,
                    one.said,
                    one.packed == b"",
                    one.uid,
                    one.behind,
                    one.read,
                    one.reused,
                    one.scoring,
                    one.seen,
                ]
                lines.add(
                    f"{sampling.repetition_penalty} {sampling.frequency_penalty} {position} {scores} {scored}",
                    [shown, again],
                    160,
                )
    compare(RECORDED / "decode_tickets.txt", lines)


def test_answers_that_repeat_themselves_or_stop_end_as_recorded() -> None:
    lines = Lines()
    for low, high, count in ((1, 1, 2), (1, 4, 2), (2, 4, 3), (3, 8, 2), (1, 8, 5)):
        for seed in range(8):
            drawn = random.Random(seed)
            pattern = [drawn.randrange(3) for _ in range(drawn.randrange(1, 6))]
            tokens = [9, 8, *pattern * 3, 7, *pattern * 6]
            scanner = RepetitionScanner(Repetition(high, low, count))
            lines.add(
                f"{low} {high} {count} {pattern}",
                [at for at, token in enumerate(tokens) if scanner.repeats(token)],
            )
    for stop in ((), ("ab",), ("abc", "b"), ("aab", "aaa"), ("\u00e9x",), ("abab", "bc")):
        for text in ("", "aab", "xabcy", "aaab", "a\u00e9x!", "ababab", "bc", "aa", "abac"):
            for size in (1, 2, 9):
                stops = StopStrings(stop)
                pieces = [text[at : at + size] for at in range(0, len(text), size)]
                said = [[] if stops.over else _with_end(stops, stops.before(piece)) for piece in pieces]
                lines.add(
                    f"{stop} {text!a} {size}",
                    [said, stops.over, stops.found, "" if stops.over else stops.rest()],
                )
    compare(RECORDED / "decode_ends.txt", lines)


def _with_end(stops: StopStrings, text: str) -> list[str]:
    """Return a text, and after it an empty one where a stop string has ended it."""
    return [text, ""] if stops.over else [text]


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = '<tool_call>{"name": "look", "arguments": {"at": "Zo\u00eb"}}</tool_call>'
SAID = (
    "", "yes", "na\u00efve \U0001f999!", "a<|start|>b<|end|>never", "<think>hm</think>yes", "<think>hm", f"so {CALL}{CALL} more", f"{CALL}<|end|>",
    '<tool_call>{"name": "look", "argu', "<tool_call>no call</tool_call> stop here", "aSTOPb", "aSTO", "ababababab", "ab stop STOP", "<think>STOP</think>aSTOPb<|end|>",
)  # fmt: skip
ASKED: Sequence[Mapping[str, Any]] = (
    {}, {"tools": (TOOL,)}, {"tools": (TOOL,), "tool_calls_max": 1}, {"tools": (TOOL,), "tool_calls_max": 2, "sampling": Sampling(seed=7)}, {"stop": ("STOP", "stop")}, {"stop": ("STOP",), "tools": (TOOL,)},
    {"stop": ("STOP",), "ending": Ending(tokens_min=5)}, {"ending": Ending(ignore_end=True)}, {"ending": Ending(stop_tokens=(ord("b") - 30,))}, {"repetition": Repetition(4, 1, 3)}, {"repetition": Repetition(4, 1, 3), "ending": Ending(tokens_min=9)},
    {"repetition": Repetition(0, 1, 3)}, {"prompt": "x"}, {"form": Form(schema="{}")}, {"resume": "a"}, {"resume": "<think>h", "tools": (TOOL,)}, {"resume": 'so <tool_call>{"na', "tools": (TOOL,)}, {"resume": "aSTO", "stop": ("STOP",)},
)  # fmt: skip


def test_tokens_become_events_as_recorded(endless_tokenizer: Tokenizer) -> None:
    lines = Lines()
    for number, fields in enumerate(ASKED):
        resume = tuple(endless_tokenizer.plain(fields.get("resume", "")))
        generate = question("r", "", **{**fields, "resume": resume})
        for at, text in enumerate(SAID):
            for reason in ("stop", "length", "cancelled") if at in (2, 7, 11) else ("length",):
                answer = Answer(generate, [5, 6], endless_tokenizer)
                events: list[Any] = []
                for token in endless_tokenizer.plain(text):
                    answer.take(token)
                    if answer.stopped:
                        break
                    events += answer.events()
                ended = answer.finish("stop" if answer.stopped else reason)
                last = dataclasses.asdict(ended[-1])
                shown = [
                    last["reason"],
                    last["completion_tokens"],
                    last["stop"],
                    last["repeated"],
                    answer.stopped,
                ]
                lines.put(f"{number} {at} {reason}: {compact(shown)} {digest([events, ended])}")
    odd = Logprobs(float("nan"), ((5, float("-inf")), (6, -0.5)))
    for scores in (None, 1):
        answer = Answer(question("r", "", logprobs=1, scores=scores), [5, 6, 7], endless_tokenizer)
        for token in (20, 0):
            answer.take(token, odd)
        lines.add(f"logprobs {scores}", [answer.scored(1, [odd, odd, odd]), answer.finish("stop")], 600)
    compare(RECORDED / "decode_answers.txt", [ascii(each)[1:-1] for each in lines])


def test_choices_are_narrowed_as_recorded() -> None:
    lines = Lines()
    logits = mx.array([[4.0, 1.0, 3.0, 2.0, -8.0, 2.0]])
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    for top_p in (0.0, 0.3, 0.8, 0.97, 1.0):
        for top_k in (0, 1, 3, 4, 6, 7):
            for min_p in (0.0, 0.1, 1.0):
                kept: Any = mx.isfinite(keep_likely(logprobs, top_p, top_k, min_p)).tolist()
                lines.add(f"{top_p} {top_k} {min_p}", [at for at, there in enumerate(kept[0]) if there])
    lines.add("keys", [_key(seed, position) for seed in (0, 1) for position in (0, 1)], 300)
    biases = (Bias(1, 2.0), Bias(2, -3.0))
    for sampling in (
        GREEDY,
        Sampling(biases=biases),
        Sampling(repetition_penalty=2.0),
        Sampling(frequency_penalty=0.5),
        Sampling(presence_penalty=-1.0, biases=biases),
    ):
        for ending in (Ending(), Ending(tokens_min=2), Ending(tokens_min=3, stop_tokens=(4, 1))):
            for position in (0, 1, 2, 3):
                insertion = Insertion((5, 2), 9, sampling, position, ending=ending, seen=Seen((0, 2), (3, 3)))
                found = adjustment(insertion, frozenset({5}))
                said: list[Any] = []
                if found is not None:
                    changes = found.together([found])
                    said += [changes(logits, mx.array([last])).tolist()[0] for last in (2, 3)]
                    changes = found.together([found, found])
                    said.append(changes(mx.concatenate([logits, logits]), mx.array([1, 1])).tolist()[1])
                lines.add(f"{compact(sampling)[-60:]} {ending.tokens_min} {position}", said, 60)
    compare(RECORDED / "decode_choices.txt", lines)


def test_measurements_are_bounded_and_joined_as_recorded() -> None:
    lines = Lines()
    for rounds, small, large in ((0, 0, 0), (1, 4, 4), (100, 64 << 20, 3), (101, (64 << 20) + 1, 5)):
        bounded = _bounded(Gauging(rounds, small, large))
        lines.add(
            f"{rounds} {small} {large}",
            [bounded, Paces((), 0.5, 1.5, ()).as_measured("r", Gauging(rounds, small, large))],
            300,
        )
    for size in (1, 2, 3, 4):
        group: Any = SimpleNamespace(rank=lambda: 0, size=lambda: size)
        gauge = Gauge(group if size > 1 else None)
        rows = [[float(rank * 100 + at) for at in range(4 + 2 * size)] for rank in range(size)]
        lines.add(f"{size} ranks", [gauge._pairs(), gauge._paces(rows)], 600)
    compare(RECORDED / "decode_measured.txt", lines)


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Generator:
    """Says tokens that follow from the sequence and the place alone."""

    end_ids = frozenset({0})
    cache_bytes = 0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._prompts: dict[int, list[int]] = {}
        """Tokens that are read and all tokens of the prompts."""
        self._left: dict[int, int] = {}
        self._said: dict[int, int] = {}
        self._scored: dict[int, bool] = {}
        self._count = 0
        self.log: list[object] = []

    def insert(self, prompt: Any, tokens_max: int, choice: Any, read: Any, ending: Any, scored: bool) -> int:
        uid = self._count
        self._count += 1
        self._prompts[uid], self._left[uid], self._said[uid] = [0, len(prompt)], tokens_max, 0
        self._scored[uid] = scored
        self.log.append(
            ["insert", uid, choice.likeliest, choice.scores, choice.adjusted is not None, read is None]
        )
        return uid

    def remove(self, uids: Any) -> None:
        for uid in uids:
            self._said.pop(uid)
            self._prompts.pop(uid, None)

    def kept(self, uid: int, dropped: int) -> Any:
        return [SimpleNamespace(nbytes=1, trim=lambda count: None)]

    def settle(self) -> None:
        self.log.append("settle")

    def step(self, readings: Any) -> tuple[list[Read], list[Token]]:
        read: list[Read] = []
        tokens = [self._token(uid) for uid in sorted(set(self._said) - set(self._prompts))]
        for reading in readings:
            for uid in reading.uids:
                before, total = self._prompts[uid]
                done = before + reading.tokens if reading.tokens else total
                marks = tuple(Logprobs(-1.0, ()) for _ in range(done - before)) if self._scored[uid] else ()
                read.append(Read(uid, before, done, total, marks))
                self._prompts[uid][0] = done
                self._clock.now += 0.0005 * (done - before)
                if done == total:
                    del self._prompts[uid]
                    if self._left[uid]:
                        tokens.append(self._token(uid))
        self._clock.now += 0.01
        return read, tokens

    def _token(self, uid: int) -> Token:
        self._said[uid] += 1
        said = self._said[uid]
        token = 20 + (uid * 7 + said * 13) % 60
        ended = "stop" if (uid + said) % 23 == 0 else "length" if said >= self._left[uid] else ""
        if ended:
            del self._said[uid]
        return Token(uid, 0 if ended == "stop" else token, ended)


class Box:
    """An inbox with a script: what comes before each step."""

    def __init__(self, script: Sequence[Orders]) -> None:
        self._script = list(script)
        self.log: list[object] = []

    def collect(self, sleep: bool, seconds: float | None = None) -> Orders:
        if self._script:
            return self._script.pop(0)
        return Orders((), (), draining=sleep)

    def close(self, count: int) -> None:
        self.log.append(count)


def scripted(seed: int, tokenizer: Tokenizer) -> list[Orders]:
    drawn = random.Random(seed)
    script: list[Orders] = []
    known: list[Ticket] = []
    system = [drawn.randrange(20, 90) for _ in range(120)]
    for at in range(30):
        came = []
        for _ in range(drawn.choice((0, 0, 0, 1, 2, 3)) if at else 4):
            name = f"r{len(known)}"
            prompt = [
                *system[: drawn.choice((0, 40, 120))],
                *([0] if drawn.random() < 0.5 else []),
                *(drawn.randrange(20, 90) for _ in range(drawn.choice((1, 20, 90, 400)))),
            ]
            prompt = prompt or [20]
            stop = drawn.choice(((), (), ("a",), ("xyz",)))
            fields: dict[str, Any] = {
                "stop": stop,
                "sampling": drawn.choice((GREEDY, Sampling(frequency_penalty=1.0))),
            }
            if drawn.random() < 0.2:
                fields["scores"] = 1
            answer = Answer(question(name, "", **fields), list(prompt), tokenizer)
            one = ticket(
                0, prompt, answer, tokens_max=drawn.choice((0, 1, 5, 30)) if "scores" in fields else drawn.choice((1, 5, 30)), client=drawn.choice("ab"), scores=fields.get("scores"),
                logprobs=drawn.choice((None, 2)), sampling=fields["sampling"], max_stall_seconds=drawn.choice((0.1, 5.0)),
            )  # fmt: skip
            if drawn.random() < 0.08:
                one.measure = Measure(name, under_load=drawn.random() < 0.5)
            if one.scores is not None and len(prompt) == 1:
                one.scores = None
            one.tokens_max = max(one.tokens_max, int(one.scores is None))
            came.append(one)
            known.append(one)
        cancelled = [drawn.choice(known)] if known and drawn.random() < 0.2 else []
        script.append(Orders(tuple(came), tuple(each for each in cancelled if each.measure is None), False))
    return script


def short(step: Any) -> str:
    insert = [[len(one.prompt), one.tokens_max, one.reused, int(one.scored)] for one in step.insert]
    read = [[*one.uids, one.tokens, one.lane] for one in step.read]
    names = [[f"{each.uid}:{each.length}" for each in some] for some in (step.forget, step.keep)]
    parts = {
        "-": list(step.remove),
        "+": insert,
        "read": read,
        "forget": names[0],
        "keep": names[1],
        "gauge": int(step.gauging is not None),
    }
    return compact({key: value for key, value in parts.items() if value})


@pytest.mark.parametrize("name", ["any", "exact", "not"])
def test_requests_are_served_as_recorded(
    name: str, endless_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Lines()
    for seed, room in ((0, 3000), (1, 900)) if name != "not" else ((1, 900),):
        clock = Clock()
        monkeypatch.setattr(leading, "time", clock)
        generator, box = Generator(clock), Box(scripted(seed, endless_tokenizer))
        fake: Any = generator
        progress = ProgressPipe(None)
        batch = Batch(fake, progress)
        footprint = FOOTPRINTS[name]
        sized = FOOTPRINTS["any"] if name == "not" else footprint
        reuse = Reuse(Prefixes(footprint, 4000), frozenset({0}))
        lanes = Lanes(sized, [sized.bytes_on(rank, room) for rank in range(2)])
        steps: list[tuple[Any, int]] = []
        inbox: Any = box

        def say(step: Any) -> None:
            steps.append((step, progress.step_tokens))

        leader = Leader(batch, drawn_batch(seed), inbox, say, reuse, lanes)
        leader.warm((5, 6), 3)
        posted: list[Any] = []
        leader.serve(lambda events: posted.append(dict(events)))
        for at, (step, told) in enumerate(steps):
            lines.add(f"{seed} {at} after {told}", short(step), 60)
        lines.add(f"{seed} events", digest(posted))
        for event in (
            each
            for some in posted
            for each in some.get("", ())
            if type(each).__name__ in ("Finished", "Failed")
        ):
            lines.add(f"{seed} {event.request}", event, 60)
        lines.add(f"{seed} generator", digest([compact(each) for each in generator.log]))
        lines.add(f"{seed} closed", box.log)
    compare(RECORDED / f"decode_served_{name}.txt", lines)


def drawn_batch(seed: int) -> int:
    return (4, 8)[seed]


def test_steps_that_do_not_fit_are_refused_as_recorded() -> None:
    lines = Lines()
    begin = Step(
        0,
        insert=(Insertion((5, 6, 7), 5, GREEDY), Insertion((5,), 5, GREEDY)),
        read=(Reading((0,), 2), Reading((1,))),
    )
    wrong = (
        Step(1), Step(0), Step(2), Step(1, remove=(0,)), Step(1, remove=(2,)), Step(1, forget=(Prefix(0, 1),)), Step(1, keep=(Prefix(0, 2),)), Step(1, keep=(Prefix(0, 3),)), Step(1, keep=(Prefix(0, 0),)), Step(1, keep=(Prefix(7, 1),)),
        Step(1, read=(Reading((0,)),)), Step(1, read=(Reading((0,), 1),)), Step(1, read=(Reading((1,)),)), Step(1, read=(Reading((0,), lane=-1),)), Step(1, read=(Reading(()),)), Step(1, read=(Reading((0, 1)),)), Step(1, read=(Reading((2,)),), insert=(Insertion((5,), 1, GREEDY),)),
        *(Step(1, insert=(Insertion((5, 6), 1, GREEDY, reuse=reuse, reused=count),), keep=keep) for reuse in (None, Prefix(0, 2), Prefix(0, 1)) for count in (0, 1, 2, 3) for keep in ((), (Prefix(0, 2),))),
    )  # fmt: skip
    for number, step in enumerate(wrong):
        fake: Any = Generator(Clock())
        batch = Batch(fake, ProgressPipe(None))
        batch.run(begin, {0: Own(2, None, 3)})
        try:
            said: object = batch.run(step)
        except RankEnd as end:
            said = f"{end.code} {end.sentence}"
        lines.add(f"{number}", [said, batch.live, batch.next_step, batch.next_uid, prefix_bytes(batch)], 160)
    for error in (
        RuntimeError("[malloc] out"),
        ValueError("x"),
        MemoryError(),
        RuntimeError("[jaccl] send failed with errno=5"),
        KeyError("x"),
    ):
        try:
            with known_endings():
                raise error
        except (RankEnd, RuntimeError, ValueError, KeyError) as found:
            lines.add(f"{error!r}", [type(found).__name__, str(found), getattr(found, "code", None)])
    compare(RECORDED / "decode_refused.txt", lines)


class Vectors:
    def __init__(self, size: int) -> None:
        self.size = size
        self.log: list[Any] = []

    def vectors(self, texts: Any, dimensions: Any) -> list[bytes]:
        self.log.append([[len(each) for each in texts], dimensions])
        return [bytes([len(text) % 256]) for text in texts]


def test_vectors_are_made_in_the_recorded_steps() -> None:
    lines = Lines()
    for seed in range(6):
        drawn = random.Random(seed)
        script: list[Orders] = []
        known: list[Ticket] = []
        for _ in range(12):
            came = []
            for _ in range(drawn.choice((0, 1, 2))):
                answer: Any = SimpleNamespace(request=f"r{len(known)}")
                texts = tuple((5,) * drawn.choice((1, 10, 500, 3000)) for _ in range(drawn.choice((1, 2, 9))))
                one = ticket(
                    0, (), answer, texts=texts, dimensions=drawn.choice((None, 4)), client=drawn.choice("ab")
                )
                if drawn.random() < 0.1:
                    one.measure = Measure("m")
                came.append(one)
                known.append(one)
            cancelled = (drawn.choice(known),) if known and drawn.random() < 0.2 else ()
            script.append(Orders(tuple(came), cancelled, False))
        box, vectors, posted = Box(script), Vectors(drawn.choice((8, 40_000))), Lines()
        inbox: Any = box
        EmbeddingLoop(vectors, inbox, ProgressPipe(None)).serve(
            lambda events: posted.add("", dict(events), 10**6)
        )
        for at, step in enumerate(vectors.log):
            lines.add(f"{seed} {at}", step)
        lines.add(f"{seed}", [box.log, digest(posted)])
    compare(RECORDED / "decode_vectors.txt", lines)
