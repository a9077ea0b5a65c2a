"""Where the gateway finds the secret of the webhook that says that there is something new in the remote repository."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class HookSecret:
    """The place of the secret: a file, or a variable of the gateway's environment. The other one is empty."""

    file: str = ""
    env: str = ""
