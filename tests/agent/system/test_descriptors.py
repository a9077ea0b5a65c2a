"""An agent that launchd or SSH started with 256 descriptors gives its ranks more."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from reconciler.agent import serving

pytestmark = pytest.mark.processes

_TRY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from reconciler.agent import serving
serving.DESCRIPTORS_WANTED = 200
print(serving.raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [(64, 300, 200), (64, 100, 100), (250, 300, 250), (100, 100, 100)],
)
def test_the_soft_limit_is_raised_as_far_as_the_hard_one_allows_and_never_lowered(
    soft: int, hard: int, expected: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TRY, str(soft), str(hard)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(expected), str(expected), str(hard)]


def test_where_the_system_refuses_the_limit_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS refuses more than ``kern.maxfilesperproc``, which may be below the hard limit."""

    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    assert serving.raise_limit() == 256
