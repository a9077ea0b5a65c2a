"""How the tokens of an answer are chosen and what ends it, and who decides what a request does not say: its deployment, else
its model. Pure.

The gateway knows the deployment, and rank 0 the model's ``generation_config.json``: each settles in its turn what is
still open.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterable, Optional, Tuple


@dataclasses.dataclass(frozen=True)
class Bias:
    """An addition to the log-probability of one token."""

    token: int
    by: float


@dataclasses.dataclass(frozen=True)
class Sampling:
    """The choice of the next token. ``temperature`` 0 is greedy, and then only ``biases`` and penalties matter."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 is off."""
    min_p: float = 0.0
    seed: int = 0
    """The gateway draws one where the client gave none: with it an answer can be continued elsewhere."""
    biases: Tuple[Bias, ...] = ()
    repetition_penalty: float = 1.0
    """Divides the logits of tokens of prompt and answer, or multiplies those below 0. 1 is off."""
    frequency_penalty: float = 0.0
    """Is taken off the logit of a token once for each time that the answer has it."""
    presence_penalty: float = 0.0
    """Is taken off the logits of the answer's tokens."""

    @property
    def penalizes(self) -> bool:
        """Return whether the choice depends on earlier tokens otherwise than through the model."""
        return self.repetition_penalty != 1.0 or self.frequency_penalty != 0.0 or self.presence_penalty != 0.0


@dataclasses.dataclass(frozen=True)
class Ending:
    """Which tokens end an answer."""

    tokens_min: int = 0
    """No token that could end it is chosen, and no stop string looked for, before it has so many tokens."""
    ignore_end: bool = False
    """Whether it goes on after the model's end token."""
    stop_tokens: Tuple[int, ...] = ()
    """Further tokens that end it. Their text is not part of it."""


PATTERN_MAX, COUNT_MAX = 4096, 1000
"""The longest pattern that is looked for, in tokens, and the most repetitions: a rank remembers as many tokens of each answer."""


@dataclasses.dataclass(frozen=True)
class Repetition:
    """When an answer ends because it only repeats itself: its last tokens are one pattern, so many times in a row. The
    fields are vLLM's ``RepetitionDetectionParams`` (vllm/sampling_params.py)."""

    pattern_max: int
    """Most tokens of the pattern; 0: no answer ends so."""
    pattern_min: int
    """At least 1. A shorter pattern is also a longer one, which has it several times."""
    count: int
    """At least 2."""


BY_DEFAULT = Sampling()
"""Everything that is off or unset."""
BY_MODEL = Ending()
"""The model's end tokens do."""


OPEN = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""The fields of ``Sampling`` that have such defaults."""


@dataclasses.dataclass(frozen=True)
class SamplingDefaults:
    """Values of the fields of ``Sampling`` with the same names; None: nothing is said of it here."""

    temperature: Optional[float] = None
    top_p: Optional[float] = None
    top_k: Optional[int] = None
    min_p: Optional[float] = None
    repetition_penalty: Optional[float] = None


def known_of(defaults: SamplingDefaults, unset: Iterable[str]) -> Dict[str, Any]:
    """Return what is said of the ``unset`` fields of a ``Sampling``, by name."""
    found = {name: getattr(defaults, name) for name in unset if name in OPEN}
    return {name: value for name, value in found.items() if value is not None}
