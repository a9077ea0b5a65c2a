"""The README claims nothing that is false: neither what there is, nor what there is not yet. And a claim that becomes false is
found, which is tried by turning each one around."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import claims
from .newcomer import ROOT

TEXT = (ROOT / "README.md").read_text()
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "kinds").glob("*.md")])


def test_no_claim_of_the_readme_is_false() -> None:
    assert claims.false_claims(TEXT) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_page_says_that_there_is_not_what_there_is(page: Path) -> None:
    text = page.read_text()
    assert claims.false_denials(text) == []
    assert claims.false_targets(text) == []


# --- turned around ---------------------------------------------------------------------------------


def turned() -> Iterator[tuple[str, str]]:
    """Yield a name for each claim that can be turned around, and the README with that one false."""
    for pattern, what in (
        (r"(?:^|`|\$ |\()reconciler ([a-z-]+)", "command"),
        (r"(?:^|`)make ([a-z-]+)", "target"),
        (r"\]\(([\w./#-]+)\)", "link"),
        (r"reconciler [^\n`]*?(--[a-z-]+)", "option"),
        (r"Python (3\.\d+)", "Python"),
    ):
        for found in re.finditer(pattern, TEXT, re.MULTILINE):
            wrong = f"{found[1]}x" if what != "Python" else "3.8"
            yield (
                f"{what} {found[1]} at {found.start()}",
                TEXT[: found.start(1)] + wrong + TEXT[found.end(1) :],
            )
    for command, figure in claims.rows(TEXT).items():
        for place in re.finditer(r"\d(?=\D|$)", figure):
            wrong = figure[: place.start()] + str((int(place[0]) + 1) % 10) + figure[place.end() :]
            yield f"figure {place.start()} of {command}", TEXT.replace(f"| {figure} |", f"| {wrong} |")


TEMPLATES = (
    "There is no {}.",
    "There is still no {} in this version.",
    "{} is not there yet.",
    "{} is not implemented.",
    "A {} does not exist.",
    "No {} yet.",
    "It has no {} yet.",
)


@pytest.mark.parametrize(("claim", "text"), [pytest.param(*each, id=each[0]) for each in turned()])
def test_a_claim_that_became_false_is_found(claim: str, text: str) -> None:
    assert text != TEXT, claim
    assert claims.false_claims(text), claim


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_denial_of_what_there_is_is_found(template: str) -> None:
    assert len(claims.features()) >= 100
    for feature in claims.features():
        sentence = template.format(feature)
        assert claims.false_denials(sentence), sentence
    assert claims.false_claims(f"{TEXT}\n{sentence}\n"), sentence


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("absent", ["`reconciler fly`", "`Pod`", "`make coffee`", "role", "namespace"])
def test_a_denial_of_what_there_is_not_is_none(template: str, absent: str) -> None:
    assert claims.false_denials(template.format(absent)) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Where there is no console, type the URL.",
        "If there is no `Gateway`, nothing listens.",
        "It waits as long as there is no `Node`.",
    ],
)
def test_a_case_is_no_denial(sentence: str) -> None:
    assert claims.false_denials(sentence) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(
            "## Not there yet\n\n", "## Not there yet\n\n- Nothing works on Tuesdays.\n"
        ),
        lambda text: re.sub(r"- Nothing here has run on real Macs.*\n", "", text),
        lambda text: text.replace("pip install openai", "the package openai"),
        lambda text: re.sub(r"^\| \*\*Fast recovery.*\n", "", text, flags=re.MULTILINE),
        lambda text: text.replace("`make soak` |", "`make wash` |"),
    ],
    ids=[
        "a claim without a proof",
        "a proof without a claim",
        "a package",
        "a row that is gone",
        "another command",
    ],
)
def test_what_is_left_out_or_added_is_found(change: object) -> None:
    assert callable(change)
    changed = change(TEXT)
    assert changed != TEXT
    assert claims.false_claims(changed)
