"""The page on rehearsing, the commands of the sandbox, and the cases that are played on real processes agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.sandbox.commands import COMMANDS
from reconciler.state import FaultClass

ROOT = Path(__file__).parents[2]
CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (ROOT / "tests" / "e2e" / "emulated_macs" / "classes.yaml").read_text()
)
PAGE = dict(
    re.findall(
        r"^\| (C\d+) .*? \| (.*?) \| .*? \|$", (ROOT / "docs" / "rehearse.md").read_text(), re.MULTILINE
    )
)
"""By class, the cell with the commands that bring it about."""
WITHOUT_OUTPUT = ("kill",)
"""What has a group formed anew, so that it meets what was done before."""


def class_of(case: str) -> str:
    """The class of a case: ``C4`` of ``C4-late``."""
    return case.partition("-")[0]


def commands(text: str) -> list[str]:
    """The names of the sandbox's commands in a cell, or in a case."""
    return [words.split()[0] for words in re.findall(r"`([^`]+)`", text)]


def test_every_class_has_its_row_and_its_case() -> None:
    classes = sorted((fault.value for fault in FaultClass), key=lambda name: int(name[1:]))
    assert list(PAGE) == list(dict.fromkeys(map(class_of, CASES))) == classes


@pytest.mark.parametrize("fault", CASES)
def test_a_class_is_played_as_the_page_has_it(fault: str) -> None:
    played = [each.split()[0] for each in CASES[fault]["commands"]]
    shown = [name for name in played if name not in WITHOUT_OUTPUT or len(played) == 1]
    assert shown[0] in commands(PAGE[class_of(fault)])


def test_the_page_names_commands_that_there_are_with_their_words() -> None:
    named = [words.split() for cell in PAGE.values() for words in re.findall(r"`([^`]+)`", cell)]
    assert {words[0] for words in named} <= set(COMMANDS)
    beside = {"plug", "set", "kill", "slow-ssh"}
    assert set(COMMANDS) - beside <= {words[0] for words in named}


@pytest.mark.parametrize("fault", CASES)
def test_a_case_says_what_the_doctor_names_and_what_is_done(fault: str) -> None:
    case = CASES[fault]
    assert bool(case.get("finding")) != bool(case.get("event"))
    assert case["done"]
    assert {
        each.split()[0] for each in (*case["commands"], *case.get("next", []), *case.get("back", []))
    } <= set(COMMANDS)
