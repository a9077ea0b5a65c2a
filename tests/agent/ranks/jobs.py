"""Ranks of jobs, started by a real agent."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconciler.remote.agent_connection import AgentConnection
from reconciler.wire.launch import JobConfig, LaunchSpec, RankId
from reconciler.wire.node import RankReport, StartRank
from tests.agent.bench import Bench, ask, ended
from tests.launcher.ranks import ROOT, config, script

JOB = RankId("job_bench", 0, 1, 0)


def spec(of: JobConfig, id: RankId = JOB) -> LaunchSpec:
    """What a controller asks for."""
    return LaunchSpec(
        id=id,
        argv=(sys.executable, "-m", "reconciler.launcher"),
        env={"PYTHONPATH": str(ROOT)},
        config=replace(config(of), id=id),
        group="wish",
    )


async def run(bench: Bench, body: str, id: RankId = JOB, **given: Any) -> tuple[AgentConnection, RankReport]:
    """Run a script to its end."""
    link = bench.links[0] if bench.links else await bench.quick_agent()
    await ask(link, StartRank(1, spec(script(body, **given), id)))
    return link, await ended(link, id)


def work(bench: Bench, id: RankId = JOB) -> Path:
    return bench.rank_directory(id) / "work"
