"""What is imported sooner is what would have been imported."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import pytest
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


def lazy_module(module: Any) -> Any:
    """What ``transformers`` makes of itself: a module with names from elsewhere, and with those of its models."""
    structure = module.define_import_structure(FOLDER / "models", "models")
    structure[frozenset({})].update({"tokenization_utils_base": {"BatchEncoding"}})
    file, extra = str(FOLDER / "__init__.py"), {"__version__": "5"}
    return module._LazyModule("transformers", file, structure, extra_objects=extra)


def test_transformers_learns_the_same_of_its_models_in_the_end() -> None:
    changed, original = fresh_module(), fresh_module()
    fast_import.change(changed)
    soon, whole = lazy_module(changed), lazy_module(original)
    assert {"AutoTokenizer", "BatchEncoding"} < set(soon._class_to_module)
    assert "LlamaConfig" not in soon._class_to_module
    assert set(soon.__all__) == set(whole.__all__) > {"LlamaConfig", "BatchEncoding"}
    for learned in ("_class_to_module", "_modules", "_object_missing_backend"):
        assert getattr(soon, learned) == getattr(whole, learned)


def test_the_models_learn_the_same_of_themselves_in_the_end() -> None:
    changed, original = fresh_module(), fresh_module()
    fast_import.change(changed)
    path = str(FOLDER / "models" / "__init__.py")
    part = changed.define_import_structure(path)
    assert "auto.tokenization_auto" in part[frozenset({})]
    assert "llama.configuration_llama" not in part[frozenset({})]
    assert part.whole() == original.define_import_structure(path)


def test_a_name_that_is_not_known_yet_is_looked_for_among_all() -> None:
    changed = fresh_module()
    fast_import.change(changed)
    for name in ("LlamaConfig", "LlamaTokenizerFast"):
        soon = lazy_module(changed)
        assert getattr(soon, name) is getattr(transformers, name)
    with pytest.raises(AttributeError, match="NothingSuch"):
        _ = soon.NothingSuch


def test_a_tokenizer_is_looked_for_among_tokenizers_first() -> None:
    changed = fresh_module()
    fast_import.change(changed)
    soon = lazy_module(changed)
    assert soon.Qwen2Tokenizer is transformers.Qwen2Tokenizer
    assert "LlamaConfig" not in soon._class_to_module
    assert "LlamaConfig" in dir(transformers)
    whole = transformers._class_to_module
    assert {name: whole.get(name) for name in soon._class_to_module} == soon._class_to_module


def test_what_no_library_exports_is_not_looked_for() -> None:
    changed = fresh_module()
    fast_import.change(changed)
    soon = lazy_module(changed)
    assert not hasattr(soon, "__wrapped__")
    assert soon.AutoTokenizer is transformers.AutoTokenizer
    assert "LlamaConfig" not in soon._class_to_module


def test_a_single_model_is_read_as_it_is() -> None:
    changed, original = fresh_module(), fresh_module()
    fast_import.change(changed)
    path = str(FOLDER / "models" / "llama" / "__init__.py")
    assert changed.define_import_structure(path) == original.define_import_structure(path)
    assert changed.create_import_structure_from_path is not original.create_import_structure_from_path


@pytest.mark.parametrize(
    "text",
    [
        "",
        "names = 1\n",
        '__all__ = ["A", "B"]\n',
        '__all__ = [\n    "A",\n    "B",\n]\n',
        'import os\n\n__all__ = ["A"]\n\n\ndef f():\n    pass\n',
        'print(__all__)\nx = "__all__"\n',
    ],
    ids=["empty", "none", "at the start", "many lines", "in the middle", "mentioned"],
)
def test_the_names_of_a_file_are_those_that_transformers_reads_line_by_line(text: str) -> None:
    changed, original = fresh_module(), fresh_module()
    fast_import.change(changed)
    assert changed.fetch__all__(text) == original.fetch__all__(text)


@pytest.mark.parametrize(
    "missing",
    [
        "fetch__all__",
        "create_import_structure_from_path",
        "define_import_structure",
        "_LazyModule",
    ],
)
def test_a_transformers_that_lacks_any_of_what_is_changed_is_left_as_it_is(missing: str) -> None:
    module = fresh_module()
    delattr(module, missing)
    before = dict(vars(module))
    fast_import.change(module)
    assert vars(module) == before


def test_a_rank_s_process_has_it_and_no_thread_of_numpy() -> None:
    code = "import reconciler.runner, transformers.utils.import_utils as u; print(u.fetch__all__.__module__)"
    code += "; import os, threading; print(os.environ.get('OPENBLAS_NUM_THREADS'), threads())"
    count = "from pathlib import Path\ndef threads(): return len(list(Path('/proc/self/task').glob('*')) or [1])\n"
    done = subprocess.run(
        [sys.executable, "-c", count + code],
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")},
    )
    assert done.stdout == "reconciler.runner.fast_import\nNone 1\n"
