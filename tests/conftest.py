"""For all tests: properties are checked on machines that are busy with other things.

With fewer examples than a property asks for, they are the same ones each time: what fails then, fails again.
Beside other tests, an example that fails is told as it was drawn, with a line that repeats it: to look for the smallest one
may take longer than a test has. Without ``-n``, the smallest one is looked for.
"""

import gc
import os
import re
import signal
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler import LoadScopeScheduling

from tests.changes import changed_rooms, is_changed
from tests.deadline import Deadline, Deaths
from tests.examples import PERCENT, examples
from tests.needs import LeavingOut, Undeclared

BESIDE_OTHERS = "PYTEST_XDIST_WORKER" in os.environ
settings.register_profile(
    "reconciler",
    deadline=None,
    max_examples=examples(100),
    derandomize=PERCENT < 100,
    phases=[phase for phase in Phase if phase is not Phase.shrink or not BESIDE_OTHERS],
    print_blob=True,
    **({"database": None} if BESIDE_OTHERS else {}),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("reconciler")

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell has what it starts in the background ignore Ctrl-C, and the commands under test would inherit that."""

CLUSTER_FOLDERS = ("e2e", "hosts")
"""Folders whose tests are of the second tier, but for those that say ``first_tier``."""

FIRST_TIER = "not second_tier and not nightly"
"""The markers that `make test` asks for."""

TIME_ZONE = "TST-5:45"
"""Of the first tier, as POSIX writes one that is 5 h 45 min ahead: in UTC, a forgotten time zone would change nothing."""

OF_ANOTHER_TIER = re.compile(r"^pytestmark = .*\bpytest\.mark\.(second_tier|nightly)\b", re.MULTILINE)
OF_PROCESSES = re.compile(r"^pytestmark = .*\bpytest\.mark\.processes\b", re.MULTILINE)

CHANGED = pytest.StashKey[frozenset[str]]()
"""The rooms whose tests of processes belong to the first tier."""
CHANGED_ROOMS = "changed_rooms"

SHARED_CLUSTER = "tests/e2e/shared_cluster"
"""The files of this folder use one cluster, brought to rest between tests."""

SHARE_NOTHING = (
    "tests/agent/ranks/test_deaths_of_agent_and_shim.py",
    "tests/bench/test_bench.py",
    "tests/e2e/emulated_macs/test_examples_on_macs.py",
    "tests/e2e/test_hub.py",
    "tests/e2e/test_rehearse.py",
    "tests/e2e/test_up.py",
    "tests/e2e/test_upgrade.py",
    "tests/simulation/test_days.py",
    "tests/simulation/test_faults.py",
)
"""Long files whose tests have nothing in common, such as a cluster: any worker may take one of them."""

LONGEST = (
    SHARED_CLUSTER,
    "tests/console/browser/test_emulated_macs.py",
    "tests/e2e/test_faults.py",
    "tests/hosts/test_weights.py",
    "tests/hosts/test_three_hosts.py",
    "tests/documents/test_documents_run.py",
    "tests/e2e/test_store_loss.py",
    "tests/e2e/test_rolling.py",
    "tests/e2e/emulated_macs/test_four_studios.py",
    "tests/console/browser/test_quickstart.py",
)
"""What takes minutes, one test after the other: were it begun last, one worker would go on with it alone."""

os.environ.setdefault("UV_SYSTEM_CERTS", "1")
"""Of the tests that download something: pip trusts them as well."""

os.environ.pop("COLUMNS", None)
"""Workers of pytest-xdist are told how wide the terminal is; the commands under test are not to know."""


gc.disable()
"""Until all tests are collected: nothing of thousands of tests is garbage, and the collector would look at it again and again."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules unread that have no test of the first tier: what they import takes seconds in each process."""
    if config.option.markexpr != FIRST_TIER or not fnmatch(collection_path.name, "test_*.py"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    path = collection_path.relative_to(config.rootpath).as_posix()
    of_a_cluster = _needs_cluster(path) and "first_tier" not in text
    of_processes = OF_PROCESSES.search(text) and not is_changed(config.stash[CHANGED], path)
    return bool(of_a_cluster or OF_ANOTHER_TIER.search(text) or of_processes) or None


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give whole clusters and processes their tier, and begin with what takes longest."""
    changed = config.stash[CHANGED]
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        of_processes = "processes" in marks and not is_changed(changed, item.nodeid)
        if (_needs_cluster(item.nodeid) or of_processes) and not {"first_tier", "nightly"} & marks:
            item.add_marker("second_tier")
    items.sort(key=_precedence)


def _unit(nodeid: str) -> str:
    """What one worker runs whole: a file, all files that share a cluster, or a test that shares nothing."""
    file = nodeid.partition("::")[0]
    if file.startswith(f"{SHARED_CLUSTER}/"):
        return SHARED_CLUSTER
    return nodeid if file in SHARE_NOTHING else file


def _precedence(item: pytest.Item) -> int:
    """Lower is earlier; tests of one file stay in their order."""
    unit = _unit(item.nodeid)
    return LONGEST.index(unit) if unit in LONGEST else len(LONGEST) + (not _needs_cluster(item.nodeid))


class ByUnit(LoadScopeScheduling):  # type: ignore[misc]
    """Files are run whole by one worker, and by the same one where they share a cluster."""

    def _split_scope(self, nodeid: str) -> str:
        return _unit(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByUnit:
    return ByUnit(config, log)


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == FIRST_TIER:
        os.environ["TZ"] = TIME_ZONE
        time.tzset()
    given = getattr(config, "workerinput", {}).get(CHANGED_ROOMS)
    config.stash[CHANGED] = changed_rooms(config.rootpath) if given is None else frozenset(given)
    config.pluginmanager.register(LeavingOut(config), "leaving-out")
    config.pluginmanager.register(Undeclared(), "undeclared")
    config.pluginmanager.register(Deadline(), "deadline")
    config.pluginmanager.register(Deaths(config), "deaths")


def pytest_configure_node(node: Any) -> None:
    """Have each process of a run choose the same tests, whatever is edited meanwhile."""
    node.workerinput[CHANGED_ROOMS] = sorted(node.config.stash[CHANGED])


def _needs_cluster(nodeid: str) -> bool:
    return nodeid.startswith(tuple(f"tests/{folder}/" for folder in CLUSTER_FOLDERS))
