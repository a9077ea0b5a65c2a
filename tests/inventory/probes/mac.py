"""A Mac-shaped machine: a folder of scripted tools, each of which says what it is told to say."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.runtime.agent_file import write_bundle
from tests.agent.bench import Bench

from .cases import load

_SUDO = '#!/bin/sh\n[ "$1" = -n ] || exit 64\nshift\nexec "$@"\n'

_IOREG = '#!/bin/sh\necho \'    "IOPlatformUUID" = "00000000-0000-4000-8000-000000000001"\'\n'
_SYSCTL = """[ "$1" = -n ] && case $2 in
hw.memsize) echo 68719476736; exit;;
kern.bootsessionuuid) echo 00000000-0000-4000-8000-00000000B007; exit;;
kern.memorystatus_vm_pressure_level) echo 1; exit;;
esac
"""
_OF_AGENT = {"sysctl": _SYSCTL, "sw_vers": '[ "$1" = -buildVersion ] && echo 25D125 && exit\n'}
"""What the agent itself asks, whatever a tool says to others."""

M5_MAX = {
    "uname": "Darwin\n",
    "sw_vers": "sw_vers/26_3",
    "sysctl": "sysctl/boot_time_named",
    "vm_stat": "vm_stat/24_gib",
    "df": "df/data_volume",
    "ifconfig": "ifconfig/all",
    "netstat": "netstat/lan_and_vpn",
    "rdma_ctl": "rdma_ctl/enabled",
    "nvram": "nvram/set",
    "ioclasscount": "ioclasscount/none_held",
    "fdesetup": "fdesetup/off",
    "launchctl": "launchctl/running",
    "pgrep": "pgrep/none",
    "find": "find/none",
    "pmset": "pmset/mini_server",
    "networksetup": "networksetup_ports/m5_max",
    "system_profiler": "system_profiler/dock_mac_free",
    "socketfilterfw": "socketfilterfw/off",
    "defaults": "defaults/off",
    "tmutil": "tmutil/excluded",
    "profiles": "profiles/not_managed",
    "powermetrics": "powermetrics/cool",
    "ibv_devices": "ibv_devices/m5_max",
    "ibv_devinfo": "ibv_devinfo/active",
}
"""Tools of a MacBook Pro with a Mac on Thunderbolt 2, by the names of cases; its third port is the bridge's."""


class Mac:
    """Its tools are in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cases = {f"{case.tool}/{case.name}": case.output for case in load()}
        for tool, case in M5_MAX.items():
            self.set_output(tool, case)
        self.runs("sudo", _SUDO)
        self.runs("ioreg", _IOREG)

    def loses_all(self) -> None:
        """No tool is there any more."""
        for path in self.folder.iterdir():
            if not path.suffix:
                path.unlink()

    def set_output(self, tool: str, case: str) -> None:
        """From now on the tool says what is in a case, or this very text where there is no such case."""
        output = self._cases.get(case)
        status, stderr, text = (output.code, output.stderr, output.stdout) if output else (0, "", case)
        (self.folder / f"{tool}.out").write_text(text)
        (self.folder / f"{tool}.err").write_text(stderr)
        place = f"{self.folder}/{tool}"
        self.runs(
            tool,
            f"#!/bin/sh\n{_OF_AGENT.get(tool, '')}echo x >> {place}.runs\n/bin/cat {place}.err >&2\n/bin/cat {place}.out\nexit {status}\n",
        )

    def runs(self, tool: str, script: str) -> None:
        """From now on the tool is this script."""
        path = self.folder / f"{tool}.new"
        path.write_text(script)
        path.chmod(0o755)
        path.replace(self.folder / tool)

    def loses(self, tool: str) -> None:
        """The tool is not there any more."""
        (self.folder / tool).unlink()

    def times_run(self, tool: str) -> int:
        """How often the tool was run."""
        path = self.folder / f"{tool}.runs"
        return len(path.read_text().split()) if path.exists() else 0


@asynccontextmanager
async def agent_on(mac: Mac, bench: Bench, python: str = sys.executable) -> AsyncIterator[AgentConnection]:
    """A real agent whose tools are this Mac's, and a connection to it."""
    bundle = write_bundle(bench.home / "agents")
    places = {
        "--node": "bench",
        "--directory": bench.directory,
        "--models": bench.models,
        "--run-directory": bench.run_directory,
        "--python": python,
        "--tools": mac.folder,
    }
    words = [str(word) for place in places.items() for word in place]
    command = [sys.executable, "-I", str(bundle), "serve", "--detach", *words]
    starter = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
    assert await asyncio.wait_for(starter.wait(), 60) == 0
    try:
        yield await bench.controller()
    finally:
        await bench.close()


def jaccl(mac: Mac, available: bool) -> str:
    """An interpreter whose MLX has JACCL or not; its absolute path."""
    mac.runs("python", f"#!/bin/sh\necho jaccl {available}\necho working set 51539607552\n")
    return str(mac.folder / "python")
