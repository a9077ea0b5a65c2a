"""Documents as they are loaded, and what is said where several of them do not fit together."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import InvalidManifests, Problem
from reconciler.resources import ModelDeployment
from reconciler.source.yaml.documents import load
from reconciler.source.yaml.pieces import join, split

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted([*ROOT.glob("examples/clusters/*/*.yaml"), *ROOT.glob("manifests/*.yaml")])


def node(name: str) -> str:
    return f"apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata:\n  name: {name}\nspec:\n  local: {{}}\n"


def gateway(name: str) -> str:
    return (
        f"apiVersion: reconciler/v1alpha1\nkind: Gateway\nmetadata:\n  name: {name}\n"
        "spec:\n  listen: 127.0.0.1:8400\n  auth: {mode: none}\n"
    )


def deployment(name: str, *aliases: str) -> str:
    return (
        f"apiVersion: reconciler/v1alpha1\nkind: ModelDeployment\nmetadata:\n  name: {name}\n"
        f"spec:\n  model: not-there\n  serving:\n    aliases: [{', '.join(aliases)}]\n"
    )


def key(name: str, *hashes: str) -> str:
    previous = "".join(
        f'\n  - hash: sha256:{each * 64}\n    until: "2027-01-31T00:00:00Z"' for each in hashes[1:]
    )
    return (
        f"apiVersion: reconciler/v1alpha1\nkind: ApiKey\nmetadata:\n  name: {name}\n"
        f"spec:\n  hash: sha256:{hashes[0] * 64}\n  previous:{previous or ' []'}\n"
    )


def problem_lines(**files: str) -> list[str]:
    with pytest.raises(InvalidManifests) as caught:
        load({f"{name}.yaml": text.encode() for name, text in files.items()})
    return str(caught.value).split("\n")


def test_a_document_knows_its_file_its_place_and_its_own_text() -> None:
    text = f"# first\n{node('a')}---\n# second\n{deployment('llama', 'gpt')}"
    first, second = load({"x.yaml": text.encode()})
    assert (first.file, first.index, first.line, first.key) == ("x.yaml", 0, 2, ("Node", "a"))
    assert (second.file, second.index, second.line) == ("x.yaml", 1, 10)
    assert second.text == f"# second\n{deployment('llama', 'gpt')}"
    assert isinstance(second.manifest, ModelDeployment)
    assert second.manifest.spec.serving.aliases == ("gpt",)


def test_a_model_that_does_not_exist_is_for_the_planner_to_report() -> None:
    assert len(load({"x.yaml": deployment("llama").encode()})) == 1


def test_an_object_that_occurs_twice_is_named_with_both_places() -> None:
    assert problem_lines(a=node("x"), b=node("y") + "---\n" + node("x")) == [
        'b.yaml:11:9: metadata.name: Node "x" already exists, at a.yaml:1'
    ]


def test_one_name_may_be_used_by_two_kinds() -> None:
    assert len(load({"x.yaml": (node("x") + "---\n" + gateway("x")).encode()})) == 2


def test_there_is_one_gateway() -> None:
    assert problem_lines(a=gateway("main"), b=gateway("second")) == [
        'b.yaml:2:7: kind: only one Gateway is allowed; "main" is at a.yaml:1'
    ]


def test_an_alias_belongs_to_one_deployment() -> None:
    assert problem_lines(a=deployment("x", "gpt"), b=deployment("y", "other", "gpt")) == [
        'b.yaml:8:22: spec.serving.aliases[1]: "gpt" is already an alias of ModelDeployment "x", at a.yaml:1'
    ]


def test_an_alias_cannot_be_the_name_of_a_deployment_even_of_a_later_one() -> None:
    assert problem_lines(a=deployment("x", "y"), b=deployment("y")) == [
        'a.yaml:8:15: spec.serving.aliases[0]: "y" is already the name of ModelDeployment "y", at b.yaml:1'
    ]


def test_a_secret_belongs_to_one_key_also_an_earlier_one() -> None:
    said = 'is already a secret of ApiKey "x", at a.yaml:1; make a new one: reconciler key create y'
    assert problem_lines(a=key("x", "a", "b"), b=key("y", "a")) == [f"b.yaml:6:9: spec.hash: this {said}"]
    assert problem_lines(a=key("x", "a", "b"), b=key("y", "c", "b")) == [
        f"b.yaml:8:11: spec.previous[0].hash: this {said}"
    ]
    assert len(load({"x.yaml": f"{key('x', 'a')}---\n{key('y', 'b')}".encode()})) == 2


def test_documents_are_compared_even_where_others_are_wrong() -> None:
    assert problem_lines(a=gateway("main"), b=gateway("second"), c="kind: Nod\napiVersion: x\n") == [
        'b.yaml:2:7: kind: only one Gateway is allowed; "main" is at a.yaml:1',
        'c.yaml:1:7: kind: unknown kind "Nod", did you mean "Node"?',
        'c.yaml:2:13: apiVersion: expected "reconciler/v1alpha1", got "x"',
    ]


def problems_of(content: bytes) -> tuple[Problem, ...]:
    """None for valid manifests; any other exception is what these tests look for."""
    try:
        load({"damaged.yaml": content})
    except InvalidManifests as invalid:
        return invalid.problems
    return ()


PIECES = ["---", "--- ", "---\n", "--- # c\n", "...\n", "a: 1", "\n", "# c\n", " ", "-", "\r\n", "---x"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_the_pieces_of_a_file_are_the_file(text: str) -> None:
    pieces = split(text)
    assert join(pieces) == text
    for piece in pieces:
        before = "".join(text.splitlines(keepends=True)[: piece.line - 1])
        offset = len(before) + piece.column - 1
        assert text[offset : offset + len(piece.body)] == piece.body


TOKENS = st.sampled_from(
    [
        "\n",
        "\t",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "!!int ",
        "---\n",
        "0x",
        "1e9",
        '"',
        "'",
        "\\",
        "|\n",
        "? ",
        "<<: ",
        "~",
        "yes",
        "2026-01-01",
        "\x00",
        "\x85",
        "\u2028",
        "\ufeff",
        "é",
        "#",
        "%",
        "@",
        "9" * 400,
        ".nan",
    ]
)
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.one_of(TOKENS, st.text(max_size=6))), max_size=6
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EXAMPLES), EDITS)
def test_a_damaged_manifest_is_either_valid_or_explained(
    example: Path, edits: list[tuple[float, int, str]]
) -> None:
    text = example.read_text()
    for where, removed, added in edits:
        at = int(where * len(text))
        text = text[:at] + added + text[at + removed :]
    line_breaks = sum(text.count(character) for character in "\n\r\x85\u2028\u2029")
    for problem in problems_of(text.encode()):
        assert 1 <= problem.line <= line_breaks + 2
        assert problem.column >= 1
        assert problem.text.isprintable()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_either_valid_or_explained(content: bytes) -> None:
    problems_of(content)
