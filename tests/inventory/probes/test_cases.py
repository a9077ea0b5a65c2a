"""Every sample of a Mac's tools says what it was seen to say, and what is no answer is not known, with the reason."""

from __future__ import annotations

import pytest

from reconciler.inventory.probes.power import PowerSettings, power_settings
from reconciler.inventory.probes.probe import Unknown
from reconciler.inventory.probes.table import PROBES
from reconciler.inventory.probes.verbs import VerbsPort
from reconciler.wire.tools import Ending, ToolSaid

from .cases import BY_TOOL, Case, load, plain

CASES = load()
SILENT = {"find", "find_marker", "find_panics", "pgrep"}
"""Tools that say nothing where there is nothing."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.tool}-{case.name}")
def test_a_sample_says_what_is_written_beside_it(case: Case) -> None:
    read = case.probe.read(case.output)
    if isinstance(read, Unknown):
        assert case.expected.get("unknown", "facts") in read.reason
    else:
        assert {"facts": plain(read)} == case.expected


def test_every_probe_has_samples_that_it_knows_and_others_that_it_does_not() -> None:
    of_both_crash_folders = {"panic reports", "crash reports"}
    assert {probe.name for probe in BY_TOOL.values()} | of_both_crash_folders == {
        probe.name for probe in PROBES
    }
    assert {case.tool for case in CASES if case.known} == set(BY_TOOL)


@pytest.mark.parametrize("tool", sorted(BY_TOOL))
@pytest.mark.parametrize("stdout", ["", "\n", "\x00\xff\x1b[2J garbage", "garbage\n" * 3])
def test_nothing_and_garbage_are_not_known(tool: str, stdout: str) -> None:
    if tool in SILENT and not stdout:
        return
    read = BY_TOOL[tool].read(ToolSaid(Ending.ENDED, 0, stdout))
    assert isinstance(read, Unknown)
    assert read.reason.isprintable()


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_what_did_not_end_by_itself_is_not_known_and_only_a_tool_that_hangs_is_reported_as_one(
    probe: object,
) -> None:
    found = next(each for each in PROBES if each is probe)
    reads = {
        ending: found.read(ToolSaid(ending))
        for ending in ("absent", "late", "stuck", "endless", "barred", "?")
    }
    assert all(isinstance(read, Unknown) and read.reason for read in reads.values())
    assert {ending for ending, read in reads.items() if read.hung} == {"late", "stuck"}


def test_json_that_is_too_deep_to_be_read_is_not_known() -> None:
    deep = '{"SPThunderboltDataType": ' + "[" * 100_000
    assert isinstance(BY_TOOL["system_profiler"].read(ToolSaid(Ending.ENDED, 0, deep)), Unknown)
    docks = '{"receptacle_1_tag": {"receptacle_id_key": "1", "receptacle_status_key": "receptacle_connected"}, "_items": '
    nested = "[" + '{"_items": [' * 400 + "]}" * 400 + "]"
    read = BY_TOOL["system_profiler"].read(
        ToolSaid(Ending.ENDED, 0, '{"SPThunderboltDataType": [' + docks + nested + "}]}")
    )
    assert not isinstance(read, Unknown)
    assert read[0].peer is None


def test_only_a_gid_that_was_shown_to_be_there_or_not_is_believed() -> None:
    assert VerbsPort("rdma_en1").mapped_gid is None
    assert VerbsPort("rdma_en1", gids=("fe80::1",)).mapped_gid is False
    assert VerbsPort("rdma_en1", gids=("fe80::1", "::ffff:10.0.0.1")).mapped_gid is True


def test_the_index_of_a_mapped_gid_is_that_of_the_table_and_not_its_place_among_those_that_were_read() -> (
    None
):
    sparse = "hca_id:\trdma_en2\n\t\t\tGID[  0]:\t\tfe80::1\n\t\t\tGID[  7]:\t\t::ffff:10.0.0.1\n"
    read = BY_TOOL["ibv_devinfo"].read(ToolSaid(Ending.ENDED, 0, sparse))
    assert read == (VerbsPort("rdma_en2", gids=("fe80::1", "::ffff:10.0.0.1"), mapped_index=7),)


def test_whether_a_machine_sleeps_is_said_of_the_samples() -> None:
    read = {case.name: power_settings(case.output) for case in CASES if case.tool == "pmset"}
    assert {name: isinstance(each, PowerSettings) and each.sleeps for name, each in read.items()} == {
        "macbook": True,
        "mini_server": False,
        "sleep_disabled": False,
    }


def test_verbs_tools_are_asked_seldom_and_every_tool_has_a_bound_on_its_time() -> None:
    of_driver = [probe for probe in PROBES if probe.tool.startswith("ibv_")]
    assert len(of_driver) == 2
    assert all(probe.every_seconds >= 300 and probe.soonest_seconds >= 30 for probe in of_driver)
    assert all(probe.call.seconds <= 5 for probe in of_driver)
    assert all(0 < probe.call.seconds <= 40 for probe in PROBES)
