"""``python -m tests.simulation faults | fuzz | replay``: the simulator as a program."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FrameType
from typing import Any

from tests.simulation.oracles.reached import table
from tests.simulation.schedules.days import Days, days
from tests.simulation.schedules.exhaustive import Tally, sweep
from tests.simulation.schedules.fuzz import Playable, schedule, shrink
from tests.simulation.schedules.gateways import GATEWAY_SCENARIOS, gateway_schedule
from tests.simulation.schedules.jobs import JOB_SCENARIOS, job_schedule
from tests.simulation.schedules.play import Verdict, play
from tests.simulation.schedules.points import Points
from tests.simulation.schedules.scenarios import SCENARIOS
from tests.simulation.world.world import place

COMMAND = "python -m tests.simulation"
BY_DEFAULT = (
    "bring-up", "rank-crash", "agent-death", "controller-restart", "scale", "spec-change", "drain",
    "node-lost", "cable-slow", "fabric", "repair", "reboot", "store-lost", "hang", "rolling-transport",
    "rolling-weights", "rolling-refused", "job-preempts", "job-retries", "job-store-lost",
    "gateway", "gateway-routes", "gateway-upgrade",
)  # fmt: skip
"""The stories that are swept where nobody names any or asks for all: all take twice as long."""
ALL = {**SCENARIOS, **JOB_SCENARIOS, **GATEWAY_SCENARIOS}
DAYS = "days"
JOBS = "jobs"
GATEWAYS = "gateways"
ONE_OVER_DAYS_IN = 20
"""So many random schedules have one among them that goes over days."""
WORLDS_KEPT = 5
"""So many worlds that are over are let go of at once: with more of them in memory, everything takes longer."""
SCHEDULE_SECONDS = 300.0
"""Of a processor: the longest schedule over days takes a tenth of it."""
PROGRESS_SECONDS = 60.0
"""So often a long run says how far it is."""


def main() -> int:
    parser = argparse.ArgumentParser(prog=COMMAND)
    commands = parser.add_subparsers(dest="command", required=True)
    faults = commands.add_parser("faults", help="every point of every scenario, times every fault")
    faults.add_argument("--only", default="", help="names of scenarios, with commas")
    faults.add_argument("--all", action="store_true", help="every scenario: twice as long")
    faults.add_argument("--jobs", type=int, default=2)
    fuzz = commands.add_parser("fuzz", help="random schedules")
    fuzz.add_argument("--seeds", type=int, default=1000)
    fuzz.add_argument("--first", type=int, default=1)
    fuzz.add_argument("--jobs", type=int, default=2)
    fuzz.add_argument("--only", default=None, help="one scenario, or days, or jobs, or gateways")
    replay = commands.add_parser("replay", help="one run again, with everything that happens in it")
    replay.add_argument("scenario", nargs="?", choices=[*sorted(ALL), DAYS, JOBS, GATEWAYS])
    replay.add_argument("--plan", default="", help="point:kind, with commas")
    replay.add_argument("--seed", type=int)
    replay.add_argument("--without", default="", help="faults to leave out")
    options = parser.parse_args()
    return {"faults": _faults, "fuzz": _fuzz, "replay": _replay}[options.command](options)


# --- every point -----------------------------------------------------------------------------------


def _faults(options: argparse.Namespace) -> int:
    left = [name for name in ALL if name not in BY_DEFAULT and not options.all]
    names = [name for name in options.only.split(",") if name] or [n for n in ALL if n not in left]
    started = time.perf_counter()
    print(f"{'scenario':20} {'points':>7} {'kinds':>6} {'plans':>7} {'violations':>11} {'seconds':>8}")
    total: Counter[str] = Counter()
    failed: list[tuple[str, int, str, str]] = []
    _keep_what_is_there()
    swept = _side_by_side(options.jobs, partial(_swept, names, options.jobs))
    for name, tallies in zip(names, swept, strict=True):
        points = tallies[0]["points"]
        kinds = {kind for tally in tallies for kind in tally["kinds"]}
        plans = sum(tally["plans"] for tally in tallies)
        found = sorted({tuple(entry) for tally in tallies for entry in tally["violations"]})
        seconds = max(tally["seconds"] for tally in tallies)
        print(f"{name:20} {points:7} {len(kinds):6} {plans:7} {len(found):11} {seconds:8.1f}", flush=True)
        total.update(points=points, plans=plans, violations=len(found))
        failed += [(name, *entry) for entry in found]
    seconds = time.perf_counter() - started
    print(f"{'all':20} {total['points']:7} {'':6} {total['plans']:7} {total['violations']:11} {seconds:8.1f}")
    if left and not options.only:
        print(f"not swept (make faults ALL=1): {', '.join(left)}")
    for name, point, kind, text in failed[:20]:
        plan = f" --plan {point}:{kind}" if point else ""
        print(f"\n{text}\n  {COMMAND} replay {name}{plan}")
    return 1 if failed else 0


def _keep_what_is_there() -> None:
    """Look for no garbage in what was imported, and none while a world lives: each goes as a whole."""
    gc.collect()
    gc.freeze()
    gc.disable()


def _swept(names: list[str], parts: int, part: int) -> Iterator[dict[str, Any]]:
    return (_as_dict(sweep(ALL[name], part, parts)) for name in names)


def _as_dict(tally: Tally) -> dict[str, Any]:
    return {
        "points": tally.points,
        "plans": tally.plans,
        "kinds": dict(tally.kinds),
        "violations": tally.violations,
        "seconds": tally.seconds,
    }


class Endless(BaseException):
    """A schedule does not end, for something goes round in circles while no time passes. No product catches this."""


@contextmanager
def ending_within(seconds: float) -> Iterator[None]:
    """Interrupt what uses more seconds of a processor, and say where it was."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        where = "".join(traceback.format_stack(frame, limit=8)) if frame is not None else ""
        raise Endless(f"it does not end; after {seconds:g} s it was at\n{where}")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def _side_by_side(jobs: int, work: Callable[[int], Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    """The same work in several processes, each with its own part: what each says next, as soon as all have.

    None of them waits for another: all processors are busy to the end.
    """
    place()  # for all of them: a process that ends with ``os._exit`` would leave its own
    with ExitStack() as stack:
        streams = []
        for part in range(jobs):
            reading, writing = os.pipe()
            if os.fork() == 0:
                os.close(reading)
                with os.fdopen(writing, "w") as stream:
                    for answer in work(part):
                        print(json.dumps(answer), file=stream, flush=True)
                os._exit(0)
            os.close(writing)
            streams.append(stack.enter_context(os.fdopen(reading)))
        for lines in zip(*streams, strict=True):
            yield tuple(json.loads(line) for line in lines)
    for _ in range(jobs):
        os.wait()


# --- random schedules ------------------------------------------------------------------------------


def meant(seed: int, only: str | None) -> Playable:
    """The schedule of a seed: one in so many goes over days."""
    if only == DAYS or (only is None and seed % ONE_OVER_DAYS_IN == 0):
        return days(seed)
    if only == JOBS or only in JOB_SCENARIOS:
        return job_schedule(seed, None if only == JOBS else only)
    if only == GATEWAYS or only in GATEWAY_SCENARIOS:
        return gateway_schedule(seed, None if only == GATEWAYS else only)
    return schedule(seed, only)


def _fuzz(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    _keep_what_is_there()
    seeds = range(options.first, options.first + options.seeds)

    def work(part: int) -> Iterator[dict[str, Any]]:
        tally: Counter[str] = Counter()
        failed: list[int] = []
        reached: Counter[str] = Counter()
        used = time.process_time()
        reported_at = started
        for seed in seeds[part :: options.jobs]:
            if part == 0 and time.perf_counter() - reported_at > PROGRESS_SECONDS:
                reported_at = time.perf_counter()
                print(f"at seed {seed} of {seeds.stop - 1}", file=sys.stderr, flush=True)
            found = meant(seed, options.only)
            try:
                with ending_within(SCHEDULE_SECONDS):
                    verdict = found.play()
            except Endless as error:
                failed.append(seed)
                print(f"seed {seed} ({found.scenario.name}): {error}", flush=True)
                continue
            reached.update(verdict.reached)
            if tally["schedules"] % WORLDS_KEPT == 0:
                gc.collect()
            tally.update(
                schedules=1,
                days=isinstance(found, Days),
                faults=len(verdict.hit) + len(found.acts),
                points=verdict.points,
            )
            if verdict.violations:
                failed.append(seed)
                print(f"seed {seed} ({found.scenario.name}): {verdict.violations[0][:300]}", flush=True)
        yield {"tally": tally, "failed": failed, "reached": reached, "used": time.process_time() - used}

    (answers,) = _side_by_side(options.jobs, work)
    tally = sum((Counter(answer["tally"]) for answer in answers), Counter[str]())
    failed = sorted(seed for answer in answers for seed in answer["failed"])
    seconds, used = time.perf_counter() - started, sum(answer["used"] for answer in answers)
    print(
        f"{tally['schedules']} schedules with {tally['faults']} faults at {tally['points']} points:"
        f" {len(failed)} with violations, {seconds:.0f} s, {tally['schedules'] / used:.1f} for each second of a core"
    )
    if tally["days"]:
        print(table(tally["days"], sum((Counter(answer["reached"]) for answer in answers), Counter[str]())))
    for seed in failed[:5]:
        without, best = shrink(meant(seed, options.only))
        left = f" --without {','.join(without)}" if without else ""
        only = f" {options.only}" if options.only else ""
        print(f"\n{best.violations[0]}\n  {COMMAND} replay{only} --seed {seed}{left}")
    return 1 if failed else 0


# --- one of them again -----------------------------------------------------------------------------


def _replay(options: argparse.Namespace) -> int:
    if options.seed is not None:
        found = meant(options.seed, options.scenario)
        verdict = found.play([part for part in options.without.split(",") if part])
    else:
        pairs = (entry.split(":", 1) for entry in options.plan.split(",") if entry)
        verdict = play(ALL[options.scenario], Points({int(point): kind for point, kind in pairs}))
    _print(verdict)
    return 1 if verdict.violations else 0


def _print(verdict: Verdict) -> None:
    print("\n".join(verdict.notes))
    print(f"\n{verdict.points} points, {verdict.seconds:.1f} s until it had converged, {verdict.trace_hash}")
    for number, kind, label in verdict.hit:
        print(f"fault at point {number}: {kind} ({label})")
    for text in verdict.violations:
        print(f"VIOLATED {text}")


if __name__ == "__main__":
    sys.exit(main())
