"""The parts of steps that only jobs have: their secrets and their artifacts."""

from __future__ import annotations

from dataclasses import replace

from reconciler.errors import Invalid, Refused
from reconciler.execution import artifacts
from reconciler.execution.tools import Tools
from reconciler.resources import TokenRef
from reconciler.secret_files import find_secret
from reconciler.state import StartRank
from reconciler.state.job_steps import FetchArtifacts
from reconciler.wire.launch import LaunchSpec


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


async def fetch_artifacts(step: FetchArtifacts, tools: Tools) -> str:
    """Fetch the artifacts of a run, and note what was fetched."""
    found = await artifacts.fetch(step, tools)
    tools.groups.put_run(replace(step.run, artifacts=found))
    return found.text or f"{found.files} files, {found.size} bytes"
