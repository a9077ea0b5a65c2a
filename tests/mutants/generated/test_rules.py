"""Each rule makes its mistakes and no other, and the name of a bug follows from the tree alone."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.places import NotApplicable

from .drawing import drawn, of_file
from .rules import RULES, Planted, ways
from .spots import places

SOURCE = '''
SECONDS_MAX = 30.0
KIND: Literal[1] = 1

class Door:
    """A door."""
    tries: int = 3

    def __init__(self):
        self.open = False

    def __repr__(self):
        return "open" if self.open else "shut"

    async def shut(self, at, width=2):
        async with self._lock:
            if at < SECONDS_MAX and not self.open:
                _log.info("shut for %d", 3 if at else 4)
                return
            self.count()
        for each in self.sides:
            if each is None:
                continue
            if each.locked:
                raise Locked(f"at {at + 1}", 1 if at else 2)
        try:
            self.told = min(at - width, 5)
            await tell(self)
            self.seen.append(at)
        except OSError as error:
            self.errors += 1
        return [side for side in self.sides if side.wide]
'''
CHANGES = {
    "guard-negated": ["if not (at < SECONDS_MAX and (not self.open)):", "if not each.locked:", "if not side.wide]"],
    "guard-always": ["if True:", "if True:", "if True:", "if True]"],
    "guard-never": ["if False:", "if False]"],
    "edge-moved": ["at <= SECONDS_MAX"],
    "comparison-opposed": ["each is not None"],
    "and-or": ["at < SECONDS_MAX or not self.open"],
    "operand-dropped": ["if not self.open:", "if at < SECONDS_MAX:"],
    "not-dropped": ["at < SECONDS_MAX and self.open"],
    "number-plus": ["width=3", "min(at - width, 6)", "self.errors += 2"],
    "number-minus": ["width=1", "min(at - width, 4)", "self.errors += 0"],
    "bound-double": [],
    "bound-zero": [],
    "min-max": ["max(at - width, 5)"],
    "sign-swapped": ["at + width"],
    "statement-dropped": ["pass", "pass", "pass", "pass", "pass"],
    "order-swapped": ["await tell(self)\n        self.told", "self.seen.append(at)\n        await tell"],
    "only-last": ["self.seen.clear()\n        self.seen.append(at)"],
    "fence-dropped": ["if each.locked:\n            pass"],
    "handler-dropped": ["except ZeroDivisionError as error:"],
    "return-none": ["return None"],
    "exit-dropped": ["_log.info('shut for %d', 3 if at else 4)\n            pass", "if each is None:\n            pass"],
    "exit-swapped": ["if each is None:\n            break"],
    "hold-dropped": ["width=2):\n    if at"],
    "hold-split": ["async with self._lock:\n        self.count()"],
}  # fmt: skip
"""What stands in ``Door.shut`` after each way of each rule."""


def names(source: str) -> list[str]:
    return [bug.name for bug in of_file("reconciler/store/door.py", source)]


def shut() -> ast.AST:
    return dict(places(ast.parse(SOURCE)))["Door.shut"]


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_spoils_what_it_is_for_and_nothing_else(rule: str) -> None:
    sound = ast.unparse(shut())
    for nth, expected in enumerate(CHANGES[rule]):
        place = shut()
        Planted(rule, nth).apply(place)
        spoiled = ast.unparse(ast.fix_missing_locations(place))
        assert spoiled.count(expected) == sound.count(expected) + 1, spoiled
    with pytest.raises(NotApplicable, match=f"for {rule}, found {len(CHANGES[rule])}"):
        Planted(rule, len(CHANGES[rule])).apply(shut())


def test_constants_and_fields_are_doubled_or_nothing_and_literal_types_and_text_for_people_stay() -> None:
    at_import = [bug for bug in of_file("reconciler/store/door.py", SOURCE) if bug.mentions]
    assert [(bug.name, bug.mentions) for bug in at_import] == [
        ("store/door:#bound-double.0", "SECONDS_MAX"),
        ("store/door:#bound-zero.0", "SECONDS_MAX"),
        ("store/door:#bound-double.1", "KIND"),
        ("store/door:#bound-zero.1", "KIND"),
        ("store/door:Door#bound-double.0", "tries"),
        ("store/door:Door#bound-zero.0", "tries"),
    ]
    assert [name for name in names(SOURCE) if "__repr__" in name or "__init__" in name] == []


def test_a_name_does_not_follow_from_lines_nor_from_what_stands_elsewhere() -> None:
    moved = SOURCE.replace(
        "SECONDS_MAX = 30.0", "\n\ndef before(at):\n    return at > 1\n\nSECONDS_MAX = 30.0"
    )
    assert set(names(SOURCE)) < set(names(moved))
    assert len(set(names(moved))) == len(names(moved))


def test_a_seed_draws_the_same_bugs_whatever_the_order_and_another_seed_others() -> None:
    bugs = list(of_file("reconciler/store/door.py", SOURCE))
    assert drawn(bugs, 9, 1) == drawn(reversed(bugs), 9, 1)
    assert drawn(bugs, 9, 1) != drawn(bugs, 9, 2)
    assert len(drawn(bugs, 1000, 1)) == len(bugs)


def test_each_bug_is_python_that_differs_and_an_operator_that_the_parser_shares_is_found_by_its_number() -> (
    None
):
    source = "def within(a, b, c):\n    return a < b < c and c < b\n"
    sound = ast.unparse(ast.parse(source)) + "\n"
    bugs = [bug for bug in of_file("reconciler/store/sums.py", source) if bug.rule == "edge-moved"]
    spoiled = [bug.mutant(()).spoil(source) for bug in bugs]
    assert [text.partition("return ")[2] for text in spoiled] == [
        "a <= b < c and c < b\n",
        "a < b <= c and c < b\n",
        "a < b < c and c <= b\n",
    ]
    assert sound not in spoiled


def test_functions_of_one_name_belong_to_their_class_as_none_can_be_told_from_the_other() -> None:
    source = "class A:\n    def b(self):\n        return 1\n    def b(self):\n        return 2\n"
    assert [name for name, _ in places(ast.parse(source))] == ["", "A"]
    found = [rule for _, place in places(ast.parse(source)) for rule, _, _ in ways(place)]
    assert found.count("return-none") == 2
