"""What other packagers use: the formula and the image name files that there are, and install what the project is called."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

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


# --- nothing is installed by a name that nobody owns -----------------------------------------------

INSTALLS = re.compile(
    r"(?:\b(?:pip|pipx|uv tool) install\b|\bpip\b.*\binstall\b|\buvx\b|\binject\b|\binstall\b)"
    r"[^\n]*?(?P<named>[`'\"]?mlx[-_]reconciler(?![_\\-])(?:\[\w+\])?[`'\"]?(?P<from>\s*@|==)?)"
)
"""A line that installs the product by its name. ``from`` says where from, or at which version of a named index."""
PAGES = [
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "examples/**/*",
        "reconciler/**/*.py",
        "reconciler/shipped/**/*",
        "Makefile",
    )
    for path in ROOT.glob(pattern)
    if path.is_file() and path.suffix not in (".safetensors", ".json", ".png", ".svg")
]


def by_name_alone(text: str) -> list[str]:
    """The lines that would install whatever a public index has under the product's name."""
    found = []
    for line in text.splitlines():
        match = INSTALLS.search(line)
        if match and "@" not in (match["from"] or "") and "index" not in line and "uninstall" not in line:
            found.append(line.strip())
    return found


def test_no_page_and_no_message_installs_the_product_by_its_name_alone() -> None:
    found = {str(path): by_name_alone(path.read_text(errors="replace")) for path in PAGES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("line", "stranger"),
    [
        (f"{tool} {quote}mlx-reconciler{extra}{version}{quote}", True)
        for tool in (
            "pip install",
            "pipx install",
            "uv tool install",
            "uvx --from",
            "python3 -m pip install -q",
            "install",
        )
        for quote in ("", "'", '"', "`")
        for extra in ("", "[runtime]")
        for version in ("", "==0.1.0")
    ]
    + [
        ("uv tool install 'mlx-reconciler[runtime] @ ./x.whl'", False),
        ("pip install ./mlx_reconciler-0.1.0-py3-none-any.whl", False),
        ("uv tool upgrade mlx-reconciler", False),
        ("uv tool uninstall mlx-reconciler", False),
    ],
)
def test_a_line_that_installs_a_stranger_s_package_is_found(line: str, stranger: bool) -> None:
    assert bool(by_name_alone(line)) is stranger


# --- pre-commit --------------------------------------------------------------------------------------

HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.mark.parametrize(("content", "status"), [(None, 0), ("kind: Node\nmetadata: {name: 5}\n", 1)])
def test_the_hook_of_pre_commit_judges_the_folder_of_the_manifests(
    content: str | None, status: int, tmp_path: Path
) -> None:
    (hook,) = HOOKS
    command, *words = hook["entry"].split()
    assert (command, hook["pass_filenames"]) == ("reconciler", False)
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    if content is not None:
        (tmp_path / "manifests" / "wrong.yaml").write_text(content)
    argv = [sys.executable, "-m", "reconciler", *words, *hook["args"]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=60)
    assert done.returncode == status, done.stderr
    assert re.search(hook["files"], "manifests/wrong.yaml")
