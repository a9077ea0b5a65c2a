"""What a machine and its processes use, as its own tools tell it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.agent.system.usage import RankUsage, Usage, from_vm_stat, measure, seconds_of
from tests.agent.macs import mac

VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                    17490.
Pages active:                                 468148.
Pages inactive:                               468488.
Pages speculative:                              4916.
Pages wired down:                             251554.
Pages purgeable:                                6528.
Pages occupied by compressor:                 320058.
"""


def test_this_machine_is_measured() -> None:
    measured = measure([os.getpid(), 2**22 + 1])
    assert list(measured.processes) == [os.getpid()]
    mine = measured.processes[os.getpid()]
    assert 0.1 < mine.cpu_seconds < 100_000
    assert 2**20 < mine.resident_bytes < 2**40
    assert measured.load.memory_free_bytes is not None
    assert 2**20 < measured.load.memory_free_bytes < 2**50


PS = """  501  20480   0:01.50
  502   1024  12:34.50
    -      -        -
"""


@pytest.mark.parametrize(
    ("level", "pressure"), [("1\n", "normal"), ("2\n", "warn"), ("4\n", "critical"), ("3\n", ""), ("", "")]
)
def test_a_mac_is_measured_by_its_tools(tmp_path: Path, level: str, pressure: str) -> None:
    tools = {
        "ps -o pid=,rss=,time= -p 501,502,503": PS,
        "vm_stat": VM_STAT,
        "sysctl -n kern.memorystatus_vm_pressure_level": level,
    }
    with mac(tmp_path, tools):
        measured = measure([501, 502, 503])
        assert measure([]).processes == {}
    assert measured.processes == {501: Usage(1.5, 20480 * 1024), 502: Usage(754.5, 1024 * 1024)}
    assert measured.load.memory_free_bytes == from_vm_stat(VM_STAT)
    assert measured.load.pressure == pressure


def test_a_mac_whose_tools_fail_is_measured_as_far_as_it_can_be(tmp_path: Path) -> None:
    with mac(tmp_path, dict.fromkeys(("ps nothing", "vm_stat nothing", "sysctl nothing"), "")):
        measured = measure([501])
    assert (measured.processes, measured.load.memory_free_bytes, measured.load.pressure) == ({}, None, "")


def test_free_pages_of_a_mac_are_counted_in_its_own_page_size() -> None:
    assert from_vm_stat(VM_STAT) == 16384 * (17490 + 468488 + 4916 + 6528)
    assert from_vm_stat("") is None


@pytest.mark.parametrize(
    ("shown", "seconds"),
    [
        ("0:00.03", 0.03),
        ("12:34.50", 754.5),
        ("130:00.00", 7800.0),
        ("01:02:03", 3723.0),
        ("2-01:00:00", 176400.0),
    ],
)
def test_times_of_ps_are_read_as_macos_and_linux_show_them(shown: str, seconds: float) -> None:
    assert seconds_of(shown) == seconds


def test_rates_are_between_two_looks_and_none_comes_from_one_alone() -> None:
    first = RankUsage().next(10.0, Usage(5.0, 100), tokens=50)
    assert (first.cores, first.resident_bytes, first.tokens_per_second) == (0.0, 100, 0.0)
    second = first.next(15.0, Usage(12.5, 200), tokens=150)
    assert (second.cores, second.resident_bytes, second.tokens_per_second) == (1.5, 200, 20.0)
    assert second.next(15.0, Usage(1.0, 1), tokens=1).cores == 0.0
