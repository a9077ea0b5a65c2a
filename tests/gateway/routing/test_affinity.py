"""A conversation goes to the group that has read it, unless that has too much to do."""

from __future__ import annotations

from typing import Any

from reconciler.gateway.routing import affinity
from reconciler.gateway.routing.affinity import AHEAD_MAX, BEGINNINGS_MAX, Affinity, beginnings
from reconciler.wire.generation import Generate

SYSTEM = {"role": "system", "content": "Be brief."}


def chat(*texts: str, **fields: Any) -> Generate:
    roles = ("user", "assistant")
    said = ({"role": roles[at % 2], "content": text} for at, text in enumerate(texts))
    return Generate("", (SYSTEM, *said), **fields)


def near(
    known: Affinity[str], generate: Generate, session: str = "", batch: int = 0, **loads: int
) -> str | None:
    return known.choose(beginnings("m", generate, session), loads or {"a": 0, "b": 0}, batch)


def read(
    group: str, generate: Generate, session: str = "", known: Affinity[str] | None = None
) -> Affinity[str]:
    known = Affinity() if known is None else known
    known.note(beginnings("m", generate, session), group)
    return known


def test_the_next_turn_goes_where_the_turn_before_was_read() -> None:
    known = read("a", chat("hello"))
    read("b", chat("good day"), known=known)
    assert near(known, chat("hello", "hi", "and now?")) == "a"
    assert near(known, chat("good day", "hi", "and now?")) == "b"
    assert near(known, chat("somebody else")) == "b", "which read the same system prompt last"


def test_another_model_other_tools_and_another_beginning_are_other_prompts() -> None:
    known = read("a", chat("hello"))
    assert known.choose(beginnings("other", chat("hello")), {"a": 0}, 0) is None
    assert near(known, chat("hello", tools=({"type": "function"},))) is None
    assert near(known, Generate("", ({"role": "user", "content": "hello"},))) is None


def test_prompts_without_messages_are_known_by_their_blocks() -> None:
    text = Generate("", (), prompt="x" * 3000 + "end")
    known = read("a", text)
    assert near(known, Generate("", (), prompt="x" * 3000 + "other end")) == "a"
    assert near(known, Generate("", (), prompt="y" * 3000)) is None
    tokens = Generate("", (), prompt_tokens=(5,) * 600)
    assert near(read("b", tokens), Generate("", (), prompt_tokens=(5,) * 599)) == "b"


def test_a_session_that_the_client_names_comes_first() -> None:
    known = read("a", chat("hello"), session="s")
    read("b", chat("hello"), known=known)
    assert near(known, chat("hello"), session="s") == "a"
    assert near(known, chat("quite something else"), session="s") == "a"
    assert near(known, chat("hello"), session="t") == "b"


def test_a_group_with_much_more_to_do_is_not_chosen_nor_one_that_is_full_while_another_is_not() -> None:
    known = read("a", chat("hello"))
    assert near(known, chat("hello"), a=AHEAD_MAX, b=0) == "a"
    assert near(known, chat("hello"), a=AHEAD_MAX + 1, b=0) is None
    assert near(known, chat("hello"), batch=2, a=2, b=1) is None
    assert near(known, chat("hello"), batch=2, a=2, b=2) == "a"


def test_a_group_that_is_gone_is_passed_over() -> None:
    known = read("gone", chat("hello", "hi", "more"), known=read("a", chat("hello")))
    known.note(beginnings("m", chat("hello"))[:1], "a")
    assert near(known, chat("hello", "hi", "more", "yes", "go on"), a=0, b=0) == "a"


def test_what_is_remembered_is_bounded(monkeypatch: Any) -> None:
    long = chat(*map(str, range(1000)))
    assert len(beginnings("m", long)) == BEGINNINGS_MAX
    monkeypatch.setattr(affinity, "REMEMBERED_MAX", 10)
    known = read("a", chat("first"))
    for number in range(20):
        read("b", chat(f"hello {number}"), known=known)
    assert len(known._groups) == 10
    assert near(known, chat("first")) == "b", "by its system prompt"
