"""What an agent tells of a fetch while its process says how far it is, and after its end."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.weights import fetches
from reconciler.agent.weights.fetches import Fetches
from reconciler.wire.codec import to_wire
from reconciler.wire.node import FetchWeights
from reconciler.wire.paths import giving_socket, taking_socket
from reconciler.wire.weights import (
    FETCHERS_MAX,
    FetchJob,
    FetchPhase,
    FetchProblem,
    FetchSource,
    Progress,
    hub_path,
)
from tests.agent.bench import SOON_SECONDS, soon

pytestmark = pytest.mark.processes

PATH = hub_path("org/tiny", "a" * 40)
SCRIPT = """#!{python} -IS
import json, os, sys
home = {home!r}
job = json.loads(sys.stdin.readline())
with open(home + "/given", "w") as file:
    json.dump([sys.argv, job, dict(os.environ), os.getcwd(), os.getsid(0) == os.getpid()], file)
print("warnings", job["folder"], file=sys.stderr, flush=True)
for line in open(home + "/says"):
    if line == "wait\\n":
        sys.stdin.read()
    elif line.startswith("raw"):
        os.write(1, line[4:].strip().encode())
    elif line.startswith("exit"):
        sys.exit(int(line.split()[1]))
    else:
        os.write(1, line.encode())
"""


def progress(phase: str, done: int = 0, **more: Any) -> str:
    return json.dumps(to_wire(Progress(phase, done_bytes=done, **more))) + "\n"


@dataclasses.dataclass
class Place:
    """An agent's settings, whose interpreter runs what a test writes down for the fetcher to say."""

    home: Path
    node: str = "node-a"

    @property
    def directory(self) -> Path:
        return self.home

    models = run_directory = directory

    @property
    def python(self) -> str:
        return str(self.home / "python")

    def says(self, *lines: str) -> None:
        (self.home / "says").write_text("".join(lines))


class Fetching:
    """The fetches of one agent, and of each piece of news whether it was urgent."""

    def __init__(self, home: Path) -> None:
        self.place = Place(home)
        script = home / "python"
        script.write_text(SCRIPT.format(python=sys.executable, home=str(home)))
        script.chmod(0o755)
        self.news: list[bool] = []
        self.fetches = Fetches(self.place, self.news.append)

    def start(self, path: str = PATH) -> None:
        self.fetches.start(FetchWeights(1, path, FetchSource("org/tiny", "a" * 40), wish="w1"))

    @property
    def report(self) -> Any:
        found = self.fetches.report(PATH)
        assert found is not None
        return found

    async def ended(self) -> Any:
        await soon(lambda: self.fetches._last[PATH].ended_at is not None)
        return self.report


@pytest.fixture
async def fetching() -> AsyncIterator[Fetching]:
    with tempfile.TemporaryDirectory(prefix="r-") as home:  # short enough for sockets
        made = Fetching(Path(home))
        yield made
        made.fetches.close()


async def test_progress_is_news_and_a_new_phase_is_urgent(fetching: Fetching) -> None:
    fetching.place.says(
        progress(FetchPhase.FETCHING, 5), "no progress\n", progress(FetchPhase.FETCHING, 9), "wait\n"
    )
    assert fetching.fetches.report(PATH) is None
    fetching.start()
    await soon(lambda: len(fetching.news) >= 2)
    assert fetching.news == [True, False]
    assert (fetching.report.progress.done_bytes, fetching.report.wish) == (9, "w1")
    assert (fetching.report.attempts, fetching.report.ended_seconds) == (0, 0.0)
    running = fetching.fetches._last[PATH]
    fetching.start()
    assert fetching.fetches._last[PATH] is running, "one that runs goes on"
    assert running.ended_at is None


async def test_the_end_of_a_fetch_is_told_once_its_process_is_gone(fetching: Fetching) -> None:
    fetching.place.says(progress(FetchPhase.DONE, 9))
    fetching.start()
    report = await fetching.ended()
    assert (report.progress.phase, report.attempts, report.ended_seconds) == (FetchPhase.DONE, 0, 0.0)
    assert fetching.news == [True]
    process = fetching.fetches._last[PATH]._process
    assert process is not None
    assert process.returncode is not None


