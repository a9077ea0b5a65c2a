"""What one planted bug is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A piece of source, and what stands in its place for once."""

    name: str
    file: str
    """From the root of the repository."""
    before: str
    """As it stands there, exactly once."""
    after: str
    harm: str
    """What would go wrong on a real cluster."""
    tests: tuple[str, ...]
    """Files or single tests that are to catch it, as pytest takes them; the quickest first."""

    @property
    def room(self) -> str:
        """The room of the file."""
        return self.file.removeprefix("reconciler/").partition("/")[0].removesuffix(".py")
