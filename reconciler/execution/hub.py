"""The hub that weights are fetched from, and its token, which is read on use and kept nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.errors import Invalid, Refused
from reconciler.resources import TokenRef
from reconciler.secret_files import find_secret

ENDPOINT_VARIABLE = "HF_ENDPOINT"
"""Variable with the URL of a hub other than Hugging Face's, as in huggingface_hub."""


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub that the environment of ``reconciler up`` names."""

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
        try:
            return find_secret(ref.file, ref.env, self.environment)
        except Invalid as error:
            raise Refused("TokenMissing", f"the hub's token: {error}") from None
