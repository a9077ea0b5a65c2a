"""Limits of a job's program."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reconciler.wire.launch import ExitCode
from tests.launcher.ranks import LIMITS, Launchers, script

pytestmark = pytest.mark.processes


def test_a_program_has_its_limits(launchers: Launchers) -> None:
    body = """
import json, resource as r
names = ("NOFILE", "NPROC", "FSIZE", "CORE")
print(json.dumps([r.getrlimit(getattr(r, "RLIMIT_" + name)) for name in names]))
"""
    rank = launchers.run(
        script(body, limits=replace(LIMITS, open_files=77, processes=5000, disk_bytes=1 << 24))
    )

    assert rank.end() == 0
    assert json.loads(rank.text) == [[77, 77], [5000, 5000], [1 << 24, 1 << 24], [0, 0]]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("for n in range(40): open(f'f{n}', 'wb').write(b'x' * (1 << 20))", "more than 16777216 bytes"),
        (
            "os.mkdir('a')\nos.chdir('a')\n"
            "for n in range(40): open(f'f{n}', 'wb').write(b'x' * (1 << 20))\nos.chmod('.', 0)",
            "more than 16777216 bytes",
        ),
        ("for _ in range(200): os.mkdir('d'); os.chdir('d')", "more than 128 folders"),
    ],
    ids=["many files", "a closed folder", "too deep"],
)
def test_a_program_with_too_many_files_is_ended(launchers: Launchers, body: str, reason: str) -> None:
    text = f"import os, time\n{body}\ntime.sleep(600)"
    rank = launchers.run(script(text, limits=replace(LIMITS, disk_bytes=1 << 24)))

    assert rank.end() == ExitCode.LIMIT
    assert reason in rank.detail
    assert not rank.program


def test_one_file_cannot_be_longer_than_the_quota(launchers: Launchers) -> None:
    body = """
with open("f", "wb", buffering=0) as stream:
    try:
        for _ in range(64): stream.write(b"x" * (1 << 20))
    except OSError as error:
        print(error.strerror)
"""
    rank = launchers.run(script(body, limits=replace(LIMITS, disk_bytes=1 << 24)))

    assert (rank.end(), rank.text) == (0, "File too large\n")


def test_links_and_sparse_files_are_counted_as_what_they_take(launchers: Launchers) -> None:
    body = """
import os, time
with open("f", "wb") as stream: stream.write(b"x" * (6 << 20))
for n in range(20): os.link("f", f"l{n}")
os.symlink("/usr", "usr")
with open("sparse", "wb") as stream: stream.truncate(15 << 20)
time.sleep(3)
"""
    rank = launchers.run(script(body, limits=replace(LIMITS, disk_bytes=1 << 24)))

    assert rank.end() == 0