async def test_a_fetch_that_ends_without_a_word_has_failed_with_its_last_one(fetching: Fetching) -> None:
    fetching.place.says(progress(FetchPhase.FETCHING, 5), "exit 3\n")
    fetching.start()
    report = await fetching.ended()
    assert (report.progress.phase, report.progress.problem) == (FetchPhase.FAILED, FetchProblem.INTERRUPTED)
    words = f"the fetcher ended with status 3 before it was done: warnings {fetching.place.models / PATH}"
    assert (report.progress.text, report.progress.done_bytes) == (words, 5)
    assert fetching.news == [True, True]


async def test_tries_count_from_the_last_one_that_got_further(fetching: Fetching) -> None:
    attempts = []
    for done in (5, 5, 5, 9, 9):
        fetching.place.says(progress(FetchPhase.FETCHING, done), "exit 3\n")
        fetching.start()
        attempts.append((await fetching.ended()).attempts)
    assert attempts == [1, 2, 3, 1, 2]
    fetching.place.says(progress(FetchPhase.DONE, 10))
    fetching.start()
    assert (await fetching.ended()).attempts == 2


@pytest.mark.parametrize(("done", "told"), [(5, True), (6, False)])
async def test_the_last_failure_is_told_until_the_next_fetch_gets_further(
    fetching: Fetching, done: int, told: bool
) -> None:
    fetching.place.says(progress(FetchPhase.FETCHING, 5), "exit 3\n")
    fetching.start()
    ended = (await fetching.ended()).progress
    fetching.place.says(progress(FetchPhase.FETCHING, done), "wait\n")
    fetching.start()
    assert fetching.report.failure == ended
    await soon(lambda: fetching.report.progress.done_bytes == done)
    assert fetching.report.failure == (ended if told else None)
    fetching.fetches.close()
    fetching.fetches._last.clear()


async def test_what_has_said_its_end_and_not_ended_yet_makes_room_for_the_next(fetching: Fetching) -> None:
    fetching.place.says(progress(FetchPhase.DONE, 9), "wait\n")
    fetching.start()
    await soon(lambda: fetching.report.progress.phase == FetchPhase.DONE)
    before = fetching.fetches._last[PATH]
    assert before.ended_at is None
    fetching.start()
    assert before.ended_at is not None
    assert before._process is not None
    assert before._process.returncode is not None
    assert fetching.fetches._last[PATH] is not before


async def test_so_many_fetches_run_at_a_time_and_all_end_with_the_agent(fetching: Fetching) -> None:
    fetching.place.says("wait\n")
    for number in range(FETCHERS_MAX):
        fetching.start(hub_path("org/tiny", f"{number}" * 40))
    with pytest.raises(ValueError, match="4 fetches are already running; this one starts later"):
        fetching.start(hub_path("org/tiny", "f" * 40))
    fetching.fetches.close()
    for fetcher in fetching.fetches._last.values():
        assert fetcher._process is not None
        assert fetcher._process.returncode is not None
    fetching.fetches._last.clear()


@pytest.mark.parametrize("path", ["tiny", "hub/org--tiny", "hub/../x", "/etc/x/y"])
async def test_only_places_of_the_hub_are_fetched_to(fetching: Fetching, path: str) -> None:
    with pytest.raises(ValueError, match="expected hub/<repository>/<revision>"):
        fetching.start(path)
    with pytest.raises(ValueError, match="there are no weights at"):
        fetching.fetches.serve_to_peers(path)


async def test_without_an_interpreter_a_fetch_fails_and_says_why(fetching: Fetching) -> None:
    (fetching.place.home / "python").unlink()
    fetching.start()
    report = fetching.report
    assert (report.progress.phase, report.progress.problem) == (FetchPhase.FAILED, FetchProblem.NO_CLIENT)
    assert report.progress.text == f"{fetching.place.python} cannot be started: No such file or directory"
    assert (report.attempts, fetching.news) == (1, [True])


