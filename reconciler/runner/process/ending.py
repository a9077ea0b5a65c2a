"""The ends of ranks."""

from __future__ import annotations


class RankEnd(Exception):
    """The rank is over: ``code`` is one of ``wire.launch.ExitCode``, the text one sentence for people."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
