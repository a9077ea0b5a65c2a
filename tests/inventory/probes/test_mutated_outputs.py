"""What a tool says may be cut off, spoiled, or another tool's: nothing raises, and nothing false is believed of what
was merely cut off.

``RECONCILER_FUZZ_EXAMPLES`` says how many are tried; ``make fuzz`` tries many more than the tests do.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.inventory.probes import machine
from reconciler.inventory.probes.probe import Unknown
from reconciler.inventory.probes.table import Readings
from reconciler.state import MachineFacts
from reconciler.wire.tools import ToolSaid
from tests.examples import examples
from tests.inventory.test_collector import report

from .cases import BY_TOOL, Case, load, plain

EXAMPLES = int(os.environ.get("RECONCILER_FUZZ_EXAMPLES", examples(300)))
EACH = 10
"""Samples of one example: to draw from hypothesis costs more than to read a tool's output."""
CASES = load()
TEXTS = sorted({case.output.stdout for case in CASES if case.output.stdout})
WORDS = [
    "", "\n", "\t", " ", ":", "{", "}", "[", "]", '"', ",", "=", "null", "true", "NaN", "-1", "9" * 5000, "1e400", "0x1",
    "\x00", "\x1b[2J", "\ufeff", "\u2028", "\udcff", "\u0663", "A" * 300, "[" * 2000, "enabled", "disabled", "inet ",
    "status: active", "PORT_ACTIVE (4)", "::ffff:", "member: en1 ", "receptacle_connected", "hca_id:", "1000000000000",
]  # fmt: skip
HEALTHY: dict[str, Any] = {
    case.probe.name: case.probe.read(case.output)
    for case in CASES
    if (case.tool, case.name)
    in {
        ("ifconfig", "all"), ("networksetup_ports", "m5_max"), ("system_profiler", "dock_mac_free"),
        ("ibv_devices", "m5_max"), ("ibv_devinfo", "active"), ("rdma_ctl", "enabled"), ("vm_stat", "24_gib"),
    }
}  # fmt: skip

Edit = Callable[[random.Random, str], str]


def somewhere(draw: random.Random, text: str) -> int:
    return draw.randrange(len(text) + 1)


def truncated(draw: random.Random, text: str) -> str:
    return text[: somewhere(draw, text)]


def cut(draw: random.Random, text: str) -> str:
    start = somewhere(draw, text)
    return text[:start] + text[start + draw.randrange(1, 40) :]


def with_a_word(draw: random.Random, text: str) -> str:
    at = somewhere(draw, text)
    return text[:at] + draw.choice(WORDS) + text[at:]


def with_a_letter(draw: random.Random, text: str) -> str:
    at = somewhere(draw, text)
    return text[:at] + chr(draw.choice([draw.randrange(128), draw.randrange(0x11000)])) + text[at + 1 :]


def of_lines(draw: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = draw.randrange(len(lines))
    kind = draw.randrange(3)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, draw.choice(lines))
    else:
        draw.shuffle(lines)
    return "".join(lines)


def of_another(draw: random.Random, text: str) -> str:
    other = draw.choice(TEXTS)
    return text[: somewhere(draw, text)] + other[somewhere(draw, other) :]


EDITS: list[Edit] = [truncated, cut, with_a_word, with_a_letter, of_lines, of_another]


def spoiled(draw: random.Random, case: Case) -> ToolSaid:
    text, stderr = case.output.stdout, case.output.stderr
    for _ in range(draw.choice([1, 1, 2, 3])):
        text = draw.choice(EDITS)(draw, text)
    if draw.random() < 0.1:
        stderr = draw.choice(EDITS)(draw, stderr)
    code = draw.choice([1, 2, 113, 127, -9, 255, None]) if draw.random() < 0.15 else case.output.code
    return ToolSaid(case.output.ending, code, text, stderr)


def checked(tool: str, output: ToolSaid) -> Any:
    """What is read; it is of the kind that the tool tells, or not known, with a reason that people can read."""
    read = BY_TOOL[tool].read(output)
    if isinstance(read, Unknown):
        assert not read.hung
        assert 0 < len(read.reason) < 400
        assert read.reason.isprintable()
    else:
        assert type(read) is KINDS[tool]
    facts = machine.facts(
        Readings({**HEALTHY, BY_TOOL[tool].name: read}),
        replace(report(1), system="Darwin"),
        machine.Wired(),
        0.0,
    )
    assert isinstance(facts, MachineFacts)
    assert facts.verbs_answer is not False
    return read


KINDS = {case.tool: type(case.probe.read(case.output)) for case in CASES if case.known}


@settings(max_examples=EXAMPLES)
@given(st.randoms(use_true_random=False), st.sampled_from(CASES))
def test_mutated_outputs_are_read_or_not_known_and_never_raise(draw: random.Random, case: Case) -> None:
    seeded = random.Random(draw.getrandbits(64))
    for _ in range(EACH):
        checked(case.tool, spoiled(seeded, case))


def test_a_mutated_output_that_is_cut_off_anywhere_reports_nothing_that_the_complete_one_does_not() -> None:
    """Of every sample every beginning is tried. Cut off in the middle of a line most is not known; at the end of one
    less is told."""
    for case in CASES:
        complete = plain(case.probe.read(case.output)) if case.known else None
        for end in places(case.output.stdout):
            read = checked(case.tool, replace(case.output, stdout=case.output.stdout[:end]))
            if not isinstance(read, Unknown) and case.tool not in ("find", "find_marker", "pgrep"):
                assert complete is not None, (case.name, end)
                assert within(plain(read), complete), (case.tool, case.name, end, read)


def places(text: str) -> Iterator[int]:
    """Where to cut: everywhere in what is short, at and around the ends of lines in what is long."""
    if len(text) < 800:
        yield from range(len(text))
        return
    for at in (at for at, letter in enumerate(text) if letter == "\n"):
        yield from range(max(0, at - 2), min(len(text), at + 3))


def within(part: Any, complete: Any) -> bool:
    """Whether everything that is told is told by the whole as well. What is missing is not known."""
    if part is None or part in ("", []):
        return True
    if isinstance(part, dict):
        return all(within(value, complete[name]) for name, value in part.items())
    if isinstance(part, list):
        return len(part) <= len(complete) and all(map(within, part, complete))
    return bool(part == complete)
