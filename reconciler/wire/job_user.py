"""The user that runs jobs, and the way in which launcher and agent start a process of that user."""

from __future__ import annotations

import os
import pwd
from typing import Any, Dict, List, Tuple

SUDO = "/usr/bin/sudo"
_GROUPS_MAX = 16
"""``NGROUPS_MAX`` of macOS."""


def another(user: str) -> bool:
    """Return whether ``user`` is another user than this process's. Raises ``KeyError`` for one that does not exist."""
    return bool(user) and pwd.getpwnam(user).pw_uid != os.geteuid()


def started_as(user: str) -> Tuple[List[str], Dict[str, Any]]:
    """Return the words before the command of a process of ``user``, and further arguments for ``subprocess.Popen``.

    Empty: this process's own user. Raises ``KeyError`` for a user that does not exist, ``ValueError`` for root.
    """
    if not another(user):
        return [], {}
    found = pwd.getpwnam(user)
    if found.pw_uid == 0:
        raise ValueError("jobs do not run as {}: name a user without rights".format(user))
    if os.geteuid() == 0:
        groups = os.getgrouplist(user, found.pw_gid)[:_GROUPS_MAX]
        return [], {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": groups}
    return [SUDO, "-n", "-u", user, "--"], {}


def name_of(uid: int) -> str:
    """Return the name of a user; its number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
