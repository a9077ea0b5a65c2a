"""A cluster in which commands are typed as they were printed, by somebody who has no other cluster in the environment."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.cli.core.app import run
from reconciler.cli.output.typed import COMMAND
from reconciler.source.git import hooks
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import MIRROR, ClusterRepo
from reconciler.source.hook import objection_to
from reconciler.source.yaml.documents import load
from reconciler.source.yaml.plain import as_yaml
from tests.cli.conftest import Result
from tests.source.conftest import AUTHOR

GOES_ON = {
    *[
        "and",
        "or",
        "if",
        "says",
        "serves",
        "prints",
        "does",
        "has",
        "to",
        "is",
        "with",
        "until",
        "again",
        "shows",
        "in",
        "for",
        "|",
        "#",
    ]
}
"""Words of the sentence around a command."""
TO_TYPE = re.compile(COMMAND.pattern.replace("(?=[a-z])", "(?=[a-z-])"))
"""The same where the cluster is named."""
COMMIT = "b" * 40
MIRRORED = "https://git.example/cluster.git"


@dataclass
class Bench:
    """A home with an unusual name, that only `--home` names, and a command line in this process."""

    home: Path
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __post_init__(self) -> None:
        for variable in ("RECONCILER_HOME", "RECONCILER_CONTEXT"):
            self.monkeypatch.delenv(variable, raising=False)
        self.monkeypatch.setenv("HOME", str(self.folder / "somebody"))
        self.monkeypatch.setenv("EDITOR", "true")
        self.monkeypatch.chdir(self.folder)

    @property
    def repo(self) -> ClusterRepo:
        return ClusterRepo.create(self.home / "cluster.git", hooks.command(), objection_to)

    def has(self, manifests: Iterable[object]) -> None:
        """The manifests are committed, each in a file of its own."""
        self.has_texts(
            *(
                as_yaml(each.model_dump(mode="json", by_alias=True, exclude_unset=True))  # type: ignore[attr-defined]
                for each in manifests
            )
        )

    def has_texts(self, *texts: str) -> None:
        """Documents are committed, each in a file of its own."""
        self.home.mkdir(exist_ok=True, mode=0o700)
        files: dict[str, bytes | None] = {
            "-".join((document.key[0].lower(), document.key[1])) + ".yaml": text.encode()
            for text in texts
            for document in load({"a.yaml": text.encode()}, part=True)
        }
        self.repo.commit(self.repo.head(), files, "as it is", AUTHOR)

    def mirrors(self) -> None:
        """Its main is a mirror from now on."""
        run_git((f"--git-dir={self.repo.path}", "config", MIRROR, MIRRORED))

    def calls(self, *arguments: str, stdin: str = "") -> Result:
        """Type a command for this home."""
        return self.types(["reconciler", "--home", str(self.home), *arguments], stdin)

    def types(self, words: list[str], stdin: str = "") -> Result:
        """Type a command as it stands."""
        assert words[0] == "reconciler", words
        self.monkeypatch.setattr(sys, "argv", words)
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        captured = self.capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, captured.out, captured.err)

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)


def commands_in(text: str) -> list[str]:
    """Every command that a printed text says to type, as it is typed: words of a shell, up to where the sentence goes on."""
    return [_command(text[match.end() :]) for match in TO_TYPE.finditer(text)]


def _command(rest: str) -> str:
    words = ["reconciler"]
    for word in re.finditer(r"(?:'[^']*'|\{[^ ]*\}|[^\s'])+", rest.partition("\n")[0]):
        if (
            word[0].startswith("(")
            or word[0] in GOES_ON
            or rest[max(0, word.start() - 2) : word.start()] == "  "
        ):
            break
        bare = word[0].rstrip(",;:.)`")
        words.append(bare.removesuffix("'") if bare.count("'") % 2 else bare)
        if bare != word[0]:
            break
    return " ".join(words)


def filled(command: str, values: Mapping[str, str]) -> list[str]:
    """Return its words, with what a person puts in place of what stands in capitals: the longest of ``values`` first."""
    for stands, value in sorted(values.items(), key=lambda each: -len(each[0])):
        at = re.compile(rf"(?<![\w/.-]){re.escape(stands)}(?![\w/])")
        typed = value if stands.startswith("-") else shlex.quote(value)
        command = at.sub(lambda _, typed=typed: typed, command)  # type: ignore[misc]
    return shlex.split(command)
