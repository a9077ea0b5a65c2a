"""The page of operations against the verbs that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.resources.verbs import CLUSTER_KIND, REVISION_KIND, VERBS

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
TABLE = PAGE.partition("| verb | of |")[2].partition("\n\n")[0]
ROWS = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", TABLE, re.MULTILINE)
WORDS = {"the cluster": CLUSTER_KIND, "a held revision": REVISION_KIND}


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_has_the_kinds_of_a_verb_and_the_commands_that_begin_and_end_it(verb: str) -> None:
    rows = [row[1:] for row in ROWS if row[0] == verb]
    kinds = [WORDS.get(kind, kind) for of, _, _ in rows for kind in of.split(", ")]
    assert sorted(kinds) == sorted(VERBS[verb].kinds)
    assert all(re.match(rf"`(rollout )?{verb}\b", begins) for _, begins, _ in rows)
    if VERBS[verb].ended_by:
        assert all(re.search(rf"`{VERBS[verb].ended_by}\b", ends) for _, _, ends in rows)


def test_every_verb_of_the_page_exists() -> None:
    assert {row[0] for row in ROWS} == set(VERBS)
