"""The hub that weights are fetched from, and its token, which is read on use and kept nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import Refused
from reconciler.resources import TokenRef

ENDPOINT_VARIABLE = "HF_ENDPOINT"
"""Variable with the URL of a hub other than Hugging Face's, as in huggingface_hub."""


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub as the environment of ``reconciler up`` has it."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def endpoint(self) -> str:
        """Return its URL; empty for Hugging Face's."""
        return self.environment.get(ENDPOINT_VARIABLE, "")

    def token(self, ref: TokenRef | None) -> str:
        """Return the token that a manifest refers to; empty without a reference. Raises ``Refused`` if it is
        missing."""
        if ref is None:
            return ""
        if ref.env is not None:
            token = self.environment.get(ref.env, "").strip()
            if not token:
                text = f"the environment of `reconciler up` has no {ref.env}; set it, and restart `reconciler up`"
                raise Refused("TokenMissing", text)
            return token
        assert ref.file is not None
        try:
            return Path(ref.file).expanduser().read_text().strip()
        except (OSError, UnicodeError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise Refused("TokenMissing", f"the hub's token in {ref.file} cannot be read: {reason}") from None
