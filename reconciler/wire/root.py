"""The commands that run as root on a machine, as far as their words are always the same, and the paths of their tools.

Whatever else runs as root is a repair (``repair.py``).
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
"""Where each tool may be: of a Mac, and ``shutdown`` also of Linux."""
POWER = ("powermetrics", "--samplers", "gpu_power,cpu_power,thermal", "-n", "1", "-i", "1000")
"""The probe of power and heat."""
RESTART = ("shutdown", "-r", "now")
