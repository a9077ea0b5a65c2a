"""Reads and writes ``source.yaml``: the remote repository that replaces the home's own as the source of manifests."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from reconciler.errors import InvalidManifests, Problem
from reconciler.resources.git_repository import GitRepository, GitRepositorySpec
from reconciler.source.yaml import parser
from reconciler.source.yaml.field_errors import explain
from reconciler.source.yaml.pieces import decode
from reconciler.source.yaml.plain import as_yaml

NAME = "source.yaml"
BYTES_MAX = 64 * 1024


def load_settings(file: Path) -> GitRepositorySpec | None:
    """Return the settings; None without a file. Raises ``InvalidManifests`` with places, and ``OSError``."""
    try:
        with file.open("rb") as opened:
            content = opened.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    if len(content) > BYTES_MAX:
        raise InvalidManifests((Problem(str(file), 1, 1, "", f"the file has more than {BYTES_MAX} bytes"),))
    return parsed(str(file), content)


def parsed(file: str, content: bytes) -> GitRepositorySpec:
    """Return the settings in the contents of a file. Raises ``InvalidManifests``."""
    text = decode(file, content)
    if isinstance(text, Problem):
        raise InvalidManifests((text,))
    tree = parser.parse(file, text)
    root, problems = tree.root, tree.problems
    if root is None or not isinstance(root.value, dict):
        expected = "expected a mapping with apiVersion, kind: GitRepository and spec"
        raise InvalidManifests(problems or (Problem(file, 1, 1, "", expected),))
    if problems:
        raise InvalidManifests(problems)
    try:
        return GitRepository.model_validate_json(json.dumps(root.value)).spec
    except ValidationError as error:
        raise InvalidManifests(tuple(explain(file, root, GitRepository, error))) from None


def write_settings(file: Path, spec: GitRepositorySpec) -> None:
    """Write the settings, readable for their owner only; the file is always whole."""
    draft = file.with_name(f".{file.name}.new")
    draft.unlink(missing_ok=True)
    draft.touch(0o600, exist_ok=False)
    draft.write_text(text_of(spec), encoding="utf-8")
    draft.replace(file)


def text_of(spec: GitRepositorySpec) -> str:
    """Return the settings as YAML, without defaults."""
    body = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return as_yaml({"apiVersion": "reconciler/v1alpha1", "kind": "GitRepository", "spec": body})
