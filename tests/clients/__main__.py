"""``make clients``: every client against a real gateway and two real ranks. Exits with 1 where one does not show what it is to."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from . import agents, sdks
from .agents import AGENT_SCRIPTS, AGENTS
from .outcome import Outcome, table
from .rows import SDKS
from .scripts import SDK_SCRIPTS
from .world import Door, base, hold_shortly, scripted, sealed

BEGINNING = 400
"""Characters of what was wrong that are printed."""


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make clients", description=__doc__)
    parser.add_argument(
        "--only", default="", help="clients whose names or surfaces have one of these, with commas"
    )
    parser.add_argument("--verbose", action="store_true", help="all of what was wrong, not the beginning")
    parser.add_argument("--keys", action="store_true", help="libraries alone, with keys and HTTPS")
    given = parser.parse_args()
    wanted = [word for word in given.only.lower().split(",") if word]

    def is_wanted(*words: str) -> bool:
        return not wanted or any(want in word.lower() for want in wanted for word in words)

    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="clients-") as made:
        folder = Path(made)
        with scripted(folder, {**SDK_SCRIPTS, **AGENT_SCRIPTS}) as cluster:
            for agent in () if given.keys else AGENTS:
                if is_wanted(agent.client.name, agent.client.surface):
                    outcomes.append(agents.run(agent, cluster, _place(folder, agent.client.name)))
                    _tell(outcomes[-1], given.verbose)
            hold_shortly(cluster, folder)
            door = sealed(cluster, folder) if given.keys else Door(base(cluster))
            for client in SDKS:
                if is_wanted(client.name, client.surface):
                    outcomes.append(sdks.run(client, cluster, _place(folder, client.name), door))
                    _tell(outcomes[-1], given.verbose)
    print("\n".join(["", *table(outcomes)]))
    failed = [outcome.client.name for outcome in outcomes if not outcome.passed]
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not outcomes else 0


def _place(folder: Path, name: str) -> Path:
    place = folder / re.sub(r"\W+", "-", name).strip("-").lower()
    place.mkdir()
    return place


def _tell(each: Outcome, verbose: bool) -> None:
    wrong = {name: why for name, why in each.features.items() if why}
    print(f"{each.client.name}: {'ok' if not wrong else 'FAILS'} after {each.seconds:.1f} s", flush=True)
    for name, why in wrong.items():
        text = why if verbose else why[:BEGINNING]
        print(f"  {name}: {text}".replace("\n", "\n    "), flush=True)


if __name__ == "__main__":
    sys.exit(main())
