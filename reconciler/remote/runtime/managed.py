"""Installs managed runtimes: decides which one a machine needs, if any, and builds it from its parts."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from reconciler.errors import Refused
from reconciler.remote.bootstrap.profile import Profile

from .build import Build, Pruned, Shell, python_of
from .pinned_versions import Recipe
from .wheelhouse import Tell, Wheelhouse

ASK_SECONDS = 10.0
_NEWEST = """
cd "$1" 2>/dev/null || exit 0
for each in "$2" $(ls -t); do "$each/bin/python3" -I -c "" </dev/null >/dev/null 2>&1 && { echo "$1/$each/bin/python3"; exit; }; done
"""
"""Finds the managed runtime of that name, else the one that was built last."""


@dataclass(frozen=True, slots=True)
class Managed:
    """The runtimes of one machine; none without ``wheelhouse``, or if the owner names a Python."""

    shell: Shell
    name: str
    wheelhouse: Wheelhouse | None
    python: str | None
    """The owner's interpreter."""
    builder: str = field(default_factory=lambda: secrets.token_hex(4))
    """Id of the builder, for ``Build``."""

    async def build(self, found: Profile, tell: Tell) -> str:
        """Install the managed runtime of this version, built and tested; return its name.

        Raises ``Refused``: ``NotManaged`` if the interpreter is the owner's, ``NoRuntime`` for an unsupported platform,
        and as ``Wheelhouse.packs`` and ``Build.make``; ``Unreachable`` and ``Silent``.
        """
        house, recipe = self._recipe(found)
        build = Build(self.shell, self.name, found.root, tell, self.builder)
        if not await build.built(recipe):
            await build.ensure(recipe, await house.packs(recipe, tell))
        return recipe.key

    async def prune(self, found: Profile) -> Pruned:
        """Remove unused runtimes except this version's and the last before it. Raises as ``build``."""
        _, recipe = self._recipe(found)
        return await Build(self.shell, self.name, found.root, lambda text: None).prune(recipe)

    def lacking(self, found: Profile) -> PurePosixPath | None:
        """Return the runtime that ``build`` would build; None if it exists, or if none is managed."""
        recipe = self.wheelhouse.recipes.get(found.kind) if self.wheelhouse and not self.python else None
        if recipe is None or found.ranks_python == str(python_of(found.root, recipe.key)):
            return None
        return found.root / "runtimes" / recipe.key

    async def newest(self, found: Profile) -> str:
        """Return the interpreter of this version's runtime, else of the newest one; empty if there is none."""
        recipe = self.wheelhouse.recipes.get(found.kind) if self.wheelhouse and not self.python else None
        if recipe is None:
            return ""
        words = ("newest", str(found.root / "runtimes"), recipe.key)
        answer = await self.shell.run(("/bin/sh", "-c", _NEWEST, *words), timeout=ASK_SECONDS)
        return answer.out.strip()

    def _recipe(self, found: Profile) -> tuple[Wheelhouse, Recipe]:
        if self.wheelhouse is None or self.python is not None:
            raise Refused(
                "NotManaged",
                f"the runtime of {self.name} is not managed, because spec.python sets an interpreter",
            )
        recipe = self.wheelhouse.recipes.get(found.kind)
        if recipe is None:
            kinds = ", ".join(self.wheelhouse.recipes)
            text = f"{self.name} is {found.kind}, but runtimes exist for {kinds} only: set an interpreter in spec.python"
            raise Refused("NoRuntime", text)
        return self.wheelhouse, recipe
