"""Explains the resource that a failed system call lacked, and the remedy, by the number of its error.

The numbers belong to the system that raised the error, so its own processes must explain it.
"""

from __future__ import annotations

import errno
import re
from typing import Optional

_NUMBER = re.compile(r"\[Errno (\d+)\]")
ADVICE = {
    errno.EMFILE: "the process has as many files and connections open as it may: raise its limit where it is started"
    " (ulimit -n 10240; LimitNOFILE= of a systemd unit)",
    errno.ENFILE: "the machine has as many files open as it may: end what holds many of them (lsof), or raise its limit"
    " (sysctl fs.file-max, on a Mac kern.maxfiles)",
    errno.EAGAIN: "no more processes may be started: end what runs needlessly, or raise the limit (ulimit -u; TasksMax= of a"
    " systemd unit; pids.max of a container)",
    errno.ENOMEM: "there is no memory left for it: end what takes the memory, or raise the limit (ulimit -v; MemoryMax= of a"
    " systemd unit)",
    errno.ENOSPC: "the disk is full: make room on it",
    errno.EDQUOT: "the quota of the disk is used up: make room, or raise it",
    errno.EROFS: "the disk is read-only: see the system's log for its errors, then mount it writable",
    errno.EACCES: "this user may not do that: give it the rights to the file, or own it (chown)",
}
"""Advice for each error that another attempt does not mend."""


def explained(text: str, number: Optional[int] = None) -> str:
    """Return a text with the advice for an error, if there is any: ``number``, or the one that Python names in the text
    (``[Errno 24]``)."""
    named = _NUMBER.findall(text)
    if number is None and named:
        number = int(named[-1])
    advice = None if number is None else ADVICE.get(number)
    return text if advice is None or advice in text else "{}; {}".format(text, advice)
