"""The artifacts of jobs: each request is answered by a process of the user to whom the files belong."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from reconciler.wire.codec import Refused
from reconciler.wire.job_user import started_as
from reconciler.wire.launch import LaunchSpec, RankId
from reconciler.wire.node import (
    ARTIFACT_BYTES_MAX,
    ARTIFACTS_MAX,
    Artifact,
    ArtifactPiece,
    Artifacts,
    ReadArtifact,
)
from reconciler.wire.paths import WORK, job_place

from . import artifact_reader

ANSWER_SECONDS = 60.0
_BOOT = (
    "import os,sys\n"
    "n,s=int(sys.argv[1]),b''\n"
    "while len(s)<n: s+=os.read(0,n-len(s)) or sys.exit(1)\n"
    "exec(compile(s,'artifacts','exec'))"
)


def listing(directory: Path, spec: LaunchSpec) -> Any:
    """Return ``Artifacts``, or ``Refused``. It blocks."""
    answer = _ask(directory, spec, {"files_max": ARTIFACTS_MAX})
    if isinstance(answer, Refused):
        return answer
    files = tuple(Artifact(str(path), int(size), float(at)) for path, size, at in answer["files"])
    return Artifacts(files, tuple(map(str, answer["problems"])))


def piece(directory: Path, spec: LaunchSpec, message: ReadArtifact) -> Any:
    """Return an ``ArtifactPiece``, or ``Refused``. It blocks."""
    bytes_max = min(message.bytes_max, ARTIFACT_BYTES_MAX)
    request = {"path": message.path, "offset": message.offset, "bytes_max": bytes_max}
    answer = _ask(directory, spec, request)
    if isinstance(answer, Refused):
        return answer
    if answer is None:
        return Refused("NotFound", "{!r} is no artifact of {}".format(message.path, spec.id))
    return ArtifactPiece(str(answer["data"]), int(answer["size"]))


def unknown(id: RankId) -> Refused:
    """Return the answer about a rank that is not here, or belongs to no job."""
    return Refused("NotFound", "there is no rank {} of a job on this node".format(id))


def _ask(directory: Path, spec: LaunchSpec, request: Any) -> Any:
    job = spec.config.job
    if job is None:
        return unknown(spec.id)
    work = str(Path(job_place(str(directory), job.user, os.geteuid())) / WORK)
    source = _source()
    try:
        words, arguments = started_as(job.user)
        command = [*words, job.python, "-I", "-S", "-c", _BOOT, str(len(source))]
        done = subprocess.run(
            command,
            input=source + json.dumps({**request, "work": work, "patterns": list(job.artifacts)}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"LC_ALL": "C.UTF-8"},
            cwd="/",
            timeout=ANSWER_SECONDS,
            check=True,
            **arguments,
        )
        return json.loads(done.stdout)
    except (KeyError, OSError, ValueError, subprocess.SubprocessError) as error:
        return Refused("Failed", "the artifacts of {} cannot be read: {}".format(spec.id, error))


def _source() -> bytes:
    """Return the source of the reader, which is in a file or in the agent's archive."""
    loader = artifact_reader.__spec__.loader if artifact_reader.__spec__ else None
    text = loader.get_source(artifact_reader.__name__) if loader is not None else None  # type: ignore[attr-defined]
    assert text is not None
    return str(text).encode()
