"""The version before this one: its package, its manifests, and a place to install it that can be upgraded.

README.md says what the archive is made of, and how it is made anew.
"""

from __future__ import annotations

import shutil
import site
import tarfile
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
(ARCHIVE,) = Path(__file__).parent.glob("reconciler-*.tar.xz")


def unpack(folder: Path) -> Path:
    """Unpack the version before into ``folder``, which is returned: its package, manifests, examples, and the pages
    of the kinds."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not before Python 3.11.4
        archive.extractall(folder)
    return folder


class Installation:
    """A virtual environment with one version of the product, and the other packages of this interpreter.

    A process that is started with its interpreter and ``environment`` in a folder without sources finds this version
    alone, as do the processes that it starts: an editable installation of this repository is not on their path.
    """

    def __init__(self, root: Path) -> None:
        venv.create(root, symlinks=True)
        self.python = root / "bin" / "python3"
        (self._packages,) = (root / "lib").glob("python3*/site-packages")
        # Only their folders: files in them that lead to further ones, as that of an editable installation, do not count.
        (self._packages / "others.pth").write_text("\n".join(site.getsitepackages()) + "\n")

    @property
    def package(self) -> Path:
        """The folder of the product's package."""
        return self._packages / "reconciler"

    @staticmethod
    def environment(base: Mapping[str, str]) -> dict[str, str]:
        """``base`` without what would lead to another version."""
        return {name: value for name, value in base.items() if name != "PYTHONPATH"}

    def has_run(self, room: str) -> bool:
        """Whether a process has imported this room since the last ``install``: it is compiled then."""
        return (self.package / room / "__pycache__").is_dir()

    def install(self, tree: Path) -> None:
        """Replace the product's files by those of ``tree``, under whatever runs from them, as pip does.

        Python makes the folder of a module that it has compiled, so a process that runs from here may add to either.
        """
        before = self.package.with_name("reconciler.before")
        if self.package.exists():
            self.package.rename(before)
        left_out = shutil.ignore_patterns("__pycache__", "tiny")  # weights are not in the archive
        shutil.copytree(tree / "reconciler", self.package, ignore=left_out, dirs_exist_ok=True)
        shutil.rmtree(before, ignore_errors=True)
