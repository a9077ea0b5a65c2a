"""`explain` knows every field of every kind, from the models themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from reconciler.cli.core.fields import Field, field_at
from reconciler.resources import KIND_NAMES, KINDS, PLURALS, SHORT_NAMES
from tests.cli.conftest import Cli


def every_field() -> Iterator[tuple[str, Field]]:
    waiting = [(kind, field_at(kind, [])) for kind in KIND_NAMES]
    while waiting:
        path, field = waiting.pop()
        yield path, field
        waiting += [(f"{path}.{inner.name}", inner) for inner in field.fields()]


FIELDS = dict(every_field())


@pytest.mark.parametrize("path", FIELDS)
def test_every_field_has_a_type_and_says_what_it_is_for(path: str) -> None:
    field = FIELDS[path]
    kind, *steps = path.split(".")
    assert field_at(kind, steps) == field
    assert "any" not in field.type
    assert "^" not in str(field.facts()), "a regular expression says nothing to people"
    assert "$ref" not in str(field.as_json())
    assert field.description.endswith(".")


def test_kinds_have_words_for_each() -> None:
    assert list(KINDS) == list(KIND_NAMES) == list(PLURALS) == list(SHORT_NAMES)


def test_a_field_is_shown_with_its_type_bounds_default_and_what_is_within(cli: Cli) -> None:
    shown = cli("explain", "md.spec.parallelism.nodes").out
    assert "FIELD: spec.parallelism.nodes <integer or Object>" in shown
    assert "Number of nodes, or `{min, max}`" in shown
    assert "  min " in shown
    assert "    at least: 1\n    at most: 64" in shown
    shown = cli("explain", "modeldeployment.spec").out
    assert "KIND:       ModelDeployment\nVERSION:    reconciler/v1alpha1" in shown
    assert "  model             <name> -required-\n    Name of the Model to serve." in shown
    assert "    default: 1" in shown
    shown = cli("explain", "gateway.spec.hold").out
    assert "FIELD: spec.hold <duration>" in shown
    assert "default: 60s" in shown
    assert "always: Node" in cli("explain", "node.kind").out


def test_recursive_shows_the_whole_tree(cli: Cli) -> None:
    lines = cli("explain", "node", "--recursive").out.splitlines()
    assert "  spec <Object> -required-" in lines
    assert "    memory <Object>" in lines
    assert "      reserve <bytes>" in lines


def test_the_same_is_to_be_had_for_programs(cli: Cli) -> None:
    body = json.loads(cli("explain", "md.spec", "-o", "json").out)
    assert {field["name"] for field in body["fields"]} >= {"model", "replicas", "serving"}
    assert yaml.safe_load(cli("explain", "md.spec", "-o", "yaml").out) == body
    assert cli("explain", "md", "-o", "plaintext").out == cli("explain", "md").out


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        (
            "md.spec.paralelism",
            1,
            'field "paralelism" does not exist in modeldeployment.spec, did you mean "par',
        ),
        (
            "md.spec.replicas.x",
            1,
            'field "x" does not exist in modeldeployment.spec.replicas; it has no fields',
        ),
        ("podz", 2, 'unknown kind "podz"'),
        ("ranks", 1, "ranks have no manifest"),
    ],
)
def test_what_does_not_exist_is_refused_with_the_nearest_right_name(
    path: str, code: int, message: str, cli: Cli
) -> None:
    result = cli("explain", path)
    assert (result.code, message in result.err) == (code, True), result.err


def test_the_kinds_are_listed(cli: Cli) -> None:
    assert cli("api-resources").out.splitlines()[0].split() == ["NAME", "SHORTNAMES", "APIVERSION", "KIND"]
    assert "nodes.reconciler\n" in cli("api-resources", "-o", "name").out
    assert json.loads(cli("api-resources", "-o", "json").out)["resources"][0]["kind"] == "Node"
    assert cli("api-versions").out == "reconciler/v1alpha1\n"
