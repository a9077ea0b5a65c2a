"""States in which the product says what to type, and what a person who reads it does: types it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.cli.conftest import Controller, Result, listening

from .bench import COMMIT, Bench, commands_in, filled
from .errors import is_of


@dataclass
class Scene:
    """Something was said, and can be said again."""

    said: Callable[[], str]
    values: dict[str, str] = field(default_factory=dict)
    """What a person puts in place of what stands in capitals, in addition to ``Bench.values``."""
    stdin: str = ""
    mends: bool = True
    """Whether it is not said any more when the command is done; a command that only shows something mends nothing."""
    codes: tuple[int, ...] = (0,)
    then: str = ""
    """For a command that is refused: the words of what is said next, with which a person goes on."""
    before: Callable[[], object] = lambda: None
    """What a person does with their hands before they type it, as it says."""
    by: Callable[[list[str]], Result] | None = None
    """How it is typed, if not in this process."""


Made = Callable[[Bench], Iterator[Scene]]


@dataclass(frozen=True)
class Place:
    """A command in the source, and the state in which it is printed."""

    file: str
    words: str
    made: Made

    def __str__(self) -> str:
        return f"{self.file}: {self.words}"

    @contextmanager
    def scene(self, bench: Bench) -> Iterator[Scene]:
        yield from self.made(bench)


class Scenes(list[Place]):
    """Places by their states."""

    def at(self, file: str, *words: str) -> Callable[[Made], Made]:
        """Add the function that makes a state, in which a text of ``file`` names commands."""

        def add(made: Made) -> Made:
            self.extend(Place(file, each, made) for each in words)
            return made

        return add


def typed(place: Place, bench: Bench) -> None:
    """Type what is said, exactly as it is said; then it is done, and not said any more."""
    with place.scene(bench) as scene:
        text = scene.said()
        (command, *_) = [each for each in commands_in(text) if is_of(place.words, each)] or [""]
        assert command, text
        scene.before()
        words = filled(command, {**values(bench), **scene.values})
        done = scene.by(words) if scene.by else bench.types(words, scene.stdin)
        if scene.then:
            assert scene.then in done.err, (command, done)
            return
        assert done.code in scene.codes, (command, done)
        if scene.mends:
            again = scene.said()
            assert command not in commands_in(again), again


def values(bench: Bench) -> dict[str, str]:
    """What stands in capitals in most texts."""
    return {
        "FILE": str(bench.folder / "all.yaml"),
        "DIR": str(bench.folder / "manifests"),
        "NAME": "big",
        "COMMIT": COMMIT,
    }


def operated(bench: Bench, controller: Controller) -> None:
    """The controller says that it has read what is committed, as soon as it is."""
    at_rest = controller.answers["status"]
    controller.answers["status"] = lambda _: {
        **at_rest,
        "revision": bench.repo.head(),
        "operations": bench.repo.head("refs/heads/operations") or "",
    }


@contextmanager
def scripted(bench: Bench, *texts: str, **answers: Any) -> Iterator[Controller]:
    """A controller that answers at the bench's home; these manifests are committed."""
    bench.home.mkdir(exist_ok=True, mode=0o700)
    if texts:
        bench.has_texts(*texts)
    with listening(bench.home) as controller:
        operated(bench, controller)
        controller.answers.update(answers)
        yield controller


def elsewhere(bench: Bench, text: str) -> str:
    """What others than the command line say names no cluster; in a home of one's own one adds its option."""
    return text.replace("reconciler ", f"reconciler --home '{bench.home}' ")
