"""How a rank begins and ends: by its environment, and with the exit status of the reason that counts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reconciler.runner import __main__ as entry
from reconciler.runner import rank
from reconciler.runner.process.watch import HURRIED_SECONDS, ORDERLY_SECONDS
from reconciler.wire.launch import CONFIG_LATER, CONFIG_VARIABLE, PROGRESS_VARIABLE, ExitCode, RankEnd
from tests.runner.ranks import configs

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    with Path(os.devnull).open() as file:
        monkeypatch.setattr("sys.stdin", file)
        yield file.fileno()


@pytest.fixture
def lived(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None]]:
    """Configurations and descriptors with which a rank was begun; each ends as a rank without memory."""
    begun: list[tuple[str, int | None]] = []

    def live(config: str, progress: int | None) -> int:
        begun.append((config, progress))
        return ExitCode.MEMORY

    monkeypatch.setattr(entry, "live", live)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", CONFIG_VARIABLE, PROGRESS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return begun


@pytest.mark.parametrize(
    ("progress", "descriptor"), [("7", 7), ("0", 0), ("", None), (None, None), ("-1", None), ("seven", None)]
)
def test_a_rank_tells_its_progress_where_its_environment_says(
    monkeypatch: pytest.MonkeyPatch,
    lived: list[tuple[str, int | None]],
    progress: str | None,
    descriptor: int | None,
) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, "/config.json")
    if progress is not None:
        monkeypatch.setenv(PROGRESS_VARIABLE, progress)
    assert entry.main() == ExitCode.MEMORY
    assert lived == [("/config.json", descriptor)]
    assert (os.environ["HF_HUB_OFFLINE"], os.environ["TRANSFORMERS_OFFLINE"]) == ("1", "1")
    assert [signal.getsignal(number) for number in SIGNALS] == [signal.SIG_IGN] * 2


def test_signals_are_ignored_too_where_a_rank_ends_by_an_error(
    monkeypatch: pytest.MonkeyPatch, lived: list[tuple[str, int | None]]
) -> None:
    def live(*_: object) -> int:
        raise ValueError("unexpected")

    monkeypatch.setattr(entry, "live", live)
    with pytest.raises(ValueError, match="unexpected"):
        entry.main()
    assert [signal.getsignal(number) for number in SIGNALS] == [signal.SIG_IGN] * 2


@pytest.mark.parametrize("told", ["/told.json", ""])
def test_a_standby_process_becomes_a_rank_when_it_is_told_how_and_ends_in_order_when_it_never_is(
    monkeypatch: pytest.MonkeyPatch,
    standard_input: int,
    lived: list[tuple[str, int | None]],
    told: str,
) -> None:
    waited: list[tuple[int, int]] = []

    def wait(stdin: int, progress: int) -> str:
        waited.append((stdin, progress))
        return told

    monkeypatch.setattr(entry, "wait_for_config", wait)
    monkeypatch.setenv(CONFIG_VARIABLE, CONFIG_LATER)
    monkeypatch.setenv(PROGRESS_VARIABLE, "5")
    assert entry.main() == (ExitCode.MEMORY if told else ExitCode.OK)
    assert (waited, lived) == ([(standard_input, 5)], [(told, 5)] if told else [])


@dataclass
class Told:
    """In place of the watch and of the pipe: keeps what they are told."""

    ending: RankEnd | None = None
    orderly_seconds: float = ORDERLY_SECONDS
    armed: bool = True
    interrupts: RankEnd | None = None
    """Raised once, while the rank is on its way out."""
    phase: str = ""
    details: list[str] = field(default_factory=list)
    bounded_to: list[int] = field(default_factory=list)
    at_once: list[int] = field(default_factory=list)

    def shim(self, descriptor: int) -> None: ...

    def start(self) -> None: ...

    def disarm(self) -> None:
        interrupts, self.interrupts = self.interrupts, None
        if interrupts is not None:
            raise interrupts
        self.armed = False

    def enter(self, phase: str) -> None:
        self.phase = phase

    def report_detail(self, text: str) -> None:
        self.details.append(text)


Live = Callable[..., tuple[int, Told]]


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standard_input: int) -> Live:
    """Run a rank whose work is scripted, and return its exit status and what it has told."""
    told = Told()

    def run(serve: Callable[[Told], Any], backend: str = "jaccl", bounded: bool = True) -> tuple[int, Told]:
        def bound(code: int) -> bool:
            told.bounded_to.append(code)
            return bounded

        def leave(code: int) -> None:
            told.at_once.append(code)

        (config, *_) = configs(tmp_path, tmp_path, 2, backend=backend)
        monkeypatch.setattr(rank, "log_to", lambda _: None)
        monkeypatch.setattr(rank, "ProgressPipe", lambda _: told)
        monkeypatch.setattr(rank, "Watch", lambda _: told)
        monkeypatch.setattr(rank, "read_config", lambda _: config)
        monkeypatch.setattr(rank, "_serve", lambda _: serve(told))
        monkeypatch.setattr(rank, "_bound_exit", bound)
        monkeypatch.setattr(rank, "_exit_at_once", leave)
        return rank.live("/config.json", None), told

    return run


def ends(end: BaseException | RankEnd, by_the_watch: RankEnd | None = None) -> Callable[[Told], RankEnd]:
    def serve(told: Told) -> RankEnd:
        told.ending = by_the_watch
        raise end

    return serve


ASKED, WEIGHTS = RankEnd(ExitCode.OK, "stopped as asked"), RankEnd(ExitCode.WEIGHTS, "no weights")
LOST = RankEnd(ExitCode.PEER_LOST, "rank 1 is gone")
ENDS: list[tuple[Callable[[Told], RankEnd], int, str]] = [
    (lambda _: ASKED, ExitCode.OK, ASKED.sentence),
    (ends(WEIGHTS), ExitCode.WEIGHTS, WEIGHTS.sentence),
    (ends(WEIGHTS, by_the_watch=LOST), ExitCode.PEER_LOST, LOST.sentence),
    (ends(RuntimeError("of the code that was interrupted"), by_the_watch=LOST), ExitCode.PEER_LOST, LOST.sentence),
    (ends(KeyboardInterrupt(), by_the_watch=LOST), ExitCode.PEER_LOST, LOST.sentence),
    (ends(MemoryError()), ExitCode.MEMORY, "this node has too little memory, while starting"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("serve", "code", "detail"),
    ENDS,
    ids=[
        "as asked",
        "by itself",
        "by the watch",
        "an error of what the watch interrupts",
        "so too",
        "memory",
    ],
)
def test_a_rank_ends_with_the_status_of_the_reason_that_counts(
    live: Live, serve: Callable[[Told], RankEnd], code: int, detail: str
) -> None:
    status, told = live(serve)
    assert (status, told.details[-1], told.bounded_to) == (code, detail, [code])
    assert not told.armed
    assert told.at_once == []


def test_an_unexpected_error_is_told_and_goes_on_to_the_log(live: Live) -> None:
    told: list[Told] = []

    def serve(of: Told) -> RankEnd:
        told.append(of)
        raise ValueError("unexpected")

    with pytest.raises(ValueError, match="unexpected"):
        live(serve)
    assert told[0].details == ["ValueError: unexpected"]
    assert told[0].bounded_to == [ExitCode.UNEXPECTED]
    assert not told[0].armed


def test_the_watch_may_end_a_rank_that_is_on_its_way_out(live: Live) -> None:
    def serve(told: Told) -> RankEnd:
        told.interrupts = LOST
        return ASKED

    status, told = live(serve)
    assert (status, told.details, told.armed) == (ExitCode.PEER_LOST, [LOST.sentence], False)


@pytest.mark.parametrize(
    ("backend", "bounded", "seconds", "at_once"),
    [
        ("jaccl", True, ORDERLY_SECONDS, []),
        ("jaccl", False, ORDERLY_SECONDS, [ExitCode.OK]),
        ("ring", True, HURRIED_SECONDS, [ExitCode.OK]),
        ("ring", False, HURRIED_SECONDS, [ExitCode.OK]),
    ],
)
def test_a_rank_leaves_at_once_where_the_system_frees_all_that_it_holds_or_where_nothing_bounds_its_exit(
    live: Live, backend: str, bounded: bool, seconds: float, at_once: list[int]
) -> None:
    status, told = live(lambda _: ASKED, backend, bounded)
    assert (status, told.orderly_seconds, told.at_once) == (ExitCode.OK, seconds, at_once)


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("before", ["1", None])
def test_all_ranks_of_a_group_synchronise_alike_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: bool, before: str | None
) -> None:
    monkeypatch.setenv(rank.FAST_SYNCH, before or "")
    if before is None:
        monkeypatch.delenv(rank.FAST_SYNCH)
    (config, *_) = configs(tmp_path, tmp_path, 2, fast_synch=wanted)
    rank._set_fast_synch(config)
    assert os.environ.get(rank.FAST_SYNCH) == ("1" if wanted else None)
