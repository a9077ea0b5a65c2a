"""Apply and delete as changes of files that people have written, and go on writing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import InvalidManifests
from reconciler.source.editing import Edit, Result, apply_documents, delete_objects, diff, normalised
from reconciler.source.yaml.documents import Document, load

HEAD = "apiVersion: reconciler/v1alpha1\nkind: {}\nmetadata:\n  name: {}\nspec:\n"


def node(name: str, reserve: str = "1GiB") -> str:
    return (
        HEAD.format("Node", name) + f"  local: {{}}\n  memory:\n    reserve: {reserve}   # for the system\n"
    )


def model(name: str, path: str = "tiny") -> str:
    return HEAD.format("Model", name) + f"  source:\n    path: {path}\n"


def documents(text: str, file: str = "new.yaml") -> tuple[Document, ...]:
    return load({file: text.encode()})


def applied(files: dict[str, str], text: str, file: str = "new.yaml") -> tuple[dict[str, str], Edit]:
    current = {name: content.encode() for name, content in files.items()}
    edit = apply_documents(current, documents(text, file))
    return {name: content.decode() for name, content in edit.applied_to(current).items()}, edit


def test_an_object_is_replaced_where_it_stands_and_all_around_it_stays() -> None:
    before = (
        f"# our nodes\n{node('a')}# end of a\n---\n# the second\n\n{node('b')}\n# end of b\n---\n{node('c')}"
    )
    after, edit = applied({"nodes.yaml": before}, node("b", "2GiB"))
    assert after == {"nodes.yaml": before.replace(node("b"), node("b", "2GiB"))}
    assert edit.results == (Result("Node", "b", "configured"),)


def test_comments_that_come_with_an_object_replace_those_that_were_there() -> None:
    before = f"# old head\n{node('a')}# old tail\n"
    after, _ = applied({"a.yaml": before}, f"# new head\n{node('a', '2GiB')}# new tail\n")
    assert after == {"a.yaml": f"# new head\n{node('a', '2GiB')}# new tail\n"}


def test_an_object_that_means_the_same_keeps_its_text() -> None:
    rewritten = f"# other words\n{node('a', '1024MiB')}  unschedulable: false\n"
    after, edit = applied({"a.yaml": node("a")}, rewritten)
    assert after == {"a.yaml": node("a")}
    assert edit == Edit({}, (Result("Node", "a", "unchanged"),))


def test_applying_twice_changes_nothing_the_second_time() -> None:
    text = f"# head\n{node('a', '2GiB')}---\n{model('m')}---\n{node('new')}"
    once, _ = applied({"a.yaml": node("a"), "m.yaml": model("m", "other")}, text)
    twice, edit = applied(once, text)
    assert twice == once
    assert [result.action for result in edit.results] == ["unchanged"] * 3


def test_a_new_object_goes_to_a_file_of_the_name_that_it_came_from() -> None:
    after, edit = applied({"a.yaml": node("a")}, f"# m\n{model('m')}", "models/m.yaml")
    assert after == {"a.yaml": node("a"), "models/m.yaml": f"# m\n{model('m')}"}
    assert edit.results == (Result("Model", "m", "created"),)


def test_a_new_object_is_added_to_a_file_that_is_there() -> None:
    after, _ = applied({"all.yaml": node("a").rstrip("\n")}, model("m") + "---\n" + model("n"), "all.yaml")
    assert after == {"all.yaml": node("a") + "---\n" + model("m") + "---\n" + model("n")}


@pytest.mark.parametrize(
    ("came_from", "goes_to"),
    [
        ("<stdin>", "model-m.yaml"),
        ("/home/me/m.yaml", "m.yaml"),
        ("../m.yaml", "m.yaml"),
        ("./x/../m.yaml", "m.yaml"),
        (".hidden/m.yaml", "m.yaml"),
        ("m.txt", "model-m.yaml"),
    ],
)
def test_a_name_from_outside_becomes_a_visible_one_inside(came_from: str, goes_to: str) -> None:
    after, _ = applied({}, model("m"), came_from)
    assert after == {goes_to: model("m")}


def test_the_line_that_names_a_schema_stays_only_where_its_path_is_right() -> None:
    line, url = (f"# yaml-language-server: $schema={p}\n" for p in ("../schemas/m.json", "https://x/m.json"))
    assert applied({}, line + model("m"))[0] == {"new.yaml": model("m")}
    assert applied({}, url + model("m"))[0] == {"new.yaml": url + model("m")}
    assert applied({"m.yaml": url + model("m", "x")}, line + model("m"))[0] == {"m.yaml": url + model("m")}
    assert applied({"m.yaml": model("m", "x")}, line + model("m"))[0] == {"m.yaml": model("m")}


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("m.yaml", "schemas/manifest.json"),
        ("manifests/m.yaml", "../schemas/manifest.json"),
        ("teams/a/m.yaml", "../../schemas/manifest.json"),
    ],
)
def test_the_line_that_names_the_schema_of_the_repository_leads_there_from_where_the_file_is(
    file: str, path: str
) -> None:
    line = "# yaml-language-server: $schema=../schemas/manifest.json\n"
    after = applied({}, line + model("m"), file)[0]
    assert after == {file: f"# yaml-language-server: $schema={path}\n{model('m')}"}


def test_a_document_on_the_line_of_its_dashes_can_be_replaced() -> None:
    inline = (
        "{apiVersion: reconciler/v1alpha1, kind: Model, metadata: {name: m}, spec: {source: {path: x}}}\n"
    )
    after, _ = applied({"a.yaml": f"{node('a')}--- {inline}"}, model("m"))
    assert after == {"a.yaml": f"{node('a')}---\n{model('m')}"}


def test_text_that_looks_like_a_comment_at_the_end_of_a_document_is_no_comment() -> None:
    noted = model("m", "x").replace(
        "spec:", "  annotations:\n    note: |\n      text\n      # not a comment\nspec:"
    )
    after, _ = applied({"m.yaml": noted}, noted.replace("path: x", "path: y") + "# tail\n")
    assert after == {"m.yaml": noted.replace("path: x", "path: y") + "# tail\n"}


def test_what_would_not_be_valid_as_a_whole_is_refused() -> None:
    gateway = HEAD.format("Gateway", "main") + "  listen: 127.0.0.1:1\n  auth: {mode: none}\n"
    with pytest.raises(InvalidManifests, match="only one Gateway"):
        applied({"a.yaml": gateway}, gateway.replace("main", "second"))


def test_deleting_removes_the_document_and_an_empty_file() -> None:
    line = "# yaml-language-server: $schema=../schemas/manifest.json\n"
    files = {
        "a.yaml": f"{line}{node('a')}---\n# b\n{node('b')}".encode(),
        "m.yaml": f"# m\n{model('m')}".encode(),
    }
    edit = delete_objects(files, [("Node", "a"), ("Model", "m"), ("Model", "never"), ("Node", "a")])
    assert edit.changes == {"a.yaml": f"{line}# b\n{node('b')}".encode(), "m.yaml": None}
    assert edit.results == (Result("Node", "a", "deleted"), Result("Model", "m", "deleted"))


def test_deleting_from_the_middle_leaves_the_rest_as_it_is() -> None:
    files = {"a.yaml": f"# 1\n{node('a')}--- # 2\n{node('b')}---\n# 3\n{node('c')}".encode()}
    edit = delete_objects(files, [("Node", "b")])
    assert edit.changes == {"a.yaml": f"# 1\n{node('a')}---\n# 3\n{node('c')}".encode()}


def test_a_diff_shows_the_objects_that_differ_with_their_defaults() -> None:
    current = documents(node("a") + "---\n" + node("b"))
    new, changed = diff(current, documents(model("m") + "---\n" + node("a", "2GiB") + "---\n" + node("b")))
    assert (new.kind, new.name, new.action) == ("Model", "m", "created")
    assert new.text.startswith("--- current/Model/m\n+++ incoming/Model/m\n@@ -0,0 +1,11 @@\n+apiVersion: ")
    assert "null" not in new.text  # what is not given, and has no default, is not said
    assert (changed.name, changed.action) == ("a", "configured")
    assert "-    reserve: 1GiB\n+    reserve: 2GiB\n" in changed.text


def test_a_normalised_manifest_reads_as_the_same_object() -> None:
    for document in documents(node("a") + "---\n" + model("m")):
        (again,) = documents(normalised(document.manifest))
        assert again.manifest == document.manifest


NAMES = st.sampled_from("abcd")
TEXTS = st.one_of(
    st.builds(node, NAMES, st.sampled_from(["1GiB", "2GiB"])),
    st.builds(model, NAMES, st.sampled_from(["x", "y"])),
).flatmap(lambda text: st.sampled_from([text, f"# head\n\n{text}# tail\n", f"{text}...\n"]))
FILES = st.lists(TEXTS, max_size=4, unique_by=lambda text: text[text.index("kind:") : text.index("spec:")])


@settings(max_examples=150, deadline=None)
@given(FILES, FILES)
def test_after_an_apply_every_object_is_as_it_was_wanted_and_all_others_as_they_were(
    present: list[str], wanted: list[str]
) -> None:
    files = {"f.yaml": "---\n".join(present).encode()}
    incoming = documents("---\n".join(wanted), "g.yaml")
    edit = apply_documents(files, incoming)
    expected = {document.key: document.manifest for document in (*load(files), *incoming)}
    after = edit.applied_to(files)
    assert {document.key: document.manifest for document in load(after)} == expected
    assert apply_documents(after, incoming).changes == {}
