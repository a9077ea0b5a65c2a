"""Bugs are planted by what the code is: by a name, a kind of node and a number."""

from __future__ import annotations

import ast
from ast import BoolOp, Call, Compare, Constant, Expr, Gt, GtE, If, Return, keyword

import pytest

from reconciler.errors import Invalid

from .mutant import Mutant
from .operators import (
    ALL,
    Operator,
    always,
    become,
    catch_nothing,
    delay,
    drop,
    follow,
    inside,
    keep,
    never,
    precede,
    put,
    respell,
)
from .places import NotApplicable, address

SOURCE = """
class Door:
    @property
    def open(self):
        if self.locked and self.closed > 1:
            return shut(self, why='locked for the night')
        note(self)
        try:
            leave(self)
        except Invalid:
            pass
"""
CHANGES = [
    (never(), "if False:"),
    (always(), "if True:"),
    (drop(Compare), "if self.locked:"),
    (drop(Expr, 0, 2), "return shut(self, why='locked for the night')\n        try:"),
    (drop(Return), "self.closed > 1:\n            pass"),
    (drop(keyword), "shut(self)"),
    (become(Gt, GtE), "self.closed >= 1"),
    (keep(BoolOp, "values[1]"), "if self.closed > 1:"),
    (put(BoolOp, "{it.values[1]} or {it.values[0]}"), "if self.closed > 1 or self.locked:"),
    (put(keyword, "None"), "shut(self, why=None)"),
    (put(Constant, "0", ALL, 2), "self.closed > 0"),
    (put(Return, "return {using}", using=Invalid), "import_module('reconciler.errors').Invalid"),
    (respell("night", "day"), "why='locked for the day'"),
    (catch_nothing(), "except ZeroDivisionError:"),
    (precede(Return, "{place.args.args[0].arg}.count = 1"), "self.count = 1\n            return"),
    (follow(If, "{it.body[0].value}"), "for the night')\n        shut(self"),
    (delay(Expr, 0, 2), "except Invalid:\n            pass\n        note(self)"),
]


def planted(change: Operator, at: object = "reconciler.errors:Door.open") -> str:
    return Mutant("a-bug", at, change, "harm", ("tests",)).spoil(SOURCE)


@pytest.mark.parametrize(("change", "expected"), CHANGES, ids=lambda value: getattr(value, "__name__", ""))
def test_each_operator_changes_one_thing(change: Operator, expected: str) -> None:
    assert expected in planted(change)
    assert expected not in ast.unparse(ast.parse(SOURCE))


def test_a_part_is_found_by_what_it_mentions() -> None:
    source = "TABLE = (row(Invalid, told=1), row(KeyError, told=1))"
    change = inside(Call, drop(keyword), about=Invalid)
    spoiled = Mutant("a-bug", "reconciler.errors:TABLE", change, "harm", ("tests",)).spoil(source)
    assert spoiled == "TABLE = (row(Invalid), row(KeyError, told=1))\n"


def test_the_second_of_two_equal_operators_is_not_the_first() -> None:
    spoiled = Mutant(
        "a-bug", "reconciler.errors:LEFT", become(ast.Sub, ast.Add, 1, 2), "harm", ("tests",)
    ).spoil("LEFT = 5 - 3 - 1")
    assert spoiled == "LEFT = 5 - 3 + 1\n"


@pytest.mark.parametrize(
    ("change", "at", "message"),
    [
        (never(If, 0, 2), "reconciler.errors:Door.open", "expected 2 of If, found 1"),
        (never(), "reconciler.errors:Door.shut", "shut is there 0 times"),
        (keep(Compare, "orelse"), "reconciler.errors:Door.open", "Compare 0 is of another form"),
        (
            inside(Call, drop(keyword), about=Invalid),
            "reconciler.errors:Door.open",
            "expected one Call, found 0",
        ),
    ],
)
def test_what_is_not_as_expected_is_reported(change: Operator, at: str, message: str) -> None:
    with pytest.raises(NotApplicable, match=message):
        planted(change, at)


def test_an_address_is_that_of_the_thing_itself() -> None:
    assert str(address(Mutant.spoil)) == "tests.mutants.mutant:Mutant.spoil"
    assert str(address(Mutant.room)) == "tests.mutants.mutant:Mutant.room"
    assert str(address(Invalid)) == "reconciler.errors:Invalid"
    assert str(address("a.b:C.d")) == "a.b:C.d"
