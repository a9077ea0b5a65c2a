"""The place of the secret of the webhook that reports news in the remote repository, for the gateway."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class HookSecret:
    """The place of the secret: a file, or a variable of the gateway's environment. The other field is empty."""

    file: str = ""
    env: str = ""
