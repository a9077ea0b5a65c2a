"""Each command that the product says to type is run somewhere, or is for a person's hands, with the reason."""

from __future__ import annotations

import re

import pytest

from tests.cli.live import ROOT
from tests.cli.test_remedies import REMEDIES

from .errors import ALONE, AT_MACHINES, PUSHED, ROWS
from .for_hands import FOR_HANDS, HINTS_FOR_HANDS
from .of_a_controller import SCENES as OF_A_CONTROLLER
from .of_a_home import SCENES as OF_A_HOME
from .of_jobs import SCENES as OF_JOBS
from .test_healing import TO_TYPE
from .up import BEGINS, WHILE_IT_RUNS

HINTS = "cli/core/hints.py"
TYPED = {
    *((row.file, row.words) for row in (*ROWS, *ALONE)),
    *((place.file, place.words) for place in (*OF_A_HOME, *OF_A_CONTROLLER, *OF_JOBS)),
    *((each.file, each.words) for each in BEGINS),
    *PUSHED,
    *WHILE_IT_RUNS,
    *AT_MACHINES,
}
"""Every text whose command is typed in a state that is laid out, by file and words."""
SAID = ("planning/", "status/", "doctor/")


FOUND = {(text.file, words) for words, text in REMEDIES if not text.documents}


def is_said(file: str, words: str) -> bool:
    """Return whether a world of test_healing.py says it, and its command is typed there."""
    pattern = ".+".join(map(re.escape, re.split(r"\{[a-z]+\}", words)))
    return file.startswith(SAID) and any(re.match(f"reconciler {pattern}", each) for _, each in TO_TYPE)


def is_run(file: str, words: str) -> bool:
    if file == HINTS:
        return not words.startswith(tuple(HINTS_FOR_HANDS))
    return (file, words) in TYPED or is_said(file, words)


@pytest.mark.parametrize(("file", "words"), sorted(FOUND), ids=[f"{f}: {w}" for f, w in sorted(FOUND)])
def test_it_is_run_or_for_a_persons_hands(file: str, words: str) -> None:
    assert file == HINTS or is_run(file, words) or FOR_HANDS.get((file, words)), (
        "make the state in which it is printed, in test_healing.py or errors.py; or say in for_hands.py why nobody can"
    )


def test_nothing_is_listed_that_there_is_not() -> None:
    assert set(FOR_HANDS) <= FOUND
    assert [each for each in FOR_HANDS if is_run(*each)] == []
    assert sorted(TYPED - FOUND) == []


def test_most_are_run() -> None:
    run = [each for each in FOUND if is_run(*each)]
    assert len(run) > 175, (len(run), len(FOUND))


def test_reasons_name_tests_that_there_are() -> None:
    for reason in {*FOR_HANDS.values(), *HINTS_FOR_HANDS.values()}:
        for path in re.findall(r"tests/[a-z0-9_/]+(?:\.py)?", reason):
            assert (ROOT / path).exists(), reason
