"""The product as people install it: from a wheel, into an environment of its own, without a clone."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import wheels

pytestmark = pytest.mark.e2e

QUESTION = "What is reconciler?"


@pytest.fixture(scope="module")
def folder_of_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of the product and of what it needs."""
    return wheels.of_this_version(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def short() -> Iterator[Path]:
    """An empty folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="i-") as made:
        yield Path(made)


def test_two_commands_lead_from_a_wheel_to_an_answer(folder_of_wheels: Path, short: Path) -> None:
    command = wheels.environment_with(short / "env", wheels.of_product(folder_of_wheels), folder_of_wheels)
    told = subprocess.run(
        [command, "--home", short / "home", "quickstart", "--once", QUESTION],
        cwd=short,
        env=wheels.without_network(folder_of_wheels),
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    question, _, answer = told.stdout.partition(f"> {QUESTION}\n")
    assert "5 objects committed" in question
    assert answer.startswith("reconciler is a ")
    assert answer.rstrip().endswith("stopped")
