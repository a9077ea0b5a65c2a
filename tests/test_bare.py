"""CI begins where only Python, git and make are: other programs are hidden, and nothing is changed outside."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.needs import NEEDS, OWN_MOUNTS, ROOT, find

pytestmark = [pytest.mark.second_tier, pytest.mark.needs("root", "namespaces")]

BASE = ("awk", "mawk", "unshare", "nsenter", "setpriv", "mount")
"""What tests name as a need, and a Debian has."""
PROGRAMS = sorted(
    {program for need in NEEDS.values() for program in need.programs if "/" not in program} - {*BASE}
)
LOOKS = 'for each in "$@"; do command -v "$each" >/dev/null && echo "$each"; done; true'


ANOTHER_AWK = """
cp -a /etc/alternatives "$1" && ln -sfn "$2" "$1/awk" && mount --bind "$1" /etc/alternatives && shift 2 && exec "$@"
"""


def seen(folder: Path, *programs: str, awk: Path | None = None) -> set[str]:
    """Which of some programs a shell finds where .ci/bare has hidden them, and `awk` is the chosen alternative."""
    chosen = (
        ("sh", "-c", ANOTHER_AWK, "chooses", str(folder.with_name("alternatives")), str(awk)) if awk else ()
    )
    hidden = (*OWN_MOUNTS, *chosen, "bash", str(ROOT / ".ci" / "bare"), str(folder))
    done = subprocess.run(
        (*hidden, "sh", "-c", LOOKS, "looks", *programs),
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return set(done.stdout.splitlines()[1:])


def test_every_program_that_tests_need_is_hidden_and_is_there_afterwards(tmp_path: Path) -> None:
    before = {program for program in PROGRAMS if find(program)}
    kept = {"python3", "git", "make", "sh", "grep", "tar", "awk"}
    assert seen(tmp_path / "layers", *PROGRAMS, *kept, "uv", "curl", "gcc") == kept
    assert {program for program in PROGRAMS if find(program)} == before


def test_an_awk_that_was_installed_later_gives_way_to_that_of_the_base(tmp_path: Path) -> None:
    later = tmp_path / "gawk"
    later.write_text('#!/bin/sh\nexec mawk "$@"\n')
    later.chmod(0o755)
    assert seen(tmp_path / "layers", "awk", "uv", awk=later) == {"awk"}
