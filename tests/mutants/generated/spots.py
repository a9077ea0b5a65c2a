"""What a rule may change: the nodes of a place that decide or do something.

A place is a function of a module, a method of a class, or what is left of the module or the class without those.
Left out is what is written for people or for the type checker: annotations, decorators, logs, messages, ``__repr__``.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.mutants.places import given_names

LOGS = frozenset({"log", "_log", "logger", "logging", "warnings"})
FOR_PEOPLE = frozenset({"__repr__", "__str__"})
FOR_TYPES = frozenset({"overload", "abstractmethod"})
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (ast.Module, ast.ClassDef)
LEFT_OUT = ("annotation", "returns", "decorator_list", "type_params", "bases")


@dataclass(frozen=True, slots=True)
class Spot:
    """A node of a place."""

    node: ast.AST
    above: tuple[ast.AST, ...]
    """From the place to the node's parent."""
    field: str
    """Of the parent, in which the node stands."""
    at: int = -1
    """The node's number in that field, where it is a list."""

    @property
    def parent(self) -> ast.AST:
        """The node that this one is a part of."""
        return self.above[-1]

    @property
    def place(self) -> ast.AST:
        """The function, class or module."""
        return self.above[0]

    @property
    def block(self) -> list[ast.AST]:
        """The list of the parent that the node stands in; empty where it stands alone."""
        block = getattr(self.parent, self.field)
        return block if isinstance(block, list) else []

    def put(self, *instead: ast.AST) -> None:
        """Have other nodes stand there. Operators are found by their number: the parser shares one among all."""
        if self.at >= 0:
            self.block[self.at : self.at + 1] = instead
        else:
            (node,) = instead
            setattr(self.parent, self.field, node)


def places(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield each place of a module with its qualified name; that of the module itself is empty."""
    yield "", tree
    for child in _apart(tree):
        assert isinstance(child, (*FUNCTIONS, ast.ClassDef))
        yield child.name, child
        for method in _apart(child):
            assert isinstance(method, FUNCTIONS)
            yield f"{child.name}.{method.name}", method


def spots(place: ast.AST) -> Iterator[Spot]:
    """Yield every node of a place that a rule may change, in the order of the source."""
    if not _is_for_others(place):
        yield from _below(place, (place,), _apart(place))


def _below(node: ast.AST, above: tuple[ast.AST, ...], apart: list[ast.AST]) -> Iterator[Spot]:
    for name, value in ast.iter_fields(node):
        if name in LEFT_OUT:
            continue
        for at, child in enumerate(value) if isinstance(value, list) else [(-1, value)]:
            if isinstance(child, ast.AST) and child not in apart and not _is_for_others(child):
                yield Spot(child, above, name, at)
                if not isinstance(child, ast.Raise | ast.Assert):  # what they contain is a message
                    yield from _below(child, (*above, child), apart)


def _apart(place: ast.AST) -> list[ast.AST]:
    """Return what is a place of its own within another, because its name is there only once."""
    if not isinstance(place, SCOPES):
        return []
    kinds = (*FUNCTIONS, ast.ClassDef) if isinstance(place, ast.Module) else FUNCTIONS
    names = Counter(name for child in place.body for name in given_names(child))
    return [child for child in place.body if isinstance(child, kinds) and names[child.name] == 1]


def _is_for_others(node: ast.AST) -> bool:
    """Say whether a node is for people, for the type checker or for the start of a process alone."""
    match node:
        case ast.JoinedStr():
            return True
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            words = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
            return node.name in FOR_PEOPLE or bool(words & FOR_TYPES)
        case ast.ClassDef():
            return any(ast.unparse(base).startswith("Protocol") for base in node.bases)
        case ast.If():
            return any(name in ast.unparse(node.test) for name in ("TYPE_CHECKING", "__name__"))
        case ast.Subscript():
            return ast.unparse(node.value).endswith("Literal")
        case ast.Expr(value=ast.Call(func=function)):
            word = ast.unparse(function)
            return word.endswith("assert_never") or word.rpartition(".")[0] in LOGS
        case ast.Assert():
            return not isinstance(node.test, ast.Compare) or isinstance(node.test.ops[0], ast.IsNot)
        case _:
            return False
