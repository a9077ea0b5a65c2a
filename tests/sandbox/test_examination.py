"""Emulated Macs are examined over their SSH: one as it is delivered, one that is ready, and one whose disk is locked."""

from __future__ import annotations

import asyncio
import time

import pytest

from reconciler.errors import Barred, Silent
from reconciler.inventory.examination.record import parse
from reconciler.inventory.examination.report import Report, report
from reconciler.inventory.examination.script import SECONDS_MAX, script
from reconciler.remote.nodes import introduction
from reconciler.sandbox.world import changes

from .test_machines import SECONDS, Two, two

pytestmark = pytest.mark.second_tier


async def examined(bench: Two, name: str, *words: str) -> Report:
    """As soon as it answers: some changes restart it."""
    deadline = time.monotonic() + SECONDS
    while True:
        access = bench.access(name).ssh
        assert access is not None
        try:
            text = await introduction.examine(access, script(), (*words, "-"), SECONDS_MAX)
            return report(name, parse(text, name))
        except Silent as error:
            if isinstance(error, Barred) or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


def failed(found: Report) -> dict[str, str]:
    return {
        each.precondition.name: each.verdict.value
        for each in found.judgements
        if each.verdict not in ("pass", "n/a")
    }


async def test_a_new_mac_fails_by_what_it_lacks_and_passes_when_that_is_done() -> None:
    async with two() as bench:
        await bench.do("rdma", "off", "n1")
        await bench.do("set", "n1", "filevault=on", "updates=on")
        found = await examined(bench, "n1")
        assert failed(found) == dict.fromkeys(("RDMA", "FileVault", "updates", "addresses"), "fail")
        assert found.record.over_ssh
        await bench.do("set", "n1", "filevault=off", "updates=off")
        await bench.do("rdma", "on", "n1")
        bench.sandbox.world = changes.addressed(bench.sandbox.world)
        assert failed(await examined(bench, "n1")) == {}


async def test_the_driver_is_left_alone_while_something_holds_it_and_a_tool_that_hangs_holds_nothing_up() -> (
    None
):
    async with two() as bench:
        await bench.do("exhaust-pd", "n1", "3")
        found = await examined(bench, "n1")
        assert "RDMA ports" in found.record.left_out
        await bench.do("wedge-verbs", "n1")
        found = await examined(bench, "n1", "--verbs")
        assert found.facts.verbs_answer is False


async def test_a_locked_disk_is_named_with_the_line_to_type() -> None:
    async with two() as bench:
        await bench.do("set", "n1", "filevault=on")
        await bench.do("reboot", "n1", "1")
        with pytest.raises(Barred, match="type the password") as raised:
            await examined(bench, "n1")
        assert raised.value.code == "DiskLocked"
