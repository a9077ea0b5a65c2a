"""What is said of text that is not the YAML of a manifest: exact words, exact places."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from reconciler.errors import InvalidManifests
from reconciler.source.yaml import parser
from reconciler.source.yaml.documents import PROBLEMS_MAX, load
from reconciler.source.yaml.pieces import DOCUMENTS_MAX, FILE_BYTES_MAX

NODE = "apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata:\n  name: a\nspec:\n  local: {}\n"

BROKEN: dict[str, tuple[str, str]] = {
    "a tab as indentation": (
        "spec:\n\tlocal: {}\n",
        "f.yaml:2:1: a tab; YAML indents with spaces only",
    ),
    "a tab after a value": (
        "kind: Node\n\tname: a\n",
        "f.yaml:2:1: a tab; YAML indents with spaces only",
    ),
    "two colons on a line": (
        "kind: Node: a\n",
        'f.yaml:1:11: a ": " that is not allowed here; put text that contains one in quotes, or check the indentation',
    ),
    "a deeper line after a value": (
        "kind: Node\n  name: a\n",
        'f.yaml:2:7: a ": " that is not allowed here; put text that contains one in quotes, or check the indentation',
    ),
    "a word where a field is expected": (
        "kind: Node\nmetadata\nspec: {}\n",
        'f.yaml:2:1: expected "key: value"; a ":" or the space after it is missing',
    ),
    "a bracket that is open where the text ends": (
        "kind: Node\nmetadata: {",
        "f.yaml:2:12: expected a value; a bracket is missing or superfluous",
    ),
    "a line that is indented between two levels": (
        "spec:\n    local: {}\n  memory: {}\n",
        "f.yaml:3:3: the indentation does not fit the lines above",
    ),
    "a field among the entries of a list": (
        "aliases:\n  - a\n  b: c\n",
        "f.yaml:3:3: the indentation does not fit the lines above",
    ),
    "a list on the line of its key": (
        "aliases: - a\n",
        'f.yaml:1:10: a list cannot begin here; put its "- " on the next line',
    ),
    "a bracket that is not closed": (
        "aliases: [a, b\nkind: Node\n",
        'f.yaml:1:10: a "[" without its "]", or a missing ","',
    ),
    "a brace that is not closed": (
        "spec: {local: {}\n",
        'f.yaml:1:7: a "{" without its "}", or a missing ","',
    ),
    "a bracket that was never opened": (
        "aliases: ]\n",
        "f.yaml:1:10: expected a value; a bracket is missing or superfluous",
    ),
    "a quote that is not closed": (
        'kind: "Node\nspec: {}\n',
        "f.yaml:1:7: a quoted text is not closed",
    ),
    "a quote that is not closed before the next document": (
        'kind: "Node\n---\nkind: "Node\n',
        "f.yaml:1:7: a quoted text is not closed\nf.yaml:3:7: a quoted text is not closed",
    ),
    "a character that YAML keeps for itself": (
        "name: @a\n",
        'f.yaml:1:7: text cannot begin with "@"; put it in quotes',
    ),
    "a template of another tool": (
        "name: %NAME%\n",
        'f.yaml:1:7: text cannot begin with "%"; put it in quotes',
    ),
    "a directive": (
        "%YAML 1.1\n" + NODE,
        'f.yaml:2:1: expected a document; a new one begins with "---"',
    ),
    "two documents with dots between them": (
        NODE + "...\nkind: Node\n",
        'f.yaml:8:1: expected a document; a new one begins with "---"',
    ),
}

REFUSED: dict[str, tuple[str, str]] = {
    "an alias": (
        "kind: *other\n",
        'f.yaml:1:7: kind: an alias ("*"); write the value out, or put text that begins with "*" in quotes',
    ),
    "an anchor": (
        NODE.replace("local: {}", "local: &x {}"),
        'f.yaml:6:10: spec.local: an anchor ("&"); write the value where it is used, '
        'or put text that begins with "&" in quotes',
    ),
    "a merge": (
        NODE + "  <<: {}\n",
        'f.yaml:7:3: spec: merging with "<<"; write the fields out',
    ),
    "a tag": (
        NODE.replace("name: a", "name: !!python/name:os.system a"),
        "f.yaml:4:9: metadata.name: the tag !!python/name:os.system; remove it, "
        'or put text that begins with "!" in quotes',
    ),
    "a key that occurs twice": (
        NODE + "  local: {}\n",
        "f.yaml:7:3: spec.local: duplicate key, first on line 6",
    ),
    "a key that is a boolean": (
        NODE.replace("name: a", "name: a\n  labels: {on: a}"),
        "f.yaml:5:12: metadata.labels: expected text as a key, got on (a boolean); put it in quotes",
    ),
    "a key that is a number": (
        NODE.replace("name: a", "name: a\n  labels: {5: a}"),
        "f.yaml:5:12: metadata.labels: expected text as a key, got 5 (a number); put it in quotes",
    ),
    "a key that is a list": (
        NODE.replace("name: a", "name: a\n  labels: {[a]: b}"),
        "f.yaml:5:12: metadata.labels: expected text as a key, got a list or a mapping",
    ),
    "an alias as a key": (
        NODE + "  *a : b\n",
        'f.yaml:7:3: spec: an alias ("*"); write the value out, or put text that begins with "*" in quotes',
    ),
    "octal": (
        NODE.replace("name: a", "name: 010"),
        'f.yaml:4:9: metadata.name: 010 is the number 8 in YAML; write 8, or "010" in quotes',
    ),
    "hours and minutes": (
        NODE.replace("name: a", "name: 1:30"),
        'f.yaml:4:9: metadata.name: 1:30 is the number 90 in YAML; write 90, or "1:30" in quotes',
    ),
    "half a hexadecimal": (
        NODE.replace("name: a", "name: 0x_"),
        'f.yaml:4:9: metadata.name: 0x_ is not a usable number; if it is text, put it in quotes: "0x_"',
    ),
    "infinity": (
        NODE.replace("name: a", "name: .inf"),
        'f.yaml:4:9: metadata.name: .inf is not a usable number; if it is text, put it in quotes: ".inf"',
    ),
    "a number of many digits": (
        NODE.replace("name: a", "name: " + "7" * 5000),
        f"f.yaml:4:9: metadata.name: {'7' * 40}… is too long a number",
    ),
    "a date": (
        NODE.replace("name: a", "name: 2026-11-21"),
        'f.yaml:4:9: metadata.name: 2026-11-21 is a date in YAML; put it in quotes: "2026-11-21"',
    ),
    "an escape sequence for the terminal": (
        NODE.replace("name: a", 'name: "\\e[31m"'),
        "f.yaml:4:9: metadata.name: the character U+001B; only printable text is read",
    ),
    "nesting without end": (
        "kind: " + "[" * 100 + "]" * 100,
        f"f.yaml:1:38: kind{'[0]' * 31}: nested more than 32 levels deep",
    ),
}

NOT_TEXT: dict[str, tuple[bytes, str]] = {
    "bytes that are not UTF-8": (b"kind: Node\nname: \xff\n", "f.yaml:2:7: not UTF-8 text"),
    "UTF-16": ("kind: Node".encode("utf-16"), "f.yaml:1:1: UTF-16 text; save the file as UTF-8"),
    "a program": (
        b"\x7fELF\x02\x01\x01\0\0\0",
        "f.yaml:1:1: the character U+007F; only printable text is read",
    ),
    "a second byte order mark": (
        "\ufeff\ufeffkind: Node\n".encode(),
        "f.yaml:1:1: the character U+FEFF; only printable text is read",
    ),
    "line ends of another age": (
        b"kind: Node\rname: a\r",
        "f.yaml:1:11: the character U+000D as the end of a line; end lines with LF or CRLF",
    ),
    "a line separator within a comment": (
        "kind: Node # a\u2028\n".encode(),
        "f.yaml:1:15: the character U+2028 as the end of a line; end lines with LF or CRLF",
    ),
    "more than a mebibyte": (
        b"#" * (FILE_BYTES_MAX + 1),
        f"f.yaml:1:1: the file has {FILE_BYTES_MAX + 1} bytes, more than the limit of {FILE_BYTES_MAX}",
    ),
}


def message_of(files: dict[str, bytes]) -> str:
    with pytest.raises(InvalidManifests) as caught:
        load(files)
    return str(caught.value)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_syntax_is_explained_where_it_is(name: str) -> None:
    text, expected = BROKEN[name]
    assert message_of({"f.yaml": text.encode()}) == expected


@pytest.mark.parametrize("name", BROKEN)
def test_the_parser_in_python_leads_to_a_problem_on_the_same_line(name: str) -> None:
    text, expected = BROKEN[name]
    piece = text.partition("---\n")[0]
    tree = parser.parse("f.yaml", piece, loader=yaml.SafeLoader)
    assert [problem.line for problem in tree.problems] == [int(expected.split(":")[1])]
    assert not any("not YAML" in problem.text for problem in tree.problems)


@pytest.mark.parametrize("loader", [parser.LOADER, yaml.SafeLoader])
def test_both_parsers_read_the_same_tree(loader: Any) -> None:
    tree = parser.parse("f.yaml", "a: |\n  x\n  # y\nb: ['1', 2]\n# end\n", line=11, loader=loader)
    assert tree.root is not None
    assert tree.root.value == {"a": "x\n# y\n", "b": ["1", 2]}
    assert (tree.first_line, tree.last_line) == (11, 14)
    assert (tree.root.children["b"].children[1].line, tree.root.children["b"].children[1].column) == (14, 10)


@pytest.mark.parametrize("name", REFUSED)
def test_what_yaml_can_do_and_a_manifest_may_not_is_named(name: str) -> None:
    text, expected = REFUSED[name]
    assert expected in message_of({"f.yaml": text.encode()}).split("\n")


@pytest.mark.parametrize("name", NOT_TEXT)
def test_what_is_no_text_is_refused(name: str) -> None:
    content, expected = NOT_TEXT[name]
    assert message_of({"f.yaml": content}) == expected


def test_an_exponential_text_of_aliases_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    assert "an alias" in message_of({"f.yaml": "\n".join(lines).encode()})


def test_a_mebibyte_of_brackets_is_refused_at_once() -> None:
    assert "nested more than 32 levels" in message_of({"f.yaml": b"[" * FILE_BYTES_MAX})


def test_a_mebibyte_of_unknown_fields_does_not_become_a_mebibyte_of_messages() -> None:
    fields = "".join(f"{'x' * 20}{i}: 1\n" for i in range(30_000))
    assert len(message_of({"f.yaml": (NODE + fields).encode()}).split("\n")) <= 50


def test_more_documents_than_any_cluster_has_are_refused() -> None:
    one = NODE.replace("name: a", "name: a{}")
    files = {f"{k}.yaml": "---\n".join(one.format(f"-{k}-{i}", "{}") for i in range(1025)) for k in range(4)}
    text = message_of({name: body.replace("a-", "a").encode() for name, body in files.items()})
    assert text == f"3.yaml:{7 * 1021 + 1}:1: more than {DOCUMENTS_MAX} documents"


def test_a_syntax_error_after_very_many_other_problems_is_one_too_many() -> None:
    lines = message_of({"f.yaml": b"a: 1\n" * 51 + b"b: ]\n"}).split("\n")
    assert len(lines) == 50
    assert all("duplicate key" in line for line in lines)


def test_a_file_of_nothing_but_dashes_is_refused_at_once() -> None:
    text = message_of({"f.yaml": b"---\n" * (FILE_BYTES_MAX // 4)})
    assert text == f"f.yaml:{DOCUMENTS_MAX + 1}:1: more than {DOCUMENTS_MAX} documents"


def test_problems_without_end_are_not_listed_without_end() -> None:
    text = message_of({f"{i}.yaml": b"kind: Nod\n---\n" * 900 for i in range(9)})
    assert len(text.split("\n")) == PROBLEMS_MAX + 1
    assert "0.yaml:999:7: further problems are not listed" in text.split("\n")[-2:]


def test_the_name_of_a_file_cannot_speak_to_the_terminal() -> None:
    assert (
        message_of({"\x1b[2J.yaml": b""})
        == "\N{REPLACEMENT CHARACTER}[2J.yaml:1:1: a file's name must be printable text"
    )


def test_documents_without_content_are_nothing() -> None:
    assert load({"a.yaml": b"", "b.yaml": b"# only words\n---\n---\n~\n--- # and more\nnull\n"}) == ()


def test_problems_of_all_files_and_documents_come_together_in_order() -> None:
    files = {"b.yaml": b"kind: @\n---\nkind: [\n", "a.yaml": b"x\n"}
    assert message_of(files).split("\n") == [
        'a.yaml:1:1: expected a mapping that begins with "apiVersion" and "kind", got text',
        'b.yaml:1:7: text cannot begin with "@"; put it in quotes',
        "b.yaml:4:1: expected a value; a bracket is missing or superfluous",
    ]


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    text = (
        "\ufeff"
        + NODE.replace("\n", "\r\n")
        + "---\r\n"
        + NODE.replace("name: a", "name: b").replace("\n", "\r\n")
    )
    found = load({"f.yaml": text.encode()})
    assert [(document.key, document.line) for document in found] == [(("Node", "a"), 1), (("Node", "b"), 8)]


def test_dashes_in_a_block_of_text_still_begin_a_document_as_yaml_says() -> None:
    assert "unknown field" in message_of({"f.yaml": (NODE + "x: |\n  text\n---\n" + NODE).encode()})


def test_a_document_may_begin_on_the_line_of_its_dashes() -> None:
    (document,) = load(
        {
            "f.yaml": b"--- {apiVersion: reconciler/v1alpha1, kind: Node, metadata: {name: a}, spec: {local: {}}}"
        }
    )
    assert document.key == ("Node", "a")
    problem = message_of({"f.yaml": b"--- {kind: Nod}"}).split("\n")[-1]
    assert problem == 'f.yaml:1:12: kind: unknown kind "Nod", did you mean "Node"?'
