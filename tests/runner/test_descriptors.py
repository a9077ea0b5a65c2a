"""How many files a rank may have open."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 256))
import reconciler.runner, mlx_lm.utils
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (200, 256)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 256))
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_import_of_mlx_lm_leaves_the_limit_as_it_was_and_ends_no_process_where_it_is_low() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("100 256\n", 0), done.stderr
