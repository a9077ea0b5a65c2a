"""One gateway serves a home; a second one leaves it alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.bootstrap import GATEWAY, Home

ROOT = Path(__file__).parents[2]


@pytest.mark.second_tier
def test_a_second_gateway_is_refused_by_name_and_says_nothing_in_the_firsts_name(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    command = [sys.executable, "-m", "reconciler", "--home", str(home.root), GATEWAY]
    with home.lock(GATEWAY):
        home.gateway.write_text("{}")
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert second.returncode == 1
    assert f"in use by another gateway (pid {os.getpid()})" in second.stderr
    assert home.gateway.read_text() == "{}"