async def test_a_line_without_an_end_is_given_up_on(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetches, "_LINE_BYTES_MAX", 1000)
    monkeypatch.setattr(fetches, "_END_SECONDS", 0.0)
    fetching.place.says("raw " + "x" * 5000 + "\n", "wait\n")
    fetching.start()
    report = await fetching.ended()
    assert (report.progress.phase, report.progress.problem) == (FetchPhase.FAILED, FetchProblem.INTERRUPTED)
    assert report.progress.text.startswith("the fetcher ended with status -9 before it was done")


async def test_a_fetcher_has_its_job_a_home_of_its_own_and_the_way_to_the_hub(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fetching.place.home
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    monkeypatch.setenv("MINE", "is not its business")
    fetching.place.says(progress(FetchPhase.DONE, 9))
    source = FetchSource("org/tiny", "a" * 40)
    fetching.fetches.start(
        FetchWeights(
            1, PATH, source, thorough=True, from_peer=True, secret="hf_s3cr3t", only=("m.safetensors",)
        )
    )
    await fetching.ended()
    argv, job, env, directory, leads_session = json.loads((home / "given").read_text())
    assert argv[1:] == ["-m", "reconciler.fetcher"]
    socket = taking_socket(str(home), "node-a", PATH)
    assert job == to_wire(FetchJob(str(home / PATH), source, True, socket, ("m.safetensors",)))
    assert (env["HF_TOKEN"], env["HF_HOME"], env["HTTPS_PROXY"]) == (
        "hf_s3cr3t",
        str(home / "tmp" / "hub"),
        "http://proxy:1",
    )
    assert (env["TMPDIR"], env.get("MINE"), directory, leads_session) == (
        str(home / "tmp"),
        None,
        str(home),
        True,
    )
    assert env["HF_HUB_DISABLE_TELEMETRY"] == env["HF_HUB_DISABLE_PROGRESS_BARS"] == "1"
    assert (home / "tmp").stat().st_mode & 0o777 == 0o700
    fetching.start()
    await fetching.ended()
    _, job, env, *_ = json.loads((home / "given").read_text())
    assert (job["listen"], "HF_TOKEN" in env) == ("", False)


async def test_how_long_ago_a_fetch_failed_is_told(fetching: Fetching) -> None:
    fetching.place.says("exit 3\n")
    fetching.start()
    report = await fetching.ended()
    assert 0.0 <= report.ended_seconds < SOON_SECONDS
    ended_at = fetching.fetches._last[PATH].ended_at
    assert ended_at is not None
    fetching.fetches._last[PATH].ended_at = ended_at - 100.0
    assert 100.0 <= fetching.report.ended_seconds < 100.0 + SOON_SECONDS


async def test_weights_are_given_by_one_process_that_ends_with_the_agent(fetching: Fetching) -> None:
    (fetching.place.models / PATH).mkdir(parents=True)
    (fetching.place.home / "tmp").mkdir()
    (fetching.place.home / "python").write_text(
        f'#!/bin/sh\necho "$*" > {fetching.place.home}/given.new\n'
        f"mv {fetching.place.home}/given.new {fetching.place.home}/given\nexec /bin/cat\n"
    )
    fetching.fetches.serve_to_peers(PATH)
    giver = fetching.fetches._givers[PATH]
    await soon((fetching.place.home / "given").exists)
    folder, socket = fetching.place.models / PATH, giving_socket(str(fetching.place.home), "node-a", PATH)
    given = (fetching.place.home / "given").read_text()
    assert given == f"-m reconciler.fetcher.giving {folder} {socket}\n"
    fetching.fetches.serve_to_peers(PATH)
    assert fetching.fetches._givers[PATH] is giver, "one that runs goes on"
    giver.kill()
    giver.wait()
    fetching.fetches.serve_to_peers(PATH)
    again = fetching.fetches._givers[PATH]
    assert again is not giver
    fetching.fetches.close()
    assert again.returncode is not None
    fetching.fetches._givers.clear()


def test_room_is_told_in_steps_and_is_unknown_where_there_is_no_disk(tmp_path: Path) -> None:
    free, size = fetches.room(tmp_path)
    assert free is not None
    assert free % (64 * 1024 * 1024) == 0
    assert 0 <= free <= shutil.disk_usage(tmp_path).total == size
    assert fetches.room(tmp_path / "none") == (None, 0)
