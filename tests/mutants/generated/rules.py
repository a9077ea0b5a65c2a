"""The rules: each finds the places for one kind of mistake, and makes it.

A rule returns for one node the ways in which it can be spoiled there, mostly none or one. Two rules never make the
same change: a negated ``not`` is an ``is-not-dropped``, a guard before a ``raise`` is a fence.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.mutants.places import NotApplicable

from .spots import FUNCTIONS, SCOPES, Spot, spots

Spoiling = Callable[[], None]
"""Changes the tree that the spot is in, for good."""
Rule = Callable[[Spot], Sequence[Spoiling]]
EDGES: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt
}  # fmt: skip
OPPOSED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In
}  # fmt: skip
TEXTS = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp, ast.Dict)
HELD = re.compile(r"lock|mutex|semaphore|timeout|condition|suppress|writing", re.IGNORECASE)
"""Contexts whose block could as well stand without them."""
EXITS = (ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Planted:
    """An operator: the n-th way in which a rule can spoil a place."""

    rule: str
    nth: int

    def apply(self, place: ast.AST) -> None:
        """Change the place. Raises ``NotApplicable`` where the rule finds fewer."""
        found = [spoiling for rule, _, spoiling in ways(place) if rule == self.rule]
        if self.nth >= len(found):
            raise NotApplicable(f"expected more than {self.nth} for {self.rule}, found {len(found)}")
        found[self.nth]()


def ways(place: ast.AST) -> Iterator[tuple[str, Spot, Spoiling]]:
    """Yield each way in which a rule can spoil a place, in the order of the source."""
    for spot in spots(place):
        for name, rule in RULES.items():
            for spoiling in rule(spot):
                yield name, spot, spoiling


# --- guards ----------------------------------------------------------------------------------------


def _guard(spot: Spot) -> ast.expr | None:
    """Return the condition that the node is, where it decides something."""
    parent, node = spot.parent, spot.node
    tested = isinstance(parent, ast.If | ast.While | ast.IfExp) and parent.test is node
    filtered = isinstance(parent, ast.comprehension) and node in parent.ifs
    matched = isinstance(parent, ast.match_case) and parent.guard is node
    if not (tested or filtered or matched) or isinstance(node, ast.Constant):
        return None
    assert isinstance(node, ast.expr)
    return node


def _guard_negated(spot: Spot) -> Sequence[Spoiling]:
    guard = _guard(spot)
    opposite = isinstance(guard, ast.Compare) and len(guard.ops) == 1 and type(guard.ops[0]) in OPPOSED
    if guard is None or opposite or isinstance(guard, ast.UnaryOp):
        return []
    return [_instead(spot, ast.UnaryOp(ast.Not(), guard))]


def _guard_always(spot: Spot) -> Sequence[Spoiling]:
    endless = isinstance(spot.parent, ast.While)
    return [] if _guard(spot) is None or endless else [_instead(spot, ast.Constant(True))]


def _guard_never(spot: Spot) -> Sequence[Spoiling]:
    parent = spot.parent
    same_as_another = isinstance(parent, ast.If) and len(parent.body) == 1 and _leaves(parent.body[0])
    if _guard(spot) is None or same_as_another:
        return []
    return [_instead(spot, ast.Constant(False))]


def _leaves(statement: ast.stmt) -> bool:
    """Say whether another rule drops the statement."""
    plain = isinstance(statement, ast.Return) and statement.value is None
    return plain or isinstance(statement, (ast.Raise, *EXITS))


# --- comparisons and logic -------------------------------------------------------------------------


def _compared(swaps: Mapping[type[ast.cmpop], type[ast.cmpop]]) -> Rule:
    def rule(spot: Spot) -> Sequence[Spoiling]:
        other = swaps.get(type(spot.node)) if isinstance(spot.node, ast.cmpop) else None
        return [_instead(spot, other())] if other else []

    return rule


def _and_or(spot: Spot) -> Sequence[Spoiling]:
    if not isinstance(spot.node, ast.boolop):
        return []
    return [_instead(spot, ast.Or() if isinstance(spot.node, ast.And) else ast.And())]


def _operand_dropped(spot: Spot) -> Sequence[Spoiling]:
    node = spot.node
    if not isinstance(node, ast.BoolOp):
        return []
    kept = [node.values[:at] + node.values[at + 1 :] for at in range(len(node.values))]
    return [_instead(spot, values[0] if len(values) == 1 else ast.BoolOp(node.op, values)) for values in kept]


def _not_dropped(spot: Spot) -> Sequence[Spoiling]:
    node = spot.node
    return [_instead(spot, node.operand)] if _is_not(node) and isinstance(node, ast.UnaryOp) else []


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


# --- numbers ---------------------------------------------------------------------------------------


def _number(change: Callable[[float], float], *, constants: bool) -> Rule:
    """A rule for numbers: those of constants and fields, or those within functions."""

    def rule(spot: Spot) -> Sequence[Spoiling]:
        value = getattr(spot.node, "value", None) if isinstance(spot.node, ast.Constant) else None
        if not isinstance(value, int | float) or isinstance(value, bool) or change(value) == value:
            return []
        outside = isinstance(spot.place, SCOPES) and not any(
            isinstance(each, FUNCTIONS) for each in spot.above
        )
        return [_instead(spot, ast.Constant(change(value)))] if outside == constants else []

    return rule


def _min_max(spot: Spot) -> Sequence[Spoiling]:
    node, parent = spot.node, spot.parent
    if not isinstance(node, ast.Name) or not isinstance(parent, ast.Call) or parent.func is not node:
        return []
    other = {"min": "max", "max": "min"}.get(node.id)
    return [_instead(spot, ast.Name(other, ast.Load()))] if other else []


def _sign_swapped(spot: Spot) -> Sequence[Spoiling]:
    node, parent = spot.node, spot.parent
    if not isinstance(node, ast.Add | ast.Sub) or not isinstance(parent, ast.BinOp):
        return []
    if any(_is_text(each) for each in (parent.left, parent.right)):
        return []
    return [_instead(spot, ast.Sub() if isinstance(node, ast.Add) else ast.Add())]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, TEXTS) or isinstance(getattr(node, "value", None), str | bytes)


# --- effects and their order -----------------------------------------------------------------------


def _has_effect(spot: Spot) -> bool:
    """Say whether a statement does something that another one may see; what fills a new object does not count."""
    if any(isinstance(each, FUNCTIONS) and each.name == "__init__" for each in spot.above):
        return False
    match spot.node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case _:
            return False


def _statement_dropped(spot: Spot) -> Sequence[Spoiling]:
    return [_instead(spot, ast.Pass())] if _has_effect(spot) else []


def _order_swapped(spot: Spot) -> Sequence[Spoiling]:
    """An effect comes before the one that it was to follow; one of them at least is a call."""
    block, at = spot.block, spot.at
    if not isinstance(spot.node, ast.stmt) or at + 1 >= len(block):
        return []
    second = Spot(block[at + 1], spot.above, spot.field, at + 1)
    calls = any(isinstance(each.node, ast.Expr) for each in (spot, second))
    if not (calls and _has_effect(spot) and _has_effect(second)):
        return []

    def swap() -> None:
        block[at], block[at + 1] = block[at + 1], block[at]

    return [swap]


def _only_last(spot: Spot) -> Sequence[Spoiling]:
    """Of several things that an object remembers only the last one is left."""
    match spot.node:
        case (
            ast.Assign(targets=[ast.Subscript(value=ast.Attribute() as kept)])
            | ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Attribute() as kept, attr="append" | "add"))
            )
        ) if _has_effect(spot):
            cleared = ast.Call(ast.Attribute(kept, "clear", ast.Load()), [], [])
            return [_instead(spot, ast.Expr(cleared), spot.node)]
        case _:
            return []


# --- fences, exits, and what holds -----------------------------------------------------------------


def _fence_dropped(spot: Spot) -> Sequence[Spoiling]:
    if not isinstance(spot.node, ast.Raise | ast.Assert):
        return []
    dead = any(word in ast.unparse(spot.node) for word in ("NotImplementedError", "AssertionError"))
    return [] if dead else [_instead(spot, ast.Pass())]


def _handler_dropped(spot: Spot) -> Sequence[Spoiling]:
    node = spot.node
    if not isinstance(node, ast.ExceptHandler) or ast.unparse(node.body[0]) == "raise":
        return []
    never = copy.copy(node)
    never.type = ast.Name("ZeroDivisionError", ast.Load())
    return [_instead(spot, never)]


def _return_none(spot: Spot) -> Sequence[Spoiling]:
    node = spot.node
    if not isinstance(node, ast.Return) or node.value is None or ast.unparse(node.value) == "None":
        return []
    return [_instead(spot, ast.Return(ast.Constant(None)))]


def _exit_dropped(spot: Spot) -> Sequence[Spoiling]:
    node = spot.node
    if not isinstance(node, ast.stmt) or isinstance(node, ast.Raise) or not _leaves(node):
        return []
    last = isinstance(spot.parent, FUNCTIONS) and spot.block[-1] is node
    return [] if last else [_instead(spot, ast.Pass())]


def _exit_swapped(spot: Spot) -> Sequence[Spoiling]:
    if not isinstance(spot.node, EXITS):
        return []
    return [_instead(spot, ast.Break() if isinstance(spot.node, ast.Continue) else ast.Continue())]


def _hold_dropped(spot: Spot) -> Sequence[Spoiling]:
    """A block runs without its lock, its transaction or its time-out, and a call is waited for without one."""
    if held := _held(spot.node):
        return [_instead(spot, *held.body)]
    match spot.node:
        case ast.Call(func=function, args=[waited, *_]) if ast.unparse(function).endswith("wait_for"):
            return [_instead(spot, waited)]
        case _:
            return []


def _hold_split(spot: Spot) -> Sequence[Spoiling]:
    """A lock or a transaction is let go between two statements that it is to hold together."""
    held = _held(spot.node)
    if held is None:
        return []
    kind, items, body = type(held), held.items, held.body
    return [
        _instead(spot, kind(items=items, body=body[:at]), kind(items=items, body=body[at:]))
        for at in range(1, len(body))
    ]


def _held(node: ast.AST) -> ast.With | ast.AsyncWith | None:
    if not isinstance(node, ast.With | ast.AsyncWith) or len(node.items) > 1:
        return None
    item = node.items[0]
    return node if item.optional_vars is None and HELD.search(ast.unparse(item)) else None


def _instead(spot: Spot, *nodes: ast.AST) -> Spoiling:
    return lambda: spot.put(*nodes)


RULES: Mapping[str, Rule] = {
    "guard-negated": _guard_negated,
    "guard-always": _guard_always,
    "guard-never": _guard_never,
    "edge-moved": _compared(EDGES),
    "comparison-opposed": _compared(OPPOSED),
    "and-or": _and_or,
    "operand-dropped": _operand_dropped,
    "not-dropped": _not_dropped,
    "number-plus": _number(lambda value: value + 1, constants=False),
    "number-minus": _number(lambda value: value - 1, constants=False),
    "bound-double": _number(lambda value: value * 2, constants=True),
    "bound-zero": _number(lambda value: value * 0, constants=True),
    "min-max": _min_max,
    "sign-swapped": _sign_swapped,
    "statement-dropped": _statement_dropped,
    "order-swapped": _order_swapped,
    "only-last": _only_last,
    "fence-dropped": _fence_dropped,
    "handler-dropped": _handler_dropped,
    "return-none": _return_none,
    "exit-dropped": _exit_dropped,
    "exit-swapped": _exit_swapped,
    "hold-dropped": _hold_dropped,
    "hold-split": _hold_split,
}
"""By the name that is a part of the name of each bug."""
