"""What is used of the insides of libraries, which they may change at any time: pinned, and known by its fingerprint.

After a new version was read and followed, ``UPDATE_GOLDEN=1 .venv/bin/python -m pytest tests/test_borrowed_insides.py`` writes the
fingerprints again.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import textwrap
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from tests.test_tidy import ROOT

GOLDEN = Path(__file__).with_name("borrowed_insides.yaml")
INNER = "uvicorn"
"""The library whose classes are derived from, though it means them for itself."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / "reconciler").rglob("*.py")):
        yield path, ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Module and name of each name that is imported from elsewhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def requirements() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["runtime"]]
    found = [Requirement(line) for line in lines]
    return {each.name.replace("-", "_"): each for each in found}


@pytest.mark.second_tier
def test_a_library_of_which_a_private_name_is_imported_is_pinned_exactly() -> None:
    known, private = requirements(), set()
    for _, tree in modules():
        for module, name in imports(tree):
            package = module.partition(".")[0]
            if package in known and re.search(r"\._|^_(?!_)", f"{module.partition('.')[2]}.{name}"):
                private.add(package)
    assert private == {"huggingface_hub"}
    for package in private:
        assert [each.operator for each in known[package].specifier] == ["=="], package


def test_the_library_whose_classes_are_derived_from_is_pinned_to_the_minor_version_that_was_read() -> None:
    major, minor, *_ = version(INNER).split(".")
    pinned = requirements()[INNER].specifier
    assert pinned.contains(f"{major}.{minor}.999")
    assert not pinned.contains(f"{major}.{int(minor) + 1}.0")


# --- fingerprints ---


def borrowed() -> dict[str, type]:
    """The classes of the library that are derived from or made here, by their names."""
    found = {}
    for _, tree in modules():
        bases = {
            ast.unparse(base)
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        }
        for module, name in imports(tree):
            if module.partition(".")[0] != INNER:
                continue
            if name in bases:
                found[f"{module}.{name}"] = getattr(importlib.import_module(module), name)
            for base in bases:
                if not name and base.startswith(f"{module}."):
                    kind = getattr(importlib.import_module(module), base.removeprefix(f"{module}."))
                    found[f"{kind.__module__}.{kind.__name__}"] = kind
    return found


def fingerprint(kind: type) -> dict[str, Any]:
    """The attributes that objects get when they are made, and each method's parameters and the digest of what it does."""
    methods = {
        name: member for name, member in vars(kind).items() if inspect.isfunction(inspect.unwrap(member))
    }
    made = ast.parse(textwrap.dedent(inspect.getsource(methods["__init__"])))
    attributes = {
        target.attr
        for node in ast.walk(made)
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
    }
    told = {
        name: f"{', '.join(inspect.signature(method).parameters)} | {digest(method)}"
        for name, method in methods.items()
    }
    return {"attributes": sorted(attributes), "methods": dict(sorted(told.items()))}


def digest(method: Any) -> str:
    """Of its lines, without those that are only comments."""
    lines = [line.strip() for line in inspect.getsource(inspect.unwrap(method)).splitlines()]
    text = "\n".join(line for line in lines if line and not line.startswith("#"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What to look at, as sentences."""
    told = []
    for kind in sorted({*before, *now}):
        if kind not in now or kind not in before:
            told.append(f"{kind} is {'no longer' if kind in before else 'now'} derived from")
            continue
        gone = {*before[kind]["attributes"]} - {*now[kind]["attributes"]}
        new = {*now[kind]["attributes"]} - {*before[kind]["attributes"]}
        told += [f"{kind}: the attribute {name} is gone" for name in sorted(gone)]
        told += [f"{kind}: there is a new attribute {name}" for name in sorted(new)]
        methods, after = before[kind]["methods"], now[kind]["methods"]
        for name in sorted({*methods, *after}):
            old, (parameters, _, _) = methods.get(name, ""), after.get(name, "").partition(" | ")
            if name not in after or name not in methods:
                told.append(f"{kind}.{name} is {'gone' if name in methods else 'new'}")
            elif old.partition(" | ")[0] != parameters:
                told.append(f"{kind}.{name} took ({old.partition(' | ')[0]}) and takes ({parameters})")
            elif old != after[name]:
                told.append(f"{kind}.{name} does something else than before")
    return told


@pytest.mark.second_tier
def test_the_classes_that_are_derived_from_are_those_that_were_read() -> None:
    now = {name: fingerprint(kind) for name, kind in borrowed().items()}
    assert {name.rpartition(".")[2] for name in now} == {
        "HttpToolsProtocol",
        "RequestResponseCycle",
        "Server",
    }
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(yaml.safe_dump(now, width=110))
    told = changes(yaml.safe_load(GOLDEN.read_text()), now)
    assert not told, f"{INNER} {version(INNER)}: " + "; ".join(told)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("        self.b = 1\n", "x.Kind: there is a new attribute b"),
        ("        self.a, c = 1, 2\n", "x.Kind.__init__ does something else than before"),
        ("    def more(self, a): ...\n", "x.Kind.more is new"),
    ],
)
def test_a_change_is_told_by_the_name_of_what_changed(tmp_path: Path, change: str, says: str) -> None:
    texts = ["class Kind:\n    def __init__(self):\n        self.a = 1\n"]
    texts.append(texts[0] + change)
    kinds = []
    for number, text in enumerate(texts):
        path = tmp_path / f"version_{number}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kinds.append({"x.Kind": fingerprint(module.Kind)})
    assert changes(kinds[0], kinds[0]) == []
    assert says in changes(*kinds)
    assert changes(kinds[1], kinds[0]) == ["x.Kind.more is gone"] or "more" not in says
