"""Composes the launch of each rank of a run."""

from __future__ import annotations

from reconciler.planning.context.deadlines import RENDEZVOUS_SECONDS
from reconciler.planning.context.membership import certificate
from reconciler.planning.transport.fallback import Wiring
from reconciler.resources import Job, Jobs, Node
from reconciler.state import GroupRecord
from reconciler.state.jobs import Run
from reconciler.wire.engines import JOB
from reconciler.wire.launch import JobConfig, JobFile, JobLimits, LaunchSpec, MpiConfig, RankConfig
from reconciler.wire.node import NodeReport

from .history import History


def launch(
    run: Run, record: GroupRecord, rank: int, job: Job, node: Node, report: NodeReport, wiring: Wiring
) -> LaunchSpec:
    """Return how one rank of a run is started on its node. Secrets are added when the step is carried out."""
    size, rank_id = len(record.members), record.rank_id(rank)
    accepts = wiring.accepted_at(record.port) if rank == 0 else ()
    config = RankConfig(
        id=rank_id,
        size=size,
        model_path="",
        strategy="",
        backend=wiring.backend if size > 1 else "",
        addresses=wiring.addresses(record.port),
        control=wiring.controls_at(record.port)[rank],
        secret=certificate(record.secret),
        socket="",
        context=0,
        batch_max=0,
        rendezvous_seconds=RENDEZVOUS_SECONDS,
        devices=wiring.devices,
        also_control=accepts[1:],
        prefer_ring=wiring.ring,
        job=_program(job, node, report),
    )
    return LaunchSpec(
        id=rank_id,
        argv=JOB.argv(report.python),
        env=JOB.environment,
        config=config,
        group=record.fingerprint,
        memory_bytes=record.charges[rank],
        transport=record.transport,
        formed_for=History.of(run, record).written,
    )


def _program(job: Job, node: Node, report: NodeReport) -> JobConfig:
    spec, mpi = job.spec, job.spec.program.mpi
    program = mpi or spec.program.script
    assert program is not None
    limits, jobs = spec.limits, node.spec.jobs
    return JobConfig(
        command=program.command,
        env=spec.env,
        files=tuple(JobFile(file.name, file.data or "", file.executable) for file in spec.files),
        artifacts=spec.artifacts,
        python=report.python,
        grace_seconds=spec.grace_period,
        limits=JobLimits(limits.disk, limits.output, limits.open_files, limits.processes),
        user=(jobs.allow.user or "") if isinstance(jobs, Jobs) else "",
        mpi=MpiConfig(mpi.mpirun, mpi.options, mpi.processes) if mpi else None,
    )
