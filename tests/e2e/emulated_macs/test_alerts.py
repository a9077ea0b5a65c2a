"""A real Prometheus with the rules that are shipped, beside a cluster of two emulated Macs that is broken in one way after the
other: the alerts for that fire, and no others do."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ports import free_port

from .macs import EXAMPLES, FORMED_SECONDS, macs, sandbox, served

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.nightly,
    pytest.mark.timeout(1200),
    pytest.mark.needs("prometheus"),
]

AFTER = {"ReconcilerNothingServed": "60s", "ReconcilerReplicasMissing": "60s"}
"""How long these hold before they fire: a group may be formed again until then. All others: ``SOON``."""
SOON = "3s"
READY_SECONDS, QUIET_SECONDS, FIRES_SECONDS = 60.0, 8.0, 180.0
SCRAPES = 20
SCRAPE_SECONDS_MAX = 1.0
"""Much less than Prometheus waits (10 s), on a machine that does much else."""


@dataclass
class Prometheus:
    """A server that scrapes each second."""

    port: int

    def wait_ready(self) -> None:
        until = time.monotonic() + READY_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=30).close()
                return
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.1)

    def query(self, expression: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return list(json.load(answer)["data"]["result"])

    def value(self, expression: str) -> float:
        (found,) = self.query(expression)
        return float(found["value"][1])

    def firing(self) -> list[tuple[str, str]]:
        """Each alert with what it is about."""
        labels = [each["metric"] for each in self.query('ALERTS{alertstate="firing"}')]
        about = ("node", "deployment", "class")
        return sorted(
            (each["alertname"].removeprefix("Reconciler"), *[each[name] for name in about if name in each])
            for each in labels
        )


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """The example's configuration and rules, only quicker."""
    shutil.copytree(EXAMPLES / "prometheus", folder)
    rules = yaml.safe_load((folder / "rules.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        rule["for"] = AFTER.get(rule["alert"], SOON)
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    configuration = yaml.safe_load((folder / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["scrape_configs"] = configuration["scrape_configs"][:1]
    configuration["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    port = free_port()
    words = (
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            (*words, f"--web.listen-address=127.0.0.1:{port}"), stdout=log, stderr=log, cwd=folder
        )
    try:
        made = Prometheus(port)
        made.wait_ready()
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_alerts_fire_for_what_is_broken_and_for_nothing_else(tmp_path: Path) -> None:
    with macs(tmp_path, "two-minis", console=True) as made:
        served(made, "chat", 2, "jaccl", seconds=FORMED_SECONDS)
        listening = made.home / "console.json"
        made.wait("the console to listen", listening.exists)
        console = json.loads(listening.read_text())["listen"]
        with prometheus(tmp_path / "prometheus", console) as watcher:

            def fire(*alerts: tuple[str, ...]) -> None:
                """Wait until exactly these fire, and for longer than any other takes to be soon with them."""
                seen: list[Any] = []

                def exactly() -> bool:
                    seen[:] = watcher.firing()
                    return seen == sorted(alerts)

                took = made.wait(f"{alerts} (of {seen})", exactly, FIRES_SECONDS)
                time.sleep(QUIET_SECONDS)
                assert watcher.firing() == sorted(alerts)
                print(f"{alerts or 'nothing'}: after {took:.1f} s")

            made.wait(
                "scrapes", lambda: watcher.value("count_over_time(reconciler_controller_up[5m])") >= SCRAPES
            )
            fire()
            others = 'ALERTS{alertname!="ReconcilerControllerDown"}'  # which holds until the first scrape
            assert watcher.query(f"max_over_time({others}[10m])") == [], "nothing was even pending"
            assert watcher.value("max_over_time(scrape_duration_seconds[5m])") < SCRAPE_SECONDS_MAX
            seconds = watcher.value("quantile_over_time(0.5, scrape_duration_seconds[5m])")
            count = watcher.value("scrape_samples_scraped")
            print(f"{count:.0f} series, {seconds * 1000:.1f} ms a scrape")
            assert watcher.value('sum(reconciler_deployment_ranks{phase="ready"})') == 2

            sandbox(made, "unplug", "mini-1/1")
            fire(("PersonNeeded", "C3"))
            sandbox(made, "plug", "mini-1/1")
            fire()

            sandbox(made, "partition", "mini-2")
            fire(("NodeLost", "mini-2"))
            sandbox(made, "partition", "mini-1")
            fire(("NodeLost", "mini-1"), ("NodeLost", "mini-2"), ("NothingServed", "chat"))
            sandbox(made, "partition", "mini-1", "--undo")
            sandbox(made, "partition", "mini-2", "--undo")
            fire()

            clone = tmp_path / "clone"
            git("clone", "-q", str(made.home / "cluster.git"), str(clone))
            git("-C", str(clone), "rm", "-qr", ".")
            git("-C", str(clone), "commit", "-qm", "Remove everything")
            git("-C", str(clone), "push", "-q", "-o", "allow-removal")
            fire(("RevisionHeld",))
            git("-C", str(clone), "revert", "--no-edit", "HEAD")
            git("-C", str(clone), "push", "-q")
            fire()

            remote = tmp_path / "remote.git"
            git("clone", "-q", "--bare", str(made.home / "cluster.git"), str(remote))
            made.run("source", "set", str(remote), "--interval", "5s")
            made.wait("the remote", lambda: watcher.value("reconciler_source_up") == 1)
            before = watcher.value("reconciler_source_last_success_timestamp_seconds")
            made.wait(
                "another look",
                lambda: watcher.value("reconciler_source_last_success_timestamp_seconds") > before,
            )
            remote.rename(tmp_path / "elsewhere.git")
            fire(("SourceAway",))
            (tmp_path / "elsewhere.git").rename(remote)
            fire()

            made.stop()
            fire(("ControllerDown",))


def git(*words: str) -> None:
    subprocess.run(
        ("git", "-c", "user.name=Olga", "-c", "user.email=olga@example.com", *words), check=True, timeout=60
    )
