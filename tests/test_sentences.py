"""No pure room reads a sentence: it makes them, and decides by types, keys and numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from .sentences import NAMES, ROOMS
from .test_tidy import PRODUCT, ROOT, at, nodes

SAID = NAMES | {"line", "reason", "sentence", "summary", "told"}
"""Names of values with sentences: of fields, variables and functions, also in the plural."""
READ_BY = frozenset(dir(str)) - {"join", "format", "format_map", "encode"}
"""Methods that take a text apart, or ask something about it."""
MATCHED_BY = frozenset({"findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"})
PURE = [
    path for path in PRODUCT if path.relative_to(ROOT / "reconciler").parts[0].removesuffix(".py") in ROOMS
]


def is_said(node: ast.AST) -> bool:
    """Return whether an expression has the name of a sentence, or is one that is put together."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return bool({(bare := name.lstrip("_")), bare.removesuffix("s")} & SAID)
        case ast.Subscript(value=inner) | ast.Call(func=inner):
            return is_said(inner)
        case ast.NamedExpr(target=target):
            return is_said(target)
        case ast.BoolOp(values=parts):
            return any(map(is_said, parts))
        case _:
            return isinstance(node, ast.JoinedStr)


def is_written(node: ast.AST, words: int) -> bool:
    """Return whether an expression is a text of at least so many words, or a collection with one."""
    match node:
        case ast.Constant(value=str(text)) | ast.MatchValue(value=ast.Constant(value=str(text))):
            return len(text.split()) >= words
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(is_written(each, words) for each in parts)
        case ast.MatchOr(patterns=patterns):
            return any(is_written(each, words) for each in patterns)
        case _:
            return False


def readings(tree: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield the expressions that read a sentence."""
    for node in tree:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="str"), attr=name), args=[text, *_]):
                found = name in READ_BY and is_said(text)
            case ast.Call(func=ast.Attribute(value=receiver, attr=name), args=args):
                found = (name in READ_BY and is_said(receiver)) or (
                    name in MATCHED_BY and any(map(is_said, args))
                )
            case ast.Compare(left=left, ops=ops, comparators=others):
                pairs = zip(ops, [left, *others], others, strict=False)
                found = any(_is_reading(*each) for each in pairs)
            case ast.Match(subject=subject, cases=cases):
                if is_said(subject) and any(is_written(case.pattern, 2) for case in cases):
                    yield subject
                continue
            case _:
                continue
        if found:
            yield node


def _is_reading(op: ast.cmpop, one: ast.expr, other: ast.expr) -> bool:
    if isinstance(op, ast.In | ast.NotIn):
        within = is_said(other) and (isinstance(other, ast.Attribute) or is_written(one, 0))
        return within or is_written(other, 2) or (is_said(one) and isinstance(other, ast.Constant))
    return isinstance(op, ast.Eq | ast.NotEq) and (is_written(one, 2) or is_written(other, 2))


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.relative_to(ROOT / "reconciler").as_posix())
def test_a_pure_room_reads_no_sentence(path: Path) -> None:
    assert [f"{at(path, each)}: {ast.unparse(each)}" for each in readings(nodes(path))] == []


def test_each_room_is_looked_at() -> None:
    assert {path.relative_to(ROOT / "reconciler").parts[0].removesuffix(".py") for path in PURE} == {*ROOMS}


@pytest.mark.parametrize(
    "planted",
    [
        'seen, _, steps = refusal.text.partition("; to do: ")',
        'text.startswith("no cable")',
        'trouble.seen.lower().find("cable")',
        'self._message.strip() or "none"',
        'texts[0].removesuffix(".")',
        '(text := told(seen)).split("; ")',
        'f"{seen}; {doing}".replace("; ", ": ")',
        'str.endswith(message, "gone")',
        'if "metal" in ended.detail: pass',
        'if "metal" in ended.detail.lower(): pass',
        "if trouble.person in refusal.text: pass",
        'if "cable" not in message: pass',
        'if message in "no cable": pass',
        'if why in ("it is gone", "it is away"): pass',
        'if status.problem == "no answer": pass',
        'if "no answer" != found: pass',
        're.search("cable", trouble.seen)',
        "GONE.fullmatch(summary)",
        're.compile("cable").sub("", self.reason)',
        'match condition.message:\n    case "no answer" | "no cable": pass',
    ],
)
def test_a_planted_reading_is_found(planted: str) -> None:
    assert list(readings(ast.walk(ast.parse(planted))))


@pytest.mark.parametrize(
    "code",
    [
        'text = f"{trouble.seen}; to do: {trouble.person}"',
        '"; ".join(each.text for each in found)',
        'row.person.format(node="a")',
        'if condition.reason == "NotSeen" or reason in ("NotSeen", "NotAsked"): pass',
        "if place not in seen: pass",
        "if refusal.text: pass",
        'name.partition("/")',
        "text[:LENGTH_MAX]",
    ],
)
def test_what_makes_sentences_or_reads_keys_is_allowed(code: str) -> None:
    assert not list(readings(ast.walk(ast.parse(code))))
