"""The example clusters are valid, in our words and in those of the JSON Schema that they name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from reconciler.admission.jobs import new_jobs
from reconciler.resources import Job
from reconciler.source.files import read_directory
from reconciler.source.yaml.documents import load

ROOT = Path(__file__).parents[2]
MACS = [
    ROOT / "examples" / name for name in ("four-studios", "two-minis", "ring-of-three", "mixed-thunderbolt-4")
]
JOBS = ROOT / "examples" / "jobs"
CLUSTERS = [*sorted((ROOT / "examples" / "clusters").iterdir()), *MACS, ROOT / "manifests"]
FILES = [path for cluster in (*CLUSTERS, JOBS) for path in sorted(cluster.rglob("*.yaml"))]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda path: path.name)
def test_an_example_cluster_is_complete(cluster: Path) -> None:
    kinds = {document.key[0] for document in load(read_directory(cluster))}
    assert kinds == {"Node", "Model", "ModelDeployment", "Gateway"} | (
        {"Fabric"} if cluster in MACS else set()
    )


def test_the_jobs_have_their_files_and_may_run_on_their_nodes() -> None:
    manifests = [document.manifest for document in load(read_directory(JOBS))]
    jobs = [each for each in manifests if isinstance(each, Job)]
    assert {each.name for each in new_jobs((), manifests, ())} == {job.metadata.name for job in jobs}
    for job in jobs:
        assert all(file.data for file in job.spec.files)
        command = (job.spec.program.script or job.spec.program.mpi).command  # type: ignore[union-attr]
        assert {word for word in command if word.endswith(".py")} <= {file.name for file in job.spec.files}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_fits_the_schema_that_it_names(path: Path) -> None:
    modeline = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())
    assert modeline is not None
    schema = json.loads((path.parent / modeline[1]).read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for document in yaml.safe_load_all(path.read_text()):
        validator.validate(document)
