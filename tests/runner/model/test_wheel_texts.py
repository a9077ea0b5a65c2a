"""Every text of the pinned wheels' Metal, JACCL and ring has a class, or is stated as harmless."""

from __future__ import annotations

import pytest

from reconciler.runner.model.mlx_errors import meaning
from reconciler.wire.launch import ExitCode

from . import wheel_texts

KNOWN = wheel_texts.known()
TEXTS = [(text, name) for name, texts in KNOWN["classes"].items() for text in texts]


def raised(text: str) -> str:
    """A text as it is raised: with its tag, and a number where it ends before one."""
    tagged = text if text.startswith(("[", "Cannot")) else f"[jaccl] {text}"
    return f"{tagged} 9)" if tagged.endswith(("(error:", "errno", "errno=")) else tagged


@pytest.mark.parametrize(("text", "name"), TEXTS, ids=[text for text, _ in TEXTS])
def test_a_text_of_the_wheels_has_the_class_that_is_written_beside_it(text: str, name: str) -> None:
    assert meaning(raised(text)) == getattr(ExitCode, name)


def test_what_is_harmless_has_a_reason_and_no_class() -> None:
    assert all(KNOWN["harmless"].values())
    assert {text: meaning(text) for text in KNOWN["harmless"]} == dict.fromkeys(KNOWN["harmless"])


def test_the_texts_are_those_of_the_pinned_version() -> None:
    assert KNOWN["version"] == wheel_texts.pinned(), "run: python -m tests.runner.model.wheel_texts"


@pytest.mark.second_tier
@pytest.mark.timeout(2 * wheel_texts.DOWNLOAD_SECONDS)
def test_the_wheels_of_the_index_say_what_is_listed_and_nothing_else() -> None:
    assert wheel_texts.difference(wheel_texts.download(wheel_texts.pinned())) == []
