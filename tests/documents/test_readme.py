"""The README claims nothing that has stopped being true: neither what there is, nor what there is not yet."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from reconciler.state.faults import FaultClass

from .newcomer import ROOT

TEXT = (ROOT / "README.md").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def figures_of(command: str) -> str:
    """The middle cell of the row that names a command."""
    (row,) = [line for line in section("What nobody else has").splitlines() if f"`{command}`" in line]
    return row.split("|")[2].strip()


def no_figure_of_a_real_mac() -> bool:
    """The page of the first day on real Macs still asks what the drivers print there."""
    return "what does the driver print?" in (ROOT / "docs" / "first-day-on-real-macs.md").read_text()


def elsewhere() -> bool:
    """``tests/gateway/test_claims.py`` asks a real gateway."""
    return (ROOT / "tests" / "gateway" / "test_claims.py").exists()


MISSING: dict[str, Callable[[], bool]] = {
    "real Macs": no_figure_of_a_real_mac,
    "web page": elsewhere,
}
"""A phrase of each claim under "Not there yet", and whether the claim still holds."""


def test_each_thing_that_is_not_there_yet_is_checked() -> None:
    bullets = re.findall(r"^- (.*?)(?=\n- |\n\n|\Z)", section("Not there yet"), re.MULTILINE | re.DOTALL)
    assert len(bullets) == len(MISSING)
    for phrase in MISSING:
        assert sum(phrase in bullet for bullet in bullets) == 1, phrase


@pytest.mark.parametrize("claim", MISSING)
def test_what_is_not_there_yet_is_not_there(claim: str) -> None:
    assert MISSING[claim]()


def test_every_make_target_that_is_named_exists() -> None:
    assert set(re.findall(r"`make ([a-z-]+)", TEXT)) <= TARGETS


def test_the_number_of_classes_is_that_of_the_code() -> None:
    assert figures_of("make classes").startswith(f"all {len(FaultClass)} classes of faults")


def test_the_number_of_damaged_manifests_is_that_of_make_fuzz() -> None:
    (default,) = re.findall(r"\$\(or \$\(FUZZ\),(\d+)\)", (ROOT / "Makefile").read_text())
    assert figures_of("make fuzz").startswith(f"{int(default):,} damaged manifests")


def test_the_figure_of_the_recovery_is_that_of_the_page_on_benchmarks() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    (row,) = re.findall(r"^\| rank killed → next token: s \|.*$", page, re.MULTILINE)
    assert figures_of("make bench ONLY=recovery").split()[0] == row.split("|")[4].strip()


def test_every_picture_and_page_that_is_linked_exists() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / target).exists(), target
