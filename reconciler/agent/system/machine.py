"""Facts of the machine that do not change while it runs."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
import uuid
from pathlib import Path

from . import operating_system

_PLATFORM_UUID = re.compile(r'"IOPlatformUUID" = "([0-9A-Fa-f-]+)"')


@functools.lru_cache(maxsize=None)
def boot_id() -> str:
    if operating_system.is_mac():
        return operating_system.output(("sysctl", "-n", "kern.bootsessionuuid")).strip()
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def memory_bytes() -> int:
    if operating_system.is_mac():
        return int(operating_system.output(("sysctl", "-n", "hw.memsize")))
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def build() -> str:
    """Return the build of macOS, which identifies the system; empty on other systems."""
    if not operating_system.is_mac():
        return ""
    try:
        return operating_system.output(("sw_vers", "-buildVersion")).strip()
    except (OSError, subprocess.SubprocessError):
        return ""  # not known, which keeps no rank from serving


def host_id() -> str:
    """Return an id that two agents share exactly if they share a machine; a digest, because its source may identify the
    machine."""
    return hashlib.sha256(_host_name().encode()).hexdigest()[:32]


def _host_name() -> str:
    if operating_system.is_mac():
        shown = operating_system.output(("ioreg", "-rd1", "-c", "IOPlatformExpertDevice"))
        match = _PLATFORM_UUID.search(shown)
        if match:
            return "platform " + match.group(1).upper()
    try:
        content = Path("/etc/machine-id").read_text("ascii").strip()
    except FileNotFoundError:
        content = ""
    if re.match(r"[0-9a-f]{32}\Z", content):
        return "machine " + content
    address = uuid.getnode()
    drawn_at_random = address >> 40 & 1  # RFC 4122, 4.5: the multicast bit marks an address that is none
    return "host {} {:012x}".format(os.uname().nodename, 0 if drawn_at_random else address)
