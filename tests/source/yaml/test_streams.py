"""What may stand around a document: directives, marks, comments and nothing; and lists, JSON and other encodings."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.errors import InvalidManifests
from reconciler.resources import KINDS
from reconciler.source.editing import apply_documents, delete_objects, set_fields
from reconciler.source.yaml.documents import load
from tests.source.conftest import NODE

ROOT = Path(__file__).parents[3]
OTHER = NODE.replace("name: a", "name: b")
BEFORE = [
    "",
    "%YAML 1.1\n---\n",
    "%YAML 1.2 # new\n---\n",
    "---\n",
    "# why\n---\n",
    "# why\n",
    "---\n...\n---\n",
    "...\n",
    "\n\n",
]
BETWEEN = [
    "---\n",
    "...\n---\n",
    "...\n%YAML 1.2\n---\n",
    "... # end\n---\n",
    "---\n---\n",
    "---\n# nothing\n---\n",
]
AFTER = ["", "...\n", "---\n", "---\n...\n", "...\n# the end\n", "---\n# nothing\n", "...\n...\n", "\n\n"]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize(("before", "between", "after"), list(itertools.product(BEFORE, BETWEEN, AFTER)))
def test_a_stream_has_its_documents_whatever_stands_around_them(
    before: str, between: str, after: str, ends: str
) -> None:
    text = (before + NODE + between + OTHER + after).replace("\n", ends)
    documents = load({"n.yaml": text.encode()})
    assert [document.key[1] for document in documents] == ["a", "b"]
    lines = text.splitlines()
    assert [lines[document.line - 1] for document in documents] == [NODE.splitlines()[0]] * 2


REFUSED = [
    ("%YAML 2.0\n---\n" + NODE, 1, "a version of YAML that is not read"),
    ("%TAG ! tag:example.org,2026:\n---\n" + NODE, 1, "a %TAG directive; tags are not read"),
    ("%YAML 1.2\n" + NODE, 2, 'expected a document; a new one begins with "---"'),
    (NODE + "...\n" + OTHER, 8, 'a new one begins with "---"'),
    (NODE.replace("local: {}", "local: &x {}"), 6, 'an anchor ("&")'),
    (NODE.replace("local: {}", "local: !!map {}"), 6, "the tag !!map"),
    (NODE.replace("local: {}", "<<: {}"), 6, 'merging with "<<"'),
    (NODE.encode("utf-16").decode("latin-1"), 1, "UTF-16 text; save the file as UTF-8"),
    ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 1, "a pointer of Git LFS"),
]


@pytest.mark.parametrize(("text", "line", "says"), REFUSED)
def test_what_is_not_read_is_refused_with_its_place(text: str, line: int, says: str) -> None:
    with pytest.raises(InvalidManifests) as refused:
        load({"n.yaml": text.encode("latin-1")})
    problem = refused.value.problems[0]
    assert says in problem.text
    assert problem.line == line


@pytest.mark.parametrize(
    "text", ["...\n", "---\n...\n", "%YAML 1.2\n---\n...\n", "# nothing\n...\n", "---\n---\n"]
)
def test_a_stream_without_content_has_no_documents(text: str) -> None:
    assert load({"n.yaml": text.encode()}) == ()


# --- lists and JSON --------------------------------------------------------------------------------


def listed(*texts: str, **more: Any) -> dict[str, Any]:
    items = [yaml.safe_load(text) for text in texts]
    for number, item in enumerate(items):
        item["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
        item["metadata"] |= {"generation": number + 3, "deletionTimestamp": None}
    return {"apiVersion": "reconciler/v1alpha1", "kind": "List", "revision": "x", "items": items, **more}


FORMS: dict[str, Callable[[Any], str]] = {
    "n.yaml": lambda body: str(yaml.safe_dump(body, sort_keys=False)),
    "of-json.yaml": lambda body: json.dumps(body, indent=2),
    "n.json": lambda body: json.dumps(body, indent="\t"),
    "one-line.json": json.dumps,
}


@pytest.mark.parametrize("file", FORMS)
def test_a_list_is_its_objects_without_their_status(file: str) -> None:
    text = FORMS[file](listed(NODE, OTHER)).encode()
    assert [each.manifest for each in load({file: text})] == [
        each.manifest for each in load({"n.yaml": (NODE + "---\n" + OTHER).encode()})
    ]


@pytest.mark.parametrize("file", FORMS)
@pytest.mark.parametrize("name", ["a", "b"])
def test_an_object_of_a_list_can_be_changed_and_removed_alone(file: str, name: str) -> None:
    files = {file: FORMS[file](listed(NODE, OTHER)).encode()}
    before = {each.key: each.manifest for each in load(files)}
    edit = set_fields(files, {("Node", name): {("spec", "unschedulable"): True}})
    after = {each.key: each.manifest for each in load(edit.applied_to(files))}
    assert [key for key in before if before[key] != after[key]] == [("Node", name)]
    kept = load(delete_objects(files, [("Node", name)]).applied_to(files))
    assert [each.key[1] for each in kept] == ["b" if name == "a" else "a"]
    assert delete_objects(files, before).applied_to(files) == {}


@pytest.mark.parametrize("file", FORMS)
def test_what_is_printed_changes_nothing_when_it_is_applied_and_leaves_no_status_when_it_is_new(
    file: str,
) -> None:
    printed = load({file: FORMS[file](listed(NODE, OTHER)).encode()})
    present = {"nodes.yaml": (NODE + "---\n" + OTHER).encode()}
    assert not apply_documents(present, printed).changes
    created = apply_documents({}, printed).applied_to({})
    assert not re.search(rb"status|generation|deletionTimestamp", b"".join(created.values()))
    single = load({"one.yaml": (NODE + "status: {x: 1}   # seen\n").encode()})
    assert apply_documents({}, single).applied_to({}) == {"one.yaml": NODE.encode()}


def test_json_that_is_wrong_has_a_place_and_json_of_others_is_none_of_ours() -> None:
    from reconciler.source.yaml.objects import of_others

    broken = (
        '{"apiVersion": "reconciler/v1alpha1",\n "kind": "Node",\n "metadata": {"name": "a"}\n "spec": {}}'
    )
    with pytest.raises(InvalidManifests) as refused:
        load({"n.json": broken.encode()})
    assert (refused.value.problems[0].line, refused.value.problems[0].column) == (4, 2)
    unknown = json.dumps({**yaml.safe_load(NODE), "spec": {"locl": {}}}, indent=1)
    with pytest.raises(
        InvalidManifests, match=r'n\.json:8:3: spec\.locl: unknown field, did you mean "local"'
    ):
        load({"n.json": unknown.encode()})
    assert not of_others("n.json", broken.encode())
    for text in (
        '{"name": "x", "version": "1"}',
        "[1, 2]",
        "// a comment\n{}",
        '{"apiVersion": "v1", "kind": "Pod"}',
    ):
        assert of_others("package.json", text.encode())
        assert not of_others("package.yaml", text.encode())


def examples() -> dict[str, bytes]:
    """Manifests of every kind: the examples, and those of the pages about kinds."""
    found = {}
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        if path.parent.name != "prometheus":
            found[str(path)] = path.read_bytes()
    for page in sorted((ROOT / "docs" / "kinds").glob("*.md")):
        for number, block in enumerate(
            re.findall(r"```yaml\n(apiVersion: reconciler.*?)```", page.read_text(), re.DOTALL)
        ):
            found[f"{page}-{number}.yaml"] = block.encode()
    return found


EXAMPLES = examples()


def test_the_examples_have_every_kind() -> None:
    kinds = {each.key[0] for file, text in EXAMPLES.items() for each in load({file: text}, part=True)}
    assert kinds == set(KINDS)


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file).removeprefix(str(ROOT)))
def test_every_kind_can_be_applied_again_as_it_is_printed(file: str, form: str) -> None:
    present = {file: EXAMPLES[file]}
    bodies = []
    for number, document in enumerate(load(present, part=True)):
        body = document.manifest.body()
        body["metadata"]["generation"] = number + 1
        bodies.append({**body, "status": {"observedGeneration": 1, "conditions": [{"type": "Ready"}]}})
    for printed in (
        {"apiVersion": "reconciler/v1alpha1", "kind": "List", "revision": "x", "items": bodies},
        *bodies,
    ):
        text = json.dumps(printed, indent=2) if form == "json" else yaml.safe_dump(printed, sort_keys=False)
        wanted = {each.key: each.manifest.body() for each in load(present, part=True)}
        found = load({f"printed.{form}": text.encode()}, part=True)
        assert [wanted[each.key] for each in found] == [each.manifest.body() for each in found]
        assert len(found) == (len(bodies) if printed not in bodies else 1)
