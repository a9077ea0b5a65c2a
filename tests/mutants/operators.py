"""What a bug changes: operators on the syntax tree of its place.

Each picks a node by its kind and its number among those of that kind in the place, in the order of the source, and
says how many there are: where the code has changed so far that this no longer holds, it raises ``NotApplicable``.
No operator mentions a local name. What a replacement is made of is taken from the tree: in its template ``{it}`` is
the node that is replaced, ``{it.left}`` a part of it, and ``{place}`` the whole function.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from .places import NotApplicable, address

ALL = -1
"""Instead of a number: every one of the nodes."""
Spoil = Callable[[ast.AST, ast.AST], list[ast.AST]]
"""What stands instead of a node: the node, the place."""


@dataclass(frozen=True, slots=True)
class Change:
    """One node, and what becomes of it."""

    kind: type[ast.AST]
    nth: int
    of: int
    spoil: Spoil
    holding: str = ""
    """Only strings with this in them count."""

    def apply(self, place: ast.AST) -> None:
        """Change the place. Raises ``NotApplicable`` where it is not as expected."""
        _give_each_its_own(place)
        found = [node for node in preorder(place) if self._picks(node)]
        if len(found) != self.of:
            raise NotApplicable(f"expected {self.of} of {self.kind.__name__}, found {len(found)}")
        for node in found if self.nth == ALL else [found[self.nth]]:
            try:
                _replace(place, node, self.spoil(node, place))
            except (AttributeError, IndexError, KeyError, SyntaxError, TypeError, ValueError) as error:
                raise NotApplicable(f"{self.kind.__name__} {self.nth} is of another form: {error}") from error

    def _picks(self, node: ast.AST) -> bool:
        if not isinstance(node, self.kind):
            return False
        return not self.holding or self.holding in str(getattr(node, "value", ""))


@dataclass(frozen=True, slots=True)
class _Inside:
    """A change in one part of the place: in the only node of a kind, or in the only one that mentions something."""

    kind: type[ast.AST]
    change: Change
    about: object = None
    """A function, class or member of the product; None where the place has one node of the kind."""

    def apply(self, place: ast.AST) -> None:
        """Change that part. Raises ``NotApplicable`` unless there is exactly one."""
        found = [node for node in preorder(place) if isinstance(node, self.kind) and self._mentions(node)]
        inner = [
            node for node in found if not any(one is not node and one in found for one in preorder(node))
        ]
        if len(inner) != 1:
            raise NotApplicable(f"expected one {self.kind.__name__}, found {len(inner)}")
        self.change.apply(inner[0])

    def _mentions(self, node: ast.AST) -> bool:
        if self.about is None:
            return True
        name = address(self.about).qualname.rpartition(".")[2]
        return any(getattr(each, "attr", getattr(each, "id", "")) == name for each in preorder(node))


class Operator(Protocol):
    """What changes a place."""

    def apply(self, place: ast.AST) -> None:
        """Change it. Raises ``NotApplicable`` where it is not as expected."""


def never(kind: type[ast.AST] = ast.If, nth: int = 0, of: int = 1) -> Change:
    """Have a condition be false."""
    return Change(kind, nth, of, _tested(False))


def always(kind: type[ast.AST] = ast.If, nth: int = 0, of: int = 1) -> Change:
    """Have a condition be true."""
    return Change(kind, nth, of, _tested(True))


def drop(kind: type[ast.AST], nth: int = 0, of: int = 1) -> Change:
    """Leave out a statement, an argument, an operand, an element or a handler."""
    return Change(kind, nth, of, lambda _node, _place: [])


def put(kind: type[ast.AST], template: str, nth: int = 0, of: int = 1, *, using: object = None) -> Change:
    """Replace an expression, a statement, or the value of a keyword by one that is made of its parts.

    ``{using}`` is something of the product that the place does not mention.
    """
    return Change(kind, nth, of, lambda node, place: _built(template, node, place, using))


def keep(kind: type[ast.AST], part: str, nth: int = 0, of: int = 1) -> Change:
    """Leave of a node only a part of it: ``values[0]``."""
    return put(kind, f"{{it.{part}}}", nth, of)


def catch_nothing(nth: int = 0, of: int = 1) -> Change:
    """Have a handler wait for an error that never comes."""
    return Change(ast.ExceptHandler, nth, of, _catching_nothing)


def respell(old: str, new: str, nth: int = 0, of: int = 1) -> Change:
    """Change a part of a string, of so many strings that have this part."""
    return Change(ast.Constant, nth, of, lambda node, _place: [_respelt(node, old, new)], old)


def become(kind: type[ast.AST], other: type[ast.AST], nth: int = 0, of: int = 1) -> Change:
    """Have an operator be another one."""
    return Change(kind, nth, of, lambda _node, _place: [other()])


def precede(kind: type[ast.AST], template: str, nth: int = 0, of: int = 1) -> Change:
    """Put a statement before another."""
    return Change(kind, nth, of, lambda node, place: [*_built(template, node, place), node])


def follow(kind: type[ast.AST], template: str, nth: int = 0, of: int = 1) -> Change:
    """Put a statement behind another."""
    return Change(kind, nth, of, lambda node, place: [node, *_built(template, node, place)])


def delay(kind: type[ast.AST], nth: int = 0, of: int = 1, *, by: int = 1) -> Change:
    """Have a statement come so many statements later."""
    return Change(kind, nth, of, lambda node, place: _delayed(node, place, by))


def inside(kind: type[ast.AST], change: Change, *, about: object = None) -> _Inside:
    """Change only the part of the place that is of a kind, and that mentions something of the product."""
    return _Inside(kind, change, about)


def preorder(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all within it, in the order of the source."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from preorder(child)


def _give_each_its_own(place: ast.AST) -> None:
    """Have no two nodes share an operator, as the parser has them: then the second one cannot be told from the first."""
    for node in preorder(place):
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.operator | ast.boolop | ast.unaryop):
                setattr(node, name, type(value)())
            elif isinstance(node, ast.Compare) and name == "ops":
                node.ops = [type(each)() for each in node.ops]


def _tested(value: bool) -> Spoil:
    def spoil(node: ast.AST, _place: ast.AST) -> list[ast.AST]:
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            node.test = ast.Constant(value)
            return [node]
        return [ast.Constant(value)]

    return spoil


def _catching_nothing(node: ast.AST, _place: ast.AST) -> list[ast.AST]:
    assert isinstance(node, ast.ExceptHandler)
    node.type = ast.Name("ZeroDivisionError", ast.Load())
    return [node]


def _replace(place: ast.AST, node: ast.AST, instead: list[ast.AST]) -> None:
    """Put nodes where one is. What becomes empty is filled, so that the result is Python."""
    if instead == [node]:
        return
    for parent in preorder(place):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, instead[0])
                return
            if isinstance(value, list) and any(each is node for each in value):
                at = next(i for i, each in enumerate(value) if each is node)
                value[at : at + 1] = instead
                if not value and isinstance(node, ast.stmt) and name != "orelse":
                    value.append(ast.Pass())
                if isinstance(parent, ast.BoolOp) and len(value) == 1:
                    _replace(place, parent, value)
                return
    raise NotApplicable("a place is not replaced by something else")


class _Part:
    """A part of the tree as a template names it; it leaves a mark where it stands, and notes what the mark is for."""

    def __init__(self, value: object, marks: dict[str, object]) -> None:
        self._value = value
        self._marks = marks

    def __getattr__(self, name: str) -> _Part:
        return _Part(getattr(self._value, name), self._marks)

    def __getitem__(self, at: int) -> _Part:
        assert isinstance(self._value, list)
        return _Part(self._value[at], self._marks)

    def __format__(self, _: str) -> str:
        if isinstance(self._value, str):
            return self._value
        mark = f"part_{len(self._marks)}_"
        self._marks[mark] = self._value
        return mark


class _Filled(ast.NodeTransformer):
    """Puts copies of parts where their marks are."""

    def __init__(self, marks: dict[str, object]) -> None:
        self._marks = marks

    def visit_Name(self, node: ast.Name) -> object:
        return copy.deepcopy(self._marks.get(node.id, node))

    def visit_Expr(self, node: ast.Expr) -> object:
        part = self._marks.get(node.value.id) if isinstance(node.value, ast.Name) else None
        return copy.deepcopy(part) if isinstance(part, ast.stmt | list) else self.generic_visit(node)


def _built(template: str, node: ast.AST, place: ast.AST, using: object = None) -> list[ast.AST]:
    marks: dict[str, object] = {}
    reference = _imported(using) if using is not None else ""
    text = template.format(it=_Part(node, marks), place=_Part(place, marks), using=reference)
    tree = _Filled(marks).visit(ast.parse(text))
    body: list[ast.AST] = tree.body
    if isinstance(node, ast.stmt):
        return body
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise ValueError("no expression")
    value = body[0].value
    return [ast.keyword(node.arg, value) if isinstance(node, ast.keyword) else value]


def _imported(using: object) -> str:
    """The expression for something of the product in whatever module."""
    at = address(using)
    return f"__import__('importlib').import_module({at.module!r}).{at.qualname}"


def _respelt(node: ast.AST, old: str, new: str) -> ast.AST:
    assert isinstance(node, ast.Constant)
    if not isinstance(node.value, str) or node.value.count(old) != 1:
        raise ValueError(f"{old!r} is not there once")
    return ast.Constant(node.value.replace(old, new))


def _delayed(node: ast.AST, place: ast.AST, by: int) -> list[ast.AST]:
    """Move the node within its list already; what stands instead of it is the statement that takes its place."""
    for parent in preorder(place):
        for _name, value in ast.iter_fields(parent):
            if isinstance(value, list) and any(each is node for each in value):
                at = next(i for i, each in enumerate(value) if each is node)
                overtaken = value[at + 1 : at + 1 + by]
                if len(overtaken) != by:
                    raise ValueError("too few statements come after it")
                del value[at + 1 : at + 1 + by]
                return [*overtaken, node]
    raise ValueError("it is in no list")
