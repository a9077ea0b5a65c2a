"""``make clients``: every client against a real gateway and two real ranks. Exits with 1 where one does not show what it is to."""

from __future__ import annotations

import argparse
import dataclasses
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.e2e.cluster import Cluster

from . import agents, open_webui, sdks
from .agents import AGENT_SCRIPTS, AGENTS, Agent
from .installing import folder_of, forget_others
from .newest import compared, newest, unknown
from .open_webui import OPEN_WEBUI, WEBUI_SCRIPTS
from .outcome import Outcome, table
from .rows import SDKS, Client
from .scripts import SDK_SCRIPTS
from .world import Door, base, hold_shortly, scripted, sealed

BEGINNING = 400
"""Characters of what was wrong that are printed."""
Run = Callable[[Client, Path], Outcome]
"""From a client and an empty folder to what it showed."""


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make clients", description=__doc__)
    parser.add_argument(
        "--only", default="", help="clients whose names or surfaces have one of these, with commas"
    )
    parser.add_argument("--verbose", action="store_true", help="all of what was wrong, not the beginning")
    parser.add_argument("--keys", action="store_true", help="libraries alone, with keys and HTTPS")
    parser.add_argument(
        "--newest", action="store_true", help="the newest versions too, as PyPI and npm have them"
    )
    parser.add_argument("--webui", action="store_true", help="Open WebUI alone, which installs gigabytes")
    given = parser.parse_args()
    wanted = [word for word in given.only.lower().split(",") if word]

    def is_wanted(client: Client) -> bool:
        words = (client.name.lower(), client.surface)
        return not wanted or any(want in word for want in wanted for word in words)

    outcomes: list[Outcome] = []

    def run(client: Client, how: Run) -> None:
        for outcome in _outcomes(client, how, folder, given.newest):
            outcomes.append(outcome)
            _tell(outcome, given.verbose)

    with tempfile.TemporaryDirectory(prefix="clients-") as made:
        folder = Path(made)
        with scripted(folder, {**SDK_SCRIPTS, **AGENT_SCRIPTS, **WEBUI_SCRIPTS}) as cluster:
            if given.webui:
                run(OPEN_WEBUI, lambda client, place: open_webui.run(client, cluster, place))
            for agent in () if given.keys or given.webui else AGENTS:
                if is_wanted(agent.client):
                    run(agent.client, _of_agent(agent, cluster))
            hold_shortly(cluster, folder)
            door = sealed(cluster, folder) if given.keys else Door(base(cluster))
            for client in () if given.webui else SDKS:
                if is_wanted(client):
                    run(client, lambda client, place: sdks.run(client, cluster, place, door))
    print("\n".join(["", *table(outcomes)]))
    if given.newest:
        print("\n".join(["", *compared(outcomes)]))
        _forget(outcomes)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not outcomes else 0


def _of_agent(agent: Agent, cluster: Cluster) -> Run:
    return lambda client, place: agents.run(dataclasses.replace(agent, client=client), cluster, place)


def _outcomes(client: Client, run: Run, folder: Path, with_newest: bool) -> Iterator[Outcome]:
    """Yield what a client shows, and its newest version if that is another. A client that cannot be installed has failed."""
    yield _outcome(client, lambda: run(client, _place(folder, client)))
    if not with_newest:
        return
    try:
        other = newest(client)
    except (OSError, subprocess.SubprocessError) as error:
        yield _failed(unknown(client), f"which version is the newest? {_why(error)}")
        return
    if other != client:
        yield _outcome(other, lambda: run(other, _place(folder, other)))


def _outcome(client: Client, run: Callable[[], Outcome]) -> Outcome:
    try:
        return run()
    except (OSError, subprocess.SubprocessError) as error:
        return _failed(client, _why(error))


def _failed(client: Client, why: str) -> Outcome:
    return Outcome(client, {"text": why})


def _why(error: Exception) -> str:
    return f"{error} {getattr(error, 'stderr', None) or ''}".strip()


def _forget(outcomes: list[Outcome]) -> None:
    """Remove versions that are neither pinned nor the newest any more: each night has another one of something."""
    for kind in {outcome.client.kind for outcome in outcomes}:
        kept = [folder_of(kind, each.client.packages) for each in outcomes if each.client.kind == kind]
        forget_others(kind, kept)


def _place(folder: Path, client: Client) -> Path:
    place = folder / re.sub(r"\W+", "-", f"{client.name} {client.version}").strip("-").lower()
    place.mkdir()
    return place


def _tell(each: Outcome, verbose: bool) -> None:
    wrong = {name: why for name, why in each.features.items() if why}
    name = f"{each.client.name} {each.client.version}"
    print(f"{name}: {'ok' if not wrong else 'FAILS'} after {each.seconds:.1f} s", flush=True)
    for feature, why in wrong.items():
        text = why if verbose else why[:BEGINNING]
        print(f"  {feature}: {text}".replace("\n", "\n    "), flush=True)


if __name__ == "__main__":
    sys.exit(main())
