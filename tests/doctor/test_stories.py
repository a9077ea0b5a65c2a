"""What happened to others in 2026: each public story is recognised, named, and answered with what helps.

``stories.yaml`` has one row for each:

- ``tells`` and ``source``: the story in a sentence, and who reports it. ``exo#2063`` is an issue or pull request at GitHub.
- ``says``: MLX's words, with the exit status of a rank that gets them. ``output``: a case of a probe.
- ``observed``: what the product observes, by its name in ``findings.yaml``, with the words of the finding (a regular expression).
- ``remedies``: what follows from the first of these that a group meets, and what follows when it did not help, as in
  ``healing_table.yaml``.
- ``steps``: words of what a person is asked to do. ``never``: words that nobody may read.
- ``tests``: those of other parts. ``first day``: the row of what only a Mac can tell.

The two tables that it names are compared with the code by their own tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.runner.model.mlx_errors import meaning
from reconciler.wire.launch import ExitCode
from tests.inventory.probes import cases
from tests.planning.diagnosis.test_healing_table import PINNED as HEALING

from .test_findings import PINNED as FINDINGS

ROOT = Path(__file__).parents[2]
STORIES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("stories.yaml").read_text())
FIRST_DAY = (ROOT / "docs" / "first-day-on-real-macs.md").read_text()
FIELDS = {"tells", "source", "says", "output", "observed", "remedies", "steps", "never", "tests", "first day"}

each_story = pytest.mark.parametrize("story", STORIES, ids=[story["source"] for story in STORIES])


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a row of a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


def of_persons(name: str) -> list[str]:
    """The steps of the findings, and those after all remedies were tried."""
    steps = [finding["steps"] for finding in FINDINGS[name] if finding["person"]]
    return [*steps, HEALING.get(name, {}).get("person", "")]


def test_every_story_can_be_told_and_no_field_is_misspelt() -> None:
    assert len(STORIES) == 25
    for story in STORIES:
        assert story.keys() <= FIELDS
        assert story["tells"].endswith(".")
        assert story["source"]
        assert story.keys() & {"observed", "tests", "first day"}, story["tells"]


@each_story
def test_it_is_recognised_by_what_is_observed_and_named(story: dict[str, Any]) -> None:
    for name, words in story.get("observed", {}).items():
        found = [
            f"{each['seen']}; {each['means']}"
            for each in FINDINGS[name]
            if each["class"].startswith(name.split()[0])
        ]
        assert any(re.search(words, text) for text in found), found


@each_story
def test_the_words_of_mlx_and_of_tools_are_understood(story: dict[str, Any]) -> None:
    for words, code in story.get("says", {}).items():
        assert meaning(words) == getattr(ExitCode, code)
    if "output" in story:
        assert story["output"] in {
            f"{case.tool}/{case.name}" for case in cases.load() if "facts" in case.expected
        }


@each_story
def test_what_follows_helps(story: dict[str, Any]) -> None:
    observed = story.get("observed", {})
    if "remedies" in story:
        healed = HEALING[next(name for name in observed if name in HEALING)]
        followed = [healed["remedy"], healed.get("next", {}).get("remedy", "").partition(", not now")[0]]
        assert list(filter(None, followed)) == story["remedies"]
    if "steps" in story:
        told = [text for name in observed for text in of_persons(name)]
        assert any(re.search(story["steps"], text) for text in told), told
    if "never" in story:
        read = [text for name in observed for text in texts([FINDINGS[name], HEALING.get(name)])]
        assert not [text for text in read if re.search(story["never"], text)]


@each_story
def test_what_other_parts_and_macs_have_to_show_is_there(story: dict[str, Any]) -> None:
    for test in story.get("tests", ()):
        path, _, function = test.partition("::")
        assert re.search(rf"^(async )?def {function}\(", (ROOT / path).read_text(), re.MULTILINE), test
    if "first day" in story:
        assert re.search(rf"^\| {story['first day']} \|", FIRST_DAY, re.MULTILINE)
