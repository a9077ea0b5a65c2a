"""The commands with fixed words that run as root on a machine, and the paths of their tools.

All other commands that run as root are repairs (``repair.py``).
"""

from __future__ import annotations

PATHS = {
    "defaults": ("/usr/bin/defaults",),
    "ifconfig": ("/sbin/ifconfig",),
    "pmset": ("/usr/bin/pmset",),
    "powermetrics": ("/usr/bin/powermetrics",),
    "shutdown": ("/sbin/shutdown", "/usr/sbin/shutdown"),
    "sysctl": ("/usr/sbin/sysctl",),
}
"""Paths of each tool on a Mac; of ``shutdown``, also on Linux."""
POWER = ("powermetrics", "--samplers", "gpu_power,cpu_power,thermal", "-n", "1", "-i", "1000")
"""The probe of power and heat."""
RESTART = ("shutdown", "-r", "now")
