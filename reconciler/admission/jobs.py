"""Finds the jobs that a revision could run and that the one before could not. Pure.

A Job is code: a person who changes it, or a Node that allows it, runs programs on these machines. A job that no Node allows
runs nothing, so that it needs no permission until a Node allows it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from reconciler.resources import Job, Manifest, Node
from reconciler.resources.registry import RUN
from reconciler.state.desired import JobToRun
from reconciler.state.identity import JobName, NodeName
from reconciler.state.job_fingerprint import fingerprint

ANY = f"{RUN}*"
"""The word that permits all jobs."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A job where it could run."""

    job: Job
    node: NodeName
    mark: str


def runnable(manifests: Iterable[Manifest]) -> frozenset[str]:
    """Return marks of everything that jobs could run. Two marks are equal exactly if the same job runs the same program
    at the same times as the same user."""
    return frozenset(place.mark for place in _places(manifests))


def new_jobs(
    before: Collection[str], incoming: Iterable[Manifest], said: Collection[str]
) -> tuple[JobToRun, ...]:
    """Return the jobs that ``incoming`` could run and that nobody has named, sorted by name. ``before``: the marks of what
    could run before; ``said``: ``run/NAME`` for each job that a commit or its pusher permits, ``run/*`` for all."""
    found: dict[JobName, list[_Place]] = {}
    for place in _places(incoming):
        name = JobName(place.job.metadata.name)
        if place.mark not in before and not {ANY, RUN + name} & {*said}:
            found.setdefault(name, []).append(place)
    return tuple(
        JobToRun(name, _command(places[0].job), tuple(sorted(place.node for place in places)))
        for name, places in sorted(found.items())
    )


def _places(manifests: Iterable[Manifest]) -> Iterator[_Place]:
    manifests = tuple(manifests)
    jobs = [each for each in manifests if isinstance(each, Job)]
    nodes = [each for each in manifests if isinstance(each, Node)] if jobs else []
    allowing = [(node, allowed) for node in nodes if (allowed := node.spec.jobs_allowed) is not None]
    for job in jobs if allowing else ():
        spec = job.spec
        runs = [job.metadata.name, fingerprint(job), spec.schedule, spec.time_zone]
        for node, allowed in allowing:
            if allowed.names(spec.manifest_path):
                mark = hashlib.sha256(json.dumps([*runs, allowed.user]).encode()).hexdigest()[:16]
                yield _Place(job, NodeName(node.metadata.name), mark)


def _command(job: Job) -> tuple[str, ...]:
    program = job.spec.program
    if program.script is not None:
        return program.script.command
    assert program.mpi is not None, "a program has one of both"
    return (program.mpi.mpirun, *program.mpi.options, *program.mpi.command)
