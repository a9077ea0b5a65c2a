"""JSON Schemas: they are what is in ``schemas/``, and they refuse what the kinds refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler.resources import KINDS, schemas
from reconciler.resources.schemas import DESCRIBED
from reconciler.source import write_schemas

ROOT = Path(__file__).parents[2]

NODE: dict[str, Any] = {
    "apiVersion": "reconciler/v1alpha1",
    "kind": "Node",
    "metadata": {"name": "a"},
    "spec": {"local": {}, "memory": {"reserve": "4GiB"}},
}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbP3JZnBSCsPkM5XQd6EuNmIpQ8p2mFHwqbIqNlNnY7"


def test_the_schemas_of_the_repository_are_those_of_the_kinds() -> None:
    assert write_schemas.outdated(ROOT / "schemas") == []


@pytest.mark.second_tier
def test_the_command_names_outdated_files_and_writes_them(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "reconciler.source.write_schemas", str(tmp_path), *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    (tmp_path / "Retired.json").write_text("{}")
    missing = run("--check")
    assert missing.returncode == 1
    assert [Path(line.split(" ")[0]).name for line in missing.stdout.splitlines()] == sorted(
        ["Retired.json", "manifest.json", *(f"{kind}.json" for kind in DESCRIBED)]
    )
    assert run().returncode == 0
    assert run("--check").returncode == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == schemas.files()


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_schema_is_a_schema(kind: str | None) -> None:
    jsonschema.Draft202012Validator.check_schema(schemas.schema(kind) if kind else schemas.any_kind())


@pytest.mark.second_tier
@pytest.mark.parametrize(
    "wrong",
    [
        {**NODE, "kind": "Nod"},
        {**NODE, "apiVersion": "v1"},
        {**NODE, "extra": 1},
        {**NODE, "spec": {"local": {"x": 1}}},
        {**NODE, "spec": {}},
        {**NODE, "spec": {"local": {}, "ssh": {"host": "h", "user": "u", "hostKey": KEY}}},
        {**NODE, "spec": {"ssh": {"host": "-oProxyCommand=x", "user": "u", "hostKey": KEY}}},
        {**NODE, "spec": {"local": {}, "memory": {"reserve": 4}}},
        {**NODE, "metadata": {"name": "A"}},
    ],
)
def test_the_schema_for_editors_refuses_what_the_kind_refuses(wrong: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator(schemas.any_kind())
    assert validator.is_valid(NODE)
    assert not validator.is_valid(wrong)
