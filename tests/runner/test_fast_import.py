"""What is imported sooner is what would have been imported."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import transformers

from reconciler.runner import fast_import

FOLDER = Path(transformers.__path__[0])


def fresh_module() -> Any:
    """The module as it is installed."""
    spec = PathFinder.find_spec(fast_import.MODULE, [str(FOLDER / "utils")])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_transformers_learns_the_same_of_its_models() -> None:
    changed, original = fresh_module(), fresh_module()
    fast_import.change(changed)
    for path in (FOLDER / "models", str(FOLDER / "models" / "__init__.py")):
        learned = changed.define_import_structure(path)
        assert learned == original.define_import_structure(path)
        assert len(learned) > 5
    assert changed.create_import_structure_from_path is not original.create_import_structure_from_path


def test_another_transformers_is_left_as_it_is() -> None:
    module = ModuleType(fast_import.MODULE)
    fast_import.change(module)
    assert not hasattr(module, "fetch__all__")


def test_a_rank_s_process_has_it() -> None:
    code = "import reconciler.runner, transformers.utils.import_utils as u; print(u.fetch__all__.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "reconciler.runner.fast_import\n"
