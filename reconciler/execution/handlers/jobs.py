"""The parts of steps that only jobs have: their secrets and their artifacts."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reconciler.errors import Invalid, Refused
from reconciler.execution import artifacts
from reconciler.execution.tools import Tools
from reconciler.resources import TokenRef
from reconciler.secret_files import find_secret
from reconciler.state import NodeName, StartRank
from reconciler.state.job_steps import FetchArtifacts
from reconciler.wire.launch import LaunchSpec, RankId
from reconciler.wire.node import ListArtifacts, ReadArtifact

from .requests import ask


def with_secrets(step: StartRank, tools: Tools) -> LaunchSpec:
    """Return the launch of a rank; of a job, with the values of its secrets. Raises ``Refused`` if one is missing."""
    config = step.spec.config
    if config.job is None or not step.secrets:
        return step.spec
    found = {variable: _value(variable, ref, tools) for variable, ref in step.secrets}
    return replace(step.spec, config=replace(config, job=replace(config.job, secrets=found)))


def _value(variable: str, ref: TokenRef, tools: Tools) -> str:
    try:
        return find_secret(ref.file, ref.env, tools.hub.environment)
    except Invalid as error:
        raise Refused("SecretMissing", f"spec.secrets.{variable}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Agents:
    """The agents of nodes, as sources of artifacts."""

    tools: Tools

    async def listed(self, node: NodeName, rank: RankId) -> tuple[Sequence[tuple[str, int]], Sequence[str]]:
        link, _ = self.tools.links.link(node)
        found = await ask(self.tools, link, ListArtifacts(rank))
        return [(file.path, file.size) for file in found.files], found.problems

    async def piece(self, node: NodeName, rank: RankId, path: str, offset: int, bytes_max: int) -> bytes:
        link, _ = self.tools.links.link(node)
        found = await ask(self.tools, link, ReadArtifact(rank, path, offset, bytes_max))
        return b64decode(found.data)


async def fetch_artifacts(step: FetchArtifacts, tools: Tools) -> str:
    """Fetch the artifacts of a run, and note what was fetched."""
    found = await artifacts.fetch(step, _Agents(tools), tools.artifacts, step.patient)
    tools.groups.put_run(replace(step.run, artifacts=found))
    return found.text or f"{found.files} files, {found.size} bytes"
