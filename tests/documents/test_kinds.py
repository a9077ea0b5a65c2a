"""The pages of the kinds have one skeleton, and say what the schemas say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from reconciler import status
from reconciler.resources import KINDS
from reconciler.source.yaml.documents import load
from reconciler.state import (
    GatewayObservation,
    LimitsObservation,
    NodeGatewayObservation,
    NodeName,
    ServedCertificate,
)
from reconciler.status import Snapshots
from tests.worlds import World, deployment, fabric, gateway, model, node, notifier, sync_window

from .newcomer import ROOT

PAGES = ROOT / "docs" / "kinds"
URL = "https://ai.example.com:8400/v1"
CERTIFICATE = ServedCertificate(("ai.example.com",), 2_000_000_000.0)
SKELETON = ["Example", "Fields", "Status", "Behaviour", "Commands"]


def page(kind: str) -> Path:
    return PAGES / f"{kind.lower()}.md"


def section(text: str, title: str) -> str:
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> dict[str, str]:
    """Each field of a table of fields, and its default as the page has it."""
    found = re.findall(r"^\| `([^`]+)` \| (`[^`]+`|required) \| \S.*\|$", text, re.MULTILINE)
    return {name: default.strip("`") for name, default in found}


def leaves(schema: dict[str, Any], root: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Every field that holds a value, and its default or ``required``."""
    for name, given in schema.get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        field = {**_resolved(given, root), **given}
        if field.get("properties"):
            yield from leaves(field, root, here)
        else:
            required = name in schema.get("required", []) and path != ""
            yield here, "required" if required else written(field)


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """What a reference leads to, also that of a field that may be left out."""
    forms = [form for form in schema.get("anyOf", ()) if form.get("type") != "null"]
    name = (forms[0] if len(forms) == 1 else schema).get("$ref", "").rpartition("/")[2]
    return root["$defs"][name] if name else {}


def written(field: dict[str, Any]) -> str:
    """A default as YAML has it."""
    default = field.get("default", {} if field.get("type") == "object" else None)
    if isinstance(default, dict):
        return "{" + ", ".join(f"{key}: {value}" for key, value in default.items()) + "}"
    return default if isinstance(default, str) else json.dumps(default)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_the_sections_that_all_have(kind: str) -> None:
    text = page(kind).read_text()
    assert text.startswith(f"# {kind}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SKELETON


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_lists_the_fields_of_the_schema_with_their_defaults(kind: str) -> None:
    schema = json.loads((ROOT / "schemas" / f"{kind}.json").read_text())
    spec = {name: default for name, default in leaves(schema, schema) if name.startswith("spec.")}
    assert rows(section(page(kind).read_text(), "Fields")) == spec
    metadata = {name: default for name, default in leaves(schema, schema) if name.startswith("metadata.")}
    assert rows(section((PAGES / "README.md").read_text(), "Metadata")) == metadata


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_a_page_is_valid_and_of_its_kind(kind: str) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", section(page(kind).read_text(), "Example"), re.DOTALL)
    (document,) = load({f"{kind}.yaml": example.encode()}, part=True)
    assert document.key[0] == kind


def filled_in(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """A manifest into which an editor has written the default of every field that it lacks."""
    filled = dict(value)
    for name, given in {**_resolved(schema, root), **schema}.get("properties", {}).items():
        if isinstance(filled.get(name), dict):
            filled[name] = filled_in(filled[name], {**_resolved(given, root), **given}, root)
        elif name not in filled and given.get("default") is not None:
            filled[name] = given["default"]
    return filled


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_with_every_default_filled_in_is_valid(kind: str) -> None:
    example = section(page(kind).read_text(), "Example").split("```yaml\n")[1].split("```")[0]
    schema = json.loads((ROOT / "schemas" / f"{kind}.json").read_text())
    for given in yaml.safe_load_all(example):
        if given["kind"] == kind:
            whole = filled_in(given, schema, schema)
            jsonschema.validate(whole, schema)
            (document,) = load({"filled-in.yaml": yaml.safe_dump(whole).encode()}, part=True)
            (before,) = load({"given.yaml": yaml.safe_dump(given).encode()}, part=True)
            assert document.manifest.body() == before.manifest.body()


def test_the_status_of_each_kind_is_documented_completely() -> None:
    cables = fabric("studios", ("node-a/3", "node-b/3"))
    nodes = [node("node-a"), node("node-b")]
    world = World([*nodes, cables, model(), deployment(), gateway(), notifier(), sync_window()])
    world.settle()
    observed = world.observed()
    seen = type(observed)(
        observed.nodes,
        GatewayObservation(
            1,
            URL,
            certificate=CERTIFICATE,
            limits=LimitsObservation(2),
        ),
        {NodeName("b"): NodeGatewayObservation(NodeName("b"))},
    )
    snapshots = Snapshots(world.desired(), seen, world.memory(), world.plan(), world.now)
    for key, found in status.statuses(snapshots, {}).items():
        status_section = section(page(key.kind).read_text(), "Status")
        fields = {
            name
            for row in re.findall(r"^\| (`.*?) \| ", status_section, re.MULTILINE)
            for name in re.findall("`([^`]+)`", row)
        }
        assert fields == set(found.extra), key


def test_the_index_names_every_kind() -> None:
    text = (PAGES / "README.md").read_text()
    assert re.findall(r"^\| \[(\w+)\]\(\w+\.md\)", text, re.MULTILINE) == list(KINDS)
