"""`schema`, and the schema that editors find in a clone of a cluster repository."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from reconciler.cli.core.shipped import SHIPPED
from reconciler.resources import KINDS, schemas
from tests.cli.conftest import Cli

LINE = re.compile(r"^# yaml-language-server: \$schema=(\S+)$", re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_it_prints_the_schema_of_a_kind(cli: Cli, kind: str) -> None:
    told = cli("schema", kind.lower())
    assert (told.code, json.loads(told.out)) == (0, schemas.schema(kind))


def test_it_prints_the_schema_of_all_kinds(cli: Cli) -> None:
    assert json.loads(cli("schema").out) == schemas.any_kind()


def test_it_writes_every_schema(cli: Cli, tmp_path: Path) -> None:
    told = cli("schema", "--write", "schemas")
    assert told.code == 0
    assert {path.name: path.read_text() for path in (tmp_path / "schemas").iterdir()} == schemas.files()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("nod",), 2, 'unknown kind "nod", did you mean "nodes"?'),
        (("ranks",), 1, "ranks have no manifest"),
        (("node", "--write", "x"), 2, "--write writes the schemas of all kinds; omit KIND"),
    ],
)
def test_what_it_cannot_print(cli: Cli, words: tuple[str, ...], code: int, says: str) -> None:
    told = cli("schema", *words)
    assert told.code == code
    assert says in told.err


def test_editors_find_the_schema_in_a_clone_of_the_cluster_repository(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "manifests").symlink_to(SHIPPED / "manifests")
    assert cli("apply", "-f", "manifests").code == 0
    subprocess.run(["git", "clone", "-q", str(home / "cluster.git"), "clone"], cwd=tmp_path, check=True)
    manifests = sorted((tmp_path / "clone" / "manifests").iterdir())
    assert [path.name for path in manifests] == ["gateway.yaml", "nodes.yaml", "tiny.yaml"]
    for path in manifests:
        (line,) = LINE.findall(path.read_text())
        schema = json.loads((path.parent / line).resolve(strict=True).read_text())
        for manifest in yaml.safe_load_all(path.read_text()):
            jsonschema.validate(manifest, schema)
