"""What one planted bug is."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from pathlib import Path

from .operators import Operator
from .places import Address, NotApplicable, address


@dataclass(frozen=True, slots=True)
class Mutant:
    """A place in the product, and what is changed there for once."""

    name: str
    at: object
    """The function, class, property or module itself, or ``"module:qualname"`` of what has no reference."""
    change: Operator | tuple[Operator, ...]
    """Several are applied one after another, each to what the one before it has left."""
    harm: str
    """What would go wrong on a real cluster."""
    tests: tuple[str, ...]
    """Files or single tests that are to catch it, as pytest takes them; the quickest first."""

    @property
    def address(self) -> Address:
        """The name of the place."""
        return address(self.at)

    @property
    def room(self) -> str:
        """The room of the place."""
        return self.address.module.split(".")[1]

    def spoil(self, source: str) -> str:
        """Return the source of the module with the bug in it. Raises ``NotApplicable``."""
        tree = ast.parse(source)
        try:
            self._change(self.address.within(tree))
        except NotApplicable as error:
            raise NotApplicable(f"{self.name}: {self.address}: {error}") from error
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"

    def shown(self, root: Path) -> str:
        """Return what the bug changes, as a diff of its place without comments. Raises ``NotApplicable``."""
        place = self.address.within(ast.parse(self.address.file(root).read_text(encoding="utf-8")))
        before = ast.unparse(place)
        self._change(place)
        after = ast.unparse(ast.fix_missing_locations(place))
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
        return "\n".join([str(self.address), *list(lines)[2:]])

    def _change(self, place: ast.AST) -> None:
        for change in self.change if isinstance(self.change, tuple) else (self.change,):
            change.apply(place)
