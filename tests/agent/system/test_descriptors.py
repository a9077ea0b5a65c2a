"""An agent that launchd or SSH started with 256 descriptors gives its ranks more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from reconciler.agent.system.descriptors import WANTED

_TRY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from reconciler.agent.system.descriptors import raise_limit
print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [(256, 12000, WANTED), (256, 1000, 1000), (11000, 12000, 11000), (1000, 1000, 1000)],
)
def test_the_soft_limit_is_raised_as_far_as_the_hard_one_allows_and_never_lowered(
    soft: int, hard: int, expected: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TRY, str(soft), str(hard)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(expected), str(expected), str(hard)]
