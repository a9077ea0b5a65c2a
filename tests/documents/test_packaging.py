"""What other packagers use: the formula and the image name files that there are, and install what the project is called."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from reconciler.cli import manual
from reconciler.cli.core.app import LISTED

from .newcomer import ROOT

PACKAGING = ROOT / "examples" / "packaging"
SHARE = ROOT / "reconciler" / "shipped" / "share"
FORMULA = (PACKAGING / "homebrew" / "reconciler.rb").read_text()
IMAGE = (PACKAGING / "Containerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (SHARE / manual.PAGE).read_text()


def test_what_is_generated_is_up_to_date() -> None:
    assert manual.main([str(SHARE), "--check"]) == 0


@pytest.mark.parametrize("name", LISTED)
def test_the_manual_page_has_every_command(name: str) -> None:
    assert re.search(rf"^\.SS reconciler {re.escape(name)}\b".replace(r"\-", r"\\-"), PAGE, re.MULTILINE)


def test_no_line_of_the_manual_page_is_an_unknown_request() -> None:
    requests = set(re.findall(r"^[.'](\S*)", PAGE, re.MULTILINE))
    assert requests == {'\\"', "TH", "SH", "SS", "TP", "PP", "B", "I", "nf", "fi"}


def test_bash_takes_its_completion() -> None:
    source = f"source {SHARE / 'reconciler.bash'} && complete -p reconciler"
    told = subprocess.run(["bash", "-c", source], capture_output=True, text=True, check=True, timeout=20)
    assert told.stdout.rstrip().endswith("reconciler")


def test_the_formula_installs_files_that_there_are() -> None:
    named = re.findall(r'_?(?:man1|completion)\.install "([^"]+)"', FORMULA)
    assert len(named) == 4
    assert [path for path in (*named, "constraints.txt") if not (ROOT / path).exists()] == []
    assert set(re.findall(r"\[(\w+)\]\"", FORMULA)) <= PROJECT["optional-dependencies"].keys()


def test_the_image_installs_the_wheel_of_the_project() -> None:
    (copied,) = re.findall(r"^COPY (.*) \S+$", IMAGE, re.MULTILINE)
    constraints, wheel = copied.split()
    assert (ROOT / constraints).exists()
    assert wheel == f"dist/{PROJECT['name'].replace('-', '_')}-*.whl"
    assert re.search(r'^ENTRYPOINT \["reconciler"\]$', IMAGE, re.MULTILINE)
