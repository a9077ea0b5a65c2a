"""A pytest plugin: stands in for what vLLM's parsers import and never use, such as torch, so that its tests run without them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import core_schema

PACKAGES = frozenset(
    [
        "PIL",
        "cbor2",
        "cloudpickle",
        "cv2",
        "fastapi",
        "openai_harmony",
        "psutil",
        "requests",
        "torch",
        "torchaudio",
        "torchvision",
        "triton",
        "urllib3",
        "xgrammar",
        "zmq",
    ]
)
ROOMS = tuple(
    f"vllm.{room}"
    for room in [
        "compilation",
        "config",
        "distributed",
        "engine",
        "lora",
        "model_executor",
        "multimodal",
        "outputs",
        "platforms",
        "plugins",
        "sampling_params",
        "usage",
        "utils.torch_utils",
        "v1",
    ]
)
"""Parts of vLLM that need a machine to run models on."""


class _Class(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __setitem__(cls, key: Any, value: Any) -> None: ...

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __len__(cls) -> int:
        return 0


class Anything(metaclass=_Class):
    """Has any attribute, is no value, and decorates functions with themselves."""

    def __init__(self, *given: Any, **named: Any) -> None: ...

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.any_schema()

    def __call__(self, *given: Any, **named: Any) -> Any:
        return given[0] if len(given) == 1 and callable(given[0]) and not named else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __int__(self) -> int:
        return 0

    def __lt__(self, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in PACKAGES or f"{name}.".startswith(tuple(f"{room}." for room in ROOMS)):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__["__version__"] = "2.9.0"


sys.meta_path.insert(0, _Finder())
_VLLM = types.ModuleType("vllm")  # its own first file prepares torch
_VLLM.__path__ = [str(Path(os.environ["VLLM"]) / "vllm")]
_VLLM.__dict__["__version__"] = "0.33.0"
sys.modules["vllm"] = _VLLM
