"""Every bug that the rules make of the product's rooms, by a name that follows from the tree, and a sample of them."""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.planting import ROOT

from .recorder import ROOMS
from .rules import Planted, ways
from .spots import FUNCTIONS, SCOPES, Spot, places


@dataclass(frozen=True, slots=True)
class Generated:
    """A bug that a rule makes."""

    name: str
    """``planning/recovery/back_off:BackOff.due#edge-moved.0``: a file below the product, a place, a rule and a number."""
    at: str
    """``module:qualname``."""
    rule: str
    nth: int
    file: str
    """Below the root."""
    lines: tuple[int, ...]
    """Who reaches one of them reaches the bug; for what is computed at the import these are those that mention it."""
    mentions: str = ""
    """The constant or field that is spoiled; empty for what is within a function."""

    @property
    def room(self) -> str:
        """The room of the place."""
        return self.at.split(".")[1].partition(":")[0]

    def mutant(self, tests: Sequence[str]) -> Mutant:
        """What can be planted and judged by those tests."""
        return Mutant(
            self.name, self.at, Planted(self.rule, self.nth), "unknown: nobody chose it", tuple(tests)
        )


def every(root: Path = ROOT, rooms: Iterable[str] = ROOMS) -> Iterator[Generated]:
    """Yield all bugs, file by file."""
    for room in rooms:
        for path in sorted((root / "reconciler" / room).rglob("*.py")):
            yield from of_file(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))


def of_file(file: str, source: str) -> Iterator[Generated]:
    """Yield all bugs of one source file."""
    below = file.removeprefix("reconciler/").removesuffix(".py").removesuffix("/__init__")
    module = f"reconciler/{below}".replace("/", ".")
    for qualname, place in places(ast.parse(source)):
        numbers: Counter[str] = Counter()
        for rule, spot, _ in ways(place):
            nth = numbers[rule]
            numbers[rule] += 1
            name = f"{below}:{qualname}#{rule}.{nth}"
            yield Generated(name, f"{module}:{qualname}", rule, nth, file, _lines(spot), _constant(spot))


def drawn(bugs: Iterable[Generated], number: int, seed: int) -> list[Generated]:
    """Draw so many at random: the same ones for the same seed and the same names."""
    by_name = sorted(bugs, key=lambda bug: bug.name)
    return random.Random(seed).sample(by_name, min(number, len(by_name)))


def _lines(spot: Spot) -> tuple[int, ...]:
    """Return the lines of the node and of the statement that it belongs to; for a default those of the function."""
    chain = [*spot.above, spot.node]
    defaults = next((at for at, each in enumerate(chain) if isinstance(each, ast.arguments)), None)
    if defaults is not None and isinstance(function := chain[defaults - 1], FUNCTIONS):
        return tuple(_line(each) for each in function.body if not isinstance(each, ast.FunctionDef))
    statement = next((each for each in reversed(chain) if isinstance(each, ast.stmt)), spot.node)
    near = next((_line(each) for each in reversed(chain) if _line(each)), 0)
    return tuple(sorted({_line(statement), near} - {0}))


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _constant(spot: Spot) -> str:
    """Return the name that the statement gives at the import; empty within functions."""
    if not isinstance(spot.place, SCOPES) or any(isinstance(each, FUNCTIONS) for each in spot.above):
        return ""
    for each in (*spot.above, spot.node):
        target = each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None)
        if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name):
            return target.id
    return ""
