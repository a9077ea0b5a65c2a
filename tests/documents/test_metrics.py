"""The page of metrics has the series of the code; rules and dashboards name no others, and fire for what they are for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.console.exposition import UP, UP_TEXT
from reconciler.status.series import FAMILIES

from .newcomer import ROOT

PAGE = (ROOT / "docs" / "metrics.md").read_text()
PROMETHEUS = ROOT / "examples" / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "rules.yaml").read_text())["groups"][0]["rules"]
NAMES = {UP, *(family.name for family in FAMILIES)}


def rows(first: str) -> list[tuple[str, ...]]:
    """The cells of the table with this heading."""
    table = PAGE.split(f"\n| {first} |")[1].split("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in table]


def named(text: str) -> set[str]:
    return set(re.findall(r"\breconciler_[a-z0-9_]+", text))


def test_the_page_has_every_series_with_its_labels_and_no_other() -> None:
    families = [(UP, (), UP_TEXT), *((each.name, each.labels, each.text) for each in FAMILIES)]
    wanted = [
        (f"`{name}`", ", ".join(f"`{label}`" for label in labels), text) for name, labels, text in families
    ]
    assert rows("metric") == wanted


def test_the_page_has_every_alert_and_when_it_fires() -> None:
    assert [(name.strip("`"), after) for name, _, after in rows("alert")] == [
        (r["alert"], r["for"]) for r in RULES
    ]


@pytest.mark.parametrize(
    "file",
    [
        PROMETHEUS / "rules.yaml",
        PROMETHEUS / "rules_test.yaml",
        ROOT / "examples" / "grafana" / "cluster.json",
    ],
    ids=lambda path: path.name,
)
def test_rules_and_dashboard_name_series_that_there_are(file: Path) -> None:
    used = named(file.read_text())
    assert used
    assert used <= NAMES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do_first(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("Reconciler")
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert re.search(r"\breconciler [a-z]", rule["annotations"]["todo"])


@pytest.mark.needs("promtool")
@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", "rules.yaml"),
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "rules_test.yaml"),
    ],
)
def test_promtool_is_content(words: tuple[str, ...]) -> None:
    done = subprocess.run(("promtool", *words), cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.second_tier
@pytest.mark.needs("promtool")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_the_tests_of_the_rules_miss_each_that_is_gone(rule: dict[str, Any], tmp_path: Path) -> None:
    others = [each for each in RULES if each is not rule]
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "reconciler", "rules": others}]})
    )
    (tmp_path / "rules_test.yaml").write_text((PROMETHEUS / "rules_test.yaml").read_text())
    command = ("promtool", "test", "rules", "rules_test.yaml")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert rule["alert"] in done.stdout + done.stderr
