"""Write the JSON Schemas of the kinds, or check them: ``python -m reconciler.source.write_schemas DIR [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from reconciler.resources import schemas


def outdated(folder: Path) -> list[str]:
    """Return the names of files in ``folder`` that are missing, outdated, or belong to no kind."""
    wanted = schemas.files()
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))


def write(folder: Path) -> None:
    """Write the schemas of all kinds to ``folder``, and remove other files."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = schemas.files()
    for name in outdated(folder):
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8")
        else:
            (folder / name).unlink()


def main(arguments: list[str]) -> int:
    """Return the exit status: 1 if ``--check`` finds something to write."""
    folders = [argument for argument in arguments if argument != "--check"]
    if len(folders) != 1:
        sys.stderr.write("usage: python -m reconciler.source.write_schemas DIR [--check]\n")
        return 2
    folder = Path(folders[0])
    if "--check" not in arguments:
        write(folder)
        return 0
    names = outdated(folder)
    for name in names:
        sys.stdout.write(f"{folder / name} is outdated: write it with python -m {__spec__.name} {folder}\n")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
