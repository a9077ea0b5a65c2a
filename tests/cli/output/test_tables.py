"""Tables fit a terminal of 100 columns whatever the objects are called, and never cut a name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli.commands.read.events import event_table
from reconciler.cli.output.kind_columns import COLUMNS, headers, row
from reconciler.cli.output.table_layout import fitting, fold, folded_table, grown, lines, plain, table
from reconciler.resources import KINDS
from reconciler.wire.answers import EventEntry
from reconciler.wire.objects import Condition
from tests.cli import bodies
from tests.cli.jobs import answer
from tests.status.jobs import failed, run, succeeded
from tests.worlds import sync_window

WIDTH = 100

names = st.text(alphabet="abcdefghij-.0123456789", min_size=1, max_size=63)
texts = st.text(max_size=200)


def test_every_kind_has_columns() -> None:
    assert COLUMNS.keys() == {*KINDS, "Rank", "Operation"}, "these two are shown, and no manifests of main"


@st.composite
def conditions(draw: st.DrawFn) -> list[Condition]:
    ready, stalled = draw(st.booleans()), draw(st.one_of(st.just(""), texts))
    return bodies.conditions(ready=ready, message=draw(texts), stalled=stalled)


@st.composite
def objects(draw: st.DrawFn) -> Any:
    """An object of any kind with names and texts of any length."""
    name, other, third = draw(names), draw(names), draw(names)
    kind = draw(st.sampled_from(sorted(COLUMNS)))
    if kind == "Rank":
        item: Any = bodies.rank(0) | {"node": other, "detail": draw(texts)}
    elif kind == "Node":
        item = bodies.node(name)
        item["status"]["system"] = draw(texts)
    elif kind == "Model":
        item = bodies.model()
        hub = {"repo": f"org/{other}", "revision": "c0ffee" + "1" * 34}
        item["spec"]["source"] = draw(st.sampled_from([{"path": draw(texts)}, {"huggingface": hub}]))
        item["status"]["nodes"] = {other: draw(texts), third: "present"}
    elif kind == "ModelDeployment":
        item = bodies.deployment()
        item["spec"]["model"] = other
        item["status"]["groups"][0]["nodes"] = [other, third]
    elif kind == "Job":
        (item,) = answer(draw(st.sampled_from([run(), failed(3), succeeded(12)])))["items"]
        item["status"]["nodes"] = [other, third]
    else:
        item = bodies.gateway()
        item["status"]["endpoint"] = draw(texts)
    item["metadata"] = {"name": f"{name}.10.20.30" if kind == "Rank" else name, "labels": {other: third}}
    if kind != "Rank":
        item["status"]["conditions"] = draw(conditions())
    return item


@given(st.lists(objects(), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_any_object_of_any_kind_fits_a_hundred_columns(
    items: list[Any], wide: bool, with_labels: bool
) -> None:
    for item in items:
        rows = [row(item, wide, with_labels)]
        shown = table(headers(item["kind"], wide, with_labels), rows, WIDTH).split("\n")
        assert len(shown) == 2
        assert max(map(len, shown)) <= WIDTH
        assert shown[1].split()[0] == item["metadata"]["name"]


def test_a_sync_window_is_shown_with_the_duration_that_people_write() -> None:
    window = sync_window(duration="90m", deployments=["a", "b-*"], selector={"tier": "test"})
    item = json.loads(window.model_dump_json(by_alias=True))
    item["status"] = {
        "holds": ["modeldeployment/a"],
        "conditions": bodies.conditions(True, "begins at eight"),
    }
    assert row(item, wide=True)[1:] == [
        "deny", "0 8 * * 1-5", "90m", "UTC", "1", "a,b-*,tier=test", "begins at eight",
    ]  # fmt: skip
    item["spec"]["duration"] = "36000s"
    assert row(item)[3] == "10h"


def test_the_last_column_is_cut_with_an_ellipsis_and_has_all_the_room_there_is() -> None:
    (above, below) = table(("NAME", "STATUS"), [("tiny", "x" * 200)], WIDTH).split("\n")
    assert above == "NAME   STATUS"
    assert below == f"tiny   {'x' * 92}…"


@pytest.mark.parametrize(("columns", "length"), [("", 207), ("0", 207), ("wide", 207), ("60", 60)])
def test_a_pipe_gets_whole_lines_or_lines_as_long_as_it_is_said(
    monkeypatch: pytest.MonkeyPatch, columns: str, length: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert len(table(("NAME", "STATUS"), [("tiny", "x" * 200)]).split("\n")[1]) == length


def test_columns_that_do_not_fit_are_left_out_before_the_last() -> None:
    shown = table(("NAME", "ONE", "TWO", "STATUS"), [("n" * 85, "1" * 20, "2" * 20, "Ready")], WIDTH)
    assert shown.split("\n")[0].split() == ["NAME", "STATUS"]
    shown = table(("NAME", "ONE", "STATUS"), [("n" * 70, "1" * 20, "Ready")], WIDTH)
    assert shown.split("\n")[1] == f"{'n' * 70}   {'1' * 17}…   Ready"


@pytest.mark.parametrize(
    ("natural", "widths"),
    [
        ((85, 20, 30), [85, 0, 12]),
        ((85, 20, 10), [85, 0, 10]),
        ((70, 10, 20, 30), [70, 8, 0, 16]),
        ((100, 20, 30), [100, 0, 0]),
    ],
)
def test_the_last_column_has_the_room_of_columns_that_are_left_out(
    natural: tuple[int, ...], widths: list[int]
) -> None:
    assert fitting([["x" * size for size in natural]], WIDTH) == widths


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[31mred", "a\tb"])
def test_nothing_in_a_cell_acts_on_the_terminal(text: str) -> None:
    shown = table(("NAME", "STATUS"), [("tiny", text)], WIDTH)
    assert shown.count("\n") == 1
    assert shown.replace("\n", "").isprintable()


@given(texts)
def test_what_happened_is_folded_and_never_cut(message: str) -> None:
    event: EventEntry = {
        "id": 1,
        "time": "2026-11-21T15:00:00Z",
        "type": "Warning",
        "reason": "RankExited",
        "object": "node/a",
        "message": message,
        "revision": "",
        "hookTime": None,
    }
    shown = event_table([event], WIDTH).splitlines()
    assert all(len(line) <= WIDTH for line in shown)
    column = shown[0].index("MESSAGE")
    assert "".join(line[column:] for line in shown[1:]).replace(" ", "") == plain(message).replace(" ", "")


def test_a_line_of_a_growing_list_goes_on_below_what_it_is_about() -> None:
    assert fold("15:03:44.554   node/a: Ready: its agent answers", 40, " " * 17) == [
        "15:03:44.554   node/a: Ready: its agent",
        " " * 17 + "answers",
    ]


def test_a_sentence_without_room_beside_its_row_stands_below_it() -> None:
    rows = [("1", "modeldeployment/a-long-name", "rank 1 of tiny/0 was killed by the kernel: out of memory")]
    assert folded_table(("ID", "OBJECT", "WHAT HAPPENED"), rows, 44).splitlines() == [
        "ID   OBJECT",
        "1    modeldeployment/a-long-name",
        "    rank 1 of tiny/0 was killed by the",
        "    kernel: out of memory",
    ]


def test_columns_of_a_list_that_goes_on_grow_and_its_last_one_has_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    first = grown([("NAME", "STATUS"), ("a", "Ready")])
    assert lines([("a", "waiting for the weights of a model")], first) == [
        "a      waiting for the weights of a mod…"
    ]
    later = grown([("a-longer-name", "Ready")], first)
    assert later == [13, 24]
    assert grown([("a", "b")], later) == later
