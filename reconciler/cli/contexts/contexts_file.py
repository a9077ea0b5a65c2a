"""The file of contexts: names of clusters, here or on other machines. Strict, and edited without reformatting."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.errors import Invalid, InvalidManifests, Problem, Refused

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
SSH = re.compile(
    r"ssh://(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9._-]*)@)?(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)
FIELDS = ("home", "ssh", "identityFile", "knownHosts")
EXAMPLE = "ssh://admin@studio.local or ssh://admin@studio.local:2222"


@dataclass(frozen=True, slots=True)
class Context:
    """One cluster: its home, and the address of its machine; without ``ssh``, this machine."""

    name: str
    home: str
    ssh: str = ""
    """Such as ``ssh://admin@studio.local:22``."""
    identity_file: str = ""
    known_hosts: str = ""

    @property
    def where(self) -> str:
        """Return the place for people, in the form in which `context add` takes it."""
        return f"{self.ssh.rstrip('/')}{self.home}" if self.ssh else self.home


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts of a file. ``current`` is for commands that name none; empty for none."""

    path: Path
    current: str = ""
    found: Mapping[str, Context] = field(default_factory=dict)

    def named(self, name: str) -> Context:
        """Return a context. Raises ``Refused`` with the nearest name."""
        if name in self.found:
            return self.found[name]
        advice = _advice(name, self.found, "list them with: reconciler context list")
        raise Refused("NotFound", f'there is no context "{name}" in {self.path}; {advice}')


def _advice(name: str, known: Iterable[str], otherwise: str) -> str:
    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f'did you mean "{close[0]}"?' if close else otherwise


def default_path() -> Path:
    """Return the user's file of contexts, which need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path("~/.config").expanduser()
    return folder / "reconciler" / "contexts.yaml"


def read(path: Path) -> Contexts:
    """Return the contexts of a file; none if there is no file. Raises ``InvalidManifests`` with every mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts(path)
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not text in UTF-8") from None
    from reconciler.source.yaml.parser import parse

    tree = parse(str(path), text)
    problems = list(tree.problems)
    if tree.root is None and not problems:
        return Contexts(path)
    if tree.root is not None:
        reader = _Reader(str(path), problems)
        found = reader.contexts(tree.root)
        current = reader.current(tree.root, found)
    if problems:
        raise InvalidManifests(tuple(problems))
    return Contexts(path, current, found)


def put(path: Path, context: Context) -> None:
    fields = {
        "home": context.home,
        "ssh": context.ssh,
        "identityFile": context.identity_file,
        "knownHosts": context.known_hosts,
    }
    _change(path, ("contexts", context.name), {name: value for name, value in fields.items() if value})


def remove(path: Path, name: str) -> None:
    """Remove a context. If it was the current one, there is none afterwards."""
    contexts = read(path)
    contexts.named(name)
    from reconciler.source.yaml.fields import REMOVED

    if contexts.current == name:
        _change(path, ("current",), REMOVED)
    _change(path, ("contexts", name), REMOVED)


def use(path: Path, name: str) -> None:
    read(path).named(name)
    _change(path, ("current",), name)


def _change(path: Path, field_path: tuple[str, ...], value: Any) -> None:
    from reconciler.source.yaml.fields import changed, with_field
    from reconciler.source.yaml.parser import parse
    from reconciler.source.yaml.plain import as_yaml

    read(path)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    after = changed(text, field_path, value) if text.strip() else None
    if after is None:
        root = parse(str(path), text).root
        after = as_yaml(with_field(root.value if root else {}, field_path, value))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(after, encoding="utf-8")
    draft.replace(path)


class _Reader:
    """Checks a tree and adds its mistakes to ``problems``."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._file = file
        self._problems = problems

    def contexts(self, root: Any) -> dict[str, Context]:
        if not self._mapping(root, "", ("current", "contexts")):
            return {}
        every = root.children.get("contexts")
        if every is None or (every.value is not None and not self._mapping(every, "contexts", None)):
            return {}
        found = (self._context(name, node) for name, node in every.children.items())
        return {context.name: context for context in found if context is not None}

    def current(self, root: Any, found: Mapping[str, Context]) -> str:
        node = root.children.get("current") if isinstance(root.value, dict) else None
        if node is None:
            return ""
        if node.value not in found:
            text = f"there is no context {node.value!r}; expected one of {', '.join(found) or 'none'}"
            self._add(node, "current", text)
        return str(node.value)

    def _context(self, name: str, node: Any) -> Context | None:
        path = f"contexts.{name}"
        if not NAME.fullmatch(name):
            self._add(node, path, "expected a name of letters, digits, dots, hyphens and underscores")
            return None
        if not self._mapping(node, path, FIELDS):
            return None
        texts = dict(self._texts(node, path))
        ssh, home = texts.get("ssh", ""), texts.get("home", "")
        if ssh and not SSH.fullmatch(ssh):
            self._add(node.children["ssh"], f"{path}.ssh", f"expected {EXAMPLE}, got {ssh!r}")
        if ssh and not home.startswith("/"):
            text = "expected the absolute path of the home on that machine, such as /opt/reconciler"
            self._add(node.children.get("home", node), f"{path}.home", text)
        elif not home:
            self._add(node, f"{path}.home", "missing: expected the state folder of the cluster")
        return Context(name, home, ssh, texts.get("identityFile", ""), texts.get("knownHosts", ""))

    def _texts(self, node: Any, path: str) -> Iterator[tuple[str, str]]:
        for name, child in node.children.items():
            if isinstance(child.value, str):
                yield name, child.value
            elif name in FIELDS:
                self._add(child, f"{path}.{name}", f"expected text, got {child.value!r}")

    def _mapping(self, node: Any, path: str, known: tuple[str, ...] | None) -> bool:
        if not isinstance(node.value, dict):
            self._add(node, path, "expected a mapping")
            return False
        for name, child in node.children.items():
            if known is not None and name not in known:
                advice = _advice(name, known, f"expected one of {', '.join(known)}")
                self._add(child, f"{path}.{name}".lstrip("."), f"unknown field; {advice}")
        return True

    def _add(self, node: Any, path: str, text: str) -> None:
        line, column = node.key or (node.line, node.column)
        self._problems.append(Problem(self._file, line, column, path, text))
