"""kubectl's JSONPath templates: what they print, and how wrong ones are told."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli.output.jsonpath import BadTemplate, find, parse_path, parse_template, render
from reconciler.errors import Invalid

CLUSTER: dict[str, Any] = {
    "kind": "List",
    "items": [
        {
            "metadata": {"name": "one", "labels": {"example.com/zone": "east", "gpu": "yes"}},
            "status": {"ready": True, "memory": 64, "addresses": [{"type": "lan", "at": "10.0.0.1"}]},
        },
        {
            "metadata": {"name": "two", "labels": {"example.com/zone": "west"}},
            "status": {
                "ready": False,
                "memory": 128,
                "addresses": [{"type": "lan", "at": "10.0.0.2"}, {"type": "tb", "at": "10.77.0.2"}],
            },
        },
    ],
    "numbers": [0, 1, 2, 3, 4],
}

PRINTED = [
    ("kind is {.kind}", "kind is List"),
    ("{$.kind}", "List"),
    ("{@.kind}", "List"),
    ("{ .kind }", "List"),
    ("{['kind']}", "List"),
    ('{["kind"]}', "List"),
    ("{.items[*].metadata.name}", "one two"),
    ("{.items[0].metadata.name}", "one"),
    ("{.items[-1].metadata.name}", "two"),
    ("{.items[-1:].metadata.name}", "two"),
    ("{.numbers[1:3]}", "1 2"),
    ("{.numbers[:2]}", "0 1"),
    ("{.numbers[::2]}", "0 2 4"),
    ("{.numbers[:4:2]}", "0 2"),
    ("{.numbers[1,3,4]}", "1 3 4"),
    ("{.numbers[2:99]}", "2 3 4"),
    ("{.numbers}", "[0,1,2,3,4]"),
    ("{.numbers[?(@<2)]}", "0 1"),
    ("{.items[0].status.addresses}", '[{"type":"lan","at":"10.0.0.1"}]'),
    ("{.items[*]['metadata.name', 'status.memory']}", "one two 64 128"),
    (r"{.items[0].metadata.labels.example\.com/zone}", "east"),
    ('{.items[0].metadata.labels["example.com/zone"]}', "east"),
    ("{.items[0].metadata.labels.*}", "east yes"),
    ('{.items[?(@.metadata.name=="two")].status.memory}', "128"),
    ("{.items[?(@.metadata.name!='two')].status.memory}", "64"),
    (r'{.items[?(@.metadata.labels.example\.com/zone=="west")].metadata.name}', "two"),
    ("{.items[?(@.metadata.labels.gpu)].metadata.name}", "one"),
    ("{.items[?(@.status.ready==true)].metadata.name}", "one"),
    ("{.items[?( @.status.memory >= 128 )].metadata.name}", "two"),
    ('{.items[?(@.status.addresses[?(@.type=="tb")])].metadata.name}', "two"),
    ('{.items[?(@.status.memory=="64")].metadata.name}', ""),
    ("{..at}", "10.0.0.1 10.0.0.2 10.77.0.2"),
    ("{.items[?(@..ready==true)].metadata.name}", "one"),
    ('{range .items[*]}{.metadata.name}{"\\t"}{.status.memory}{"\\n"}{end}', "one\t64\ntwo\t128\n"),
    ("{range .items[*]}[{.metadata.name}, {.status.ready}] {end}{.kind}", "[one, true] [two, false] List"),
    ("{range .items[*]}{range .status.addresses[*]}{.at}, {end};{end}", "10.0.0.1, ;10.0.0.2, 10.77.0.2, ;"),
    ("{range .nothing[*]}{.a}{end}", ""),
    ("before-{.missing}-after", "before--after"),
    ("{.missing.deeper[0].still}", ""),
    ('{"{"}', "{"),
    ("{'it\\'s'}", "it's"),
]


@pytest.mark.parametrize(("template", "printed"), PRINTED)
def test_a_template_prints_what_kubectl_prints(template: str, printed: str) -> None:
    assert render(parse_template(template), CLUSTER) == printed


WRONG = [
    ("{.items[*}", 10, "expected ]"),
    ("{.kind", 7, "expected }"),
    ("{range .items[*]}{.a}", 2, "this range has no {end}"),
    ("{.a}{end}", 9, "no range is open here"),
    ("{.items[?(@.a<>1)]}", 14, "expected one of ==, !=, <, <=, >, >="),
    ("{.items[?(@.a=~'x')]}", 14, "expected one of ==, !=, <, <=, >, >="),
    ("{.items[?(@.a==)]}", 16, "expected a path such as @.name"),
    ("{.items[a]}", 9, "expected an index"),
    ("{.items[1:2:0]}", 13, "expected a step of at least 1"),
    ('{"open}', 2, "this quote is never closed"),
    ("{hello}", 2, "expected a path such as .metadata.name, a text in quotes"),
    ("{...a}", 4, "expected a field after the dots"),
    ("{.a .b}", 5, "expected }"),
    ('{"\\q"}', 4, r"expected one of \n"),
    (".metadata.name", 1, "a template has its paths in braces"),
    ("{range .a[*]}" * 40, 13 * 33 + 1, "at most 32 ranges"),
]


@pytest.mark.parametrize(("template", "at", "expected"), WRONG)
def test_a_wrong_template_is_reported_with_its_place(template: str, at: int, expected: str) -> None:
    with pytest.raises(BadTemplate) as refused:
        parse_template(template)
    assert f"at character {at}, " in str(refused.value)
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{.numbers[5]}", "array index out of bounds: index 5, length 5"),
        ("{.numbers[-6]}", "array index out of bounds: index -6, length 5"),
        ("{.kind[0]}", "List is not a list"),
        ("{.items[0].metadata[0]}", "an object is not a list"),
    ],
)
def test_an_index_that_fits_nothing_is_an_error(path: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        render(parse_template(path), CLUSTER)


@pytest.mark.parametrize(
    "spelled", ["{.metadata.name}", ".metadata.name", "metadata.name", " {metadata.name} "]
)
def test_a_lone_path_needs_neither_braces_nor_dot(spelled: str) -> None:
    assert find(parse_path(spelled), CLUSTER["items"][0]) == ["one"]


@pytest.mark.parametrize("spelled", ["", "{}", "a b", ".a]"])
def test_a_wrong_path_is_reported(spelled: str) -> None:
    with pytest.raises(BadTemplate):
        parse_path(spelled)


@given(st.text(alphabet="{}[]().,*:?@$<>=\"\\' ab1-range end", max_size=40))
def test_no_template_does_anything_but_print_or_say_what_is_wrong(template: str) -> None:
    with suppress(BadTemplate, Invalid):
        render(parse_template(template), CLUSTER)
