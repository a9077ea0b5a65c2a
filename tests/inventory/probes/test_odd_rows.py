"""One odd row of a list costs itself: all other rows are read as they are without it.

``netstat`` is left out on purpose: a route that is not understood may be the network that a port must not have.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.inventory.probes.management import Reports
from reconciler.inventory.probes.probe import Unknown
from reconciler.wire.tools import Ending, ToolSaid

from .cases import BY_TOOL, load, plain

SAMPLES = {(case.tool, case.name): case for case in load()}
BETWEEN_ROWS = {
    ("networksetup_ports", "m5_max"): r"^(?=Hardware Port: )",
    ("networksetup_ports", "two_equal_adapters"): r"^(?=Hardware Port: )",
    ("networksetup_order", "order"): r"^(?=\([0-9*]+\) )",
    ("ifconfig", "all"): r"^(?=\S)",
    ("ifconfig", "all_kinds"): r"^(?=\S)",
    ("ibv_devices", "m5_max"): r"^",
    ("ibv_devinfo", "active"): r"^(?=hca_id:)",
    ("find", "panics_and_crashes"): r"^",
    ("pgrep", "some"): r"^",
}
"""By sample, the places between its rows."""
ODD = st.one_of(
    st.sampled_from(
        [
            "?", "Hardware Port:\nDevice:\n\n", "Hardware Port: \u96f7\u96f3 1\nDevice: (null)\n\n",
            "(7) Odd\n(Hardware Port: Odd)\n", "en99: no flags\n\tinet 192.0.2.9\n", "hca_id:\n\tstate: PORT_DOWN (1)\n",
            "    rdma_en99", "    rdma_en99 ? ?", "hca_id: odd\n\tGID[  x]: none\n",
        ]
    ),
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1).map(lambda text: f"#{text}"),
)  # fmt: skip


@pytest.mark.parametrize("sample", sorted(BETWEEN_ROWS), ids="-".join)
@given(st.data())
def test_a_list_with_one_odd_row_anywhere_still_has_all_other_rows(
    sample: tuple[str, str], data: st.DataObject
) -> None:
    case, odd = SAMPLES[sample], data.draw(ODD)
    places = [at.start() for at in re.finditer(BETWEEN_ROWS[sample], case.output.stdout, re.MULTILINE)]
    at, text = data.draw(st.sampled_from(places)), case.output.stdout
    read = case.probe.read(replace(case.output, stdout=f"{text[:at]}{odd}\n{text[at:]}"))
    assert not isinstance(read, Unknown), read.reason
    assert all(row in rows(read) for row in rows(case.probe.read(case.output)))


ODD_BUSES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, 7, "bus", [], {}, {"receptacle_1_tag": None}, {"receptacle_1_tag": {}}]),
    st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3),
)


@pytest.mark.parametrize("name", ["dock_mac_free", "idle", "behind_dock"])
@given(st.data())
def test_one_odd_bus_costs_no_other_receptacle(name: str, data: st.DataObject) -> None:
    case = SAMPLES["system_profiler", name]
    said = json.loads(case.output.stdout)
    buses = said["SPThunderboltDataType"]
    buses.insert(data.draw(st.integers(0, len(buses))), data.draw(ODD_BUSES))
    read = case.probe.read(replace(case.output, stdout=json.dumps(said)))
    assert read == case.probe.read(case.output)


TWICE: dict[str, tuple[str, str]] = {
    "ifconfig": ("en{}: flags=8863<UP> mtu 1500\n\tinet 192.0.2.{}\n\tstatus: active\n", "name"),
    "ibv_devinfo": ("hca_id: rdma_en{}\n\tstate: PORT_ACTIVE (4)\n\tGID[  0]: ::ffff:192.0.2.{}\n", "device"),
}
"""A row with its key, and a value that differs."""


@pytest.mark.parametrize("tool", sorted(TWICE))
@given(keys=st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_of_a_row_that_is_listed_several_times_only_the_key_is_known(tool: str, keys: list[int]) -> None:
    row, name = TWICE[tool]
    text = "".join(row.format(key, at) for at, key in enumerate(keys, 1))
    read = BY_TOOL[tool].read(ToolSaid(Ending.ENDED, 0, text))
    found = {each[name]: {**each, name: None} for each in plain(read)}
    assert not isinstance(read, Unknown), read.reason
    assert len(found) == len(read) == len(set(keys))
    nothing = dict.fromkeys(next(iter(found.values())))
    for key in set(keys):
        known = next(each for label, each in found.items() if label.endswith(f"en{key}"))
        assert (known == nothing) == (keys.count(key) > 1)


def test_of_a_receptacle_that_is_listed_twice_only_the_number_is_known() -> None:
    case = SAMPLES["system_profiler", "dock_mac_free"]
    said = json.loads(case.output.stdout)
    said["SPThunderboltDataType"].append(said["SPThunderboltDataType"][0])
    read, before = (
        case.probe.read(replace(case.output, stdout=json.dumps(said))),
        case.probe.read(case.output),
    )
    assert not isinstance(read, Unknown)
    assert not isinstance(before, Unknown)
    differing = [one for one, other in zip(read, before, strict=True) if one != other]
    assert [(port.domain, port.connected, port.peer) for port in differing] == [("", None, None)]


def rows(read: Any) -> tuple[Any, ...]:
    """The rows of a list, whatever they are."""
    return (*read.panics, *read.crashes) if isinstance(read, Reports) else tuple(read)
