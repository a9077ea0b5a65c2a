"""Tools that show the system of an emulated Mac: its memory, its power, its services and its processes."""

from __future__ import annotations

import re
import time
from calendar import timegm
from collections.abc import Mapping
from dataclasses import replace

from reconciler.sandbox.world import changes, launchd
from reconciler.sandbox.world.state import Machine

from .call import NOT_ROOT, ToolCall, ToolOutput, refused

PAGE_BYTES = 16384
NEVER_INDEX = ".metadata_never_index"
_REPORTS = "/Library/Logs/DiagnosticReports"
_RDMA_PANIC = (
    '{ "panicString" : "panic(cpu 4 caller 0xfffffe0030a1c2d4): Kernel data abort. at pc 0xfffffe0033a71c08\\n'
    'Kernel Extensions in backtrace:\\n   com.apple.driver.AppleThunderboltRDMA(0.0.1)\\nloaded kexts:\\n" }'
)
_MEMORY_PANIC = (
    '{ "panicString" : "panic(cpu 9 caller 0xfffffe004b8cd288): \\"completeMemory() prepare count underflow\\"'
    ' @IOGPUMemory.cpp:550\\nloaded kexts:\\ncom.apple.driver.AppleThunderboltRDMA\\t0.0.1\\n" }'
)
SSHD = "system/com.openssh.sshd"
_SSHD_JOB = f"{SSHD} = {{\n\ttype = LaunchDaemon\n\tstate = waiting\n\truns = 0\n}}\n"
DAEMONS = "/Library/LaunchDaemons/"
_LAUNCHCTL: Mapping[str, str] = {
    "print": "Print failed",
    "bootstrap": "Bootstrap failed",
    "bootout": "Boot-out failed",
    "enable": "Enable failed",
    "disable": "Disable failed",
    "kickstart": "Kickstart failed",
}
"""The beginning of an error of ``launchctl``, by verb."""
_LIMIT = "iogpu.wired_limit_mb"


def uname(call: ToolCall) -> ToolOutput:
    values = {"-s": "Darwin", "-n": f"{call.name}.local", "-r": "25.3.0", "-m": "arm64"}
    if call.words == ("-a",):
        return ToolOutput(f"Darwin {call.name}.local 25.3.0 Darwin Kernel Version 25.3.0 arm64\n")
    words = [values[word] for word in call.words or ("-s",) if word in values]
    return ToolOutput(" ".join(words) + "\n") if words else refused(call, "illegal option")


def identity(call: ToolCall) -> ToolOutput:
    """Answer ``id``."""
    values = {"-u": "501", "-un": call.user}
    return ToolOutput(values.get(" ".join(call.words), f"uid=501({call.user}) gid=20(staff)") + "\n")


def sw_vers(call: ToolCall) -> ToolOutput:
    machine = call.machine
    one = {"-productName": "macOS", "-productVersion": machine.version, "-buildVersion": machine.build}
    if call.words:
        return ToolOutput(one.get(call.words[0].replace("--", "-"), "") + "\n")
    return ToolOutput(
        f"ProductName:\t\tmacOS\nProductVersion:\t\t{machine.version}\nBuildVersion:\t\t{machine.build}\n"
    )


def sysctl(call: ToolCall) -> ToolOutput:
    bare, words = "-n" in call.words, [word for word in call.words if not word.startswith("-")]
    values, lines, unknown = _settings(call.machine), [], []
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            return _set(call, name, value)
        if name in values:
            lines.append(values[name] if bare else f"{name}: {values[name]}")
        else:
            unknown.append(f"sysctl: unknown oid '{name}'\n")
    return ToolOutput("".join(f"{line}\n" for line in lines), "".join(unknown), 1 if unknown else 0)


def _set(call: ToolCall, name: str, value: str) -> ToolOutput:
    if name != _LIMIT or not value.isdecimal():
        return refused(call, f"{name}={value}: Invalid argument")
    if not call.root:
        return refused(call, f"{name}={value}: {NOT_ROOT}")
    before = call.machine.wired_limit_mb
    world = changes.with_machine(call.world, call.name, wired_limit_mb=int(value))
    return ToolOutput(f"{name}: {before} -> {int(value)}\n", world=world)


def _settings(machine: Machine) -> dict[str, str]:
    boot = f"{{ sec = {int(machine.boot_at)}, usec = 0 }} {time.strftime('%a %b %d %H:%M:%S %Y', time.gmtime(machine.boot_at))}"
    values = {
        "hw.model": machine.model,
        "hw.memsize": str(machine.memory_bytes),
        "hw.pagesize": str(PAGE_BYTES),
        "machdep.cpu.brand_string": machine.chip,
        "kern.osproductversion": machine.version,
        "kern.boottime": boot,
        "kern.bootsessionuuid": machine.boot_id,
        "kern.memorystatus_vm_pressure_level": "1",
        _LIMIT: str(machine.wired_limit_mb),
        "vm.swapusage": "total = 0.00M  used = 0.00M  free = 0.00M  (encrypted)",
    }
    if any(port.device for port in machine.ports):
        values["debug.rdma.version"] = "Jul 11 2026 14:22:31 RDMA_family"
    return values


def vm_stat(call: ToolCall) -> ToolOutput:
    machine = call.machine
    wired = (machine.wired_bytes + machine.leaked_bytes + call.live.wired_bytes) // PAGE_BYTES
    free = max(0, machine.memory_bytes // PAGE_BYTES - wired)
    rows = {"free": free, "active": 0, "inactive": 0, "speculative": 0, "wired down": wired, "purgeable": 0}
    rows["occupied by compressor"] = 0
    text = "".join(f"{f'Pages {kind}:':<40}{count:>12}.\n" for kind, count in rows.items())
    return ToolOutput(f"Mach Virtual Memory Statistics: (page size of {PAGE_BYTES} bytes)\n{text}")


def df(call: ToolCall) -> ToolOutput:
    total, free = call.live.disk_kib
    used = total - free
    row = f"/dev/disk3s5 {total:>12} {used:>9} {free:>9} {100 * used // max(1, total):>6}%    /System/Volumes/Data\n"
    folders = sum(not word.startswith("-") for word in call.words)
    return ToolOutput("Filesystem   1024-blocks      Used Available Capacity  Mounted on\n" + row * folders)


def pmset(call: ToolCall) -> ToolOutput:
    machine = call.machine
    if call.words[:1] == ("-g",):
        head = "AC Power:\n" if "custom" in call.words else "System-wide power settings:\nCurrently in use:\n"
        return ToolOutput(
            f"{head} standby              0\n Sleep On Power Button 1\n powernap             0\n"
            " networkoversleep     0\n disksleep            0\n"
            f" sleep                {machine.sleep_minutes}{' (sleep prevented by powerd)' if machine.sleep_minutes else ''}\n"
            " displaysleep         0\n tcpkeepalive         1\n lowpowermode         0\n"
            " autorestart          1\n womp                 1\n"
        )
    if not call.root:
        return refused(call, "This command must be run as root...", 77)
    pairs = dict(zip(call.words[1::2], call.words[2::2], strict=False))
    minutes = pairs.get("sleep", str(machine.sleep_minutes))
    if not minutes.isdecimal():
        return refused(call, "usage: pmset <options>", 64)
    return ToolOutput(world=changes.with_machine(call.world, call.name, sleep_minutes=int(minutes)))


def powermetrics(call: ToolCall) -> ToolOutput:
    if not call.root:
        return ToolOutput(stderr="powermetrics must be invoked as the superuser\n", code=1)
    return ToolOutput(
        f"Machine model: {call.machine.model}\n*** Sampled system activity ***\n\n"
        "**** Processor usage ****\n\nCPU Power: 40 mW\nGPU Power: 23 mW\nANE Power: 0 mW\n"
        "Combined Power (CPU + GPU + ANE): 63 mW\n\n**** Thermal pressure ****\n\nCurrent pressure level: Nominal\n\n"
        "**** GPU usage ****\n\nGPU HW active frequency: 338 MHz\nGPU HW active residency:   2.56% (338 MHz: 2.6%)\n"
        "GPU idle residency:  97.44%\nGPU Power: 23 mW\n"
    )


def fdesetup(call: ToolCall) -> ToolOutput:
    return ToolOutput(f"FileVault is {'On' if call.machine.filevault else 'Off'}.\n")


def profiles(call: ToolCall) -> ToolOutput:
    if call.machine.managed:
        return ToolOutput(
            "Enrolled via DEP: Yes\nMDM enrollment: Yes (User Approved)\nMDM server: https://mdm.example/mdm\n"
        )
    return ToolOutput("Enrolled via DEP: No\nMDM enrollment: No\n")


def _label(path: str) -> str:
    """Return the label of the service with this definition."""
    return path.rpartition("/")[2].removesuffix(".plist")


def launchctl(call: ToolCall) -> ToolOutput:
    """Report or change the services of the system's domain, as ``world.launchd`` says. The SSH server is one of them."""
    if call.words == ("print", SSHD):
        return ToolOutput(_SSHD_JOB)
    if call.words == ("print-disabled", "system"):
        lines = [f'\t"{each.label}" => disabled\n' for each in call.machine.services if each.disabled]
        return ToolOutput(f"disabled services = {{\n{''.join(lines)}}}\n")
    verb, target = (call.words[0], call.words[-1]) if len(call.words) > 1 else ("", "")
    if verb not in _LAUNCHCTL:
        return refused(call, f"of this machine only {', '.join(_LAUNCHCTL)} are known", 64)
    label = _label(target) if verb == "bootstrap" else target.partition("/")[2]
    if verb != "print" and not call.root:
        return ToolOutput(stderr=f"{_LAUNCHCTL[verb]}: 1: {NOT_ROOT}\n", code=1)
    machine = call.machine
    service, code = launchd.step(machine.service(label), verb, call.now, allowed=machine.background)
    if code:
        words = {launchd.IO_ERROR: "Input/output error", launchd.NO_PROCESS: "No such process"}
        no_service = f'Bad request.\nCould not find service "{label}" in domain for system\n'
        failed = f"{_LAUNCHCTL[verb]}: {code}: {words[code]}\n" if code in words else no_service
        return ToolOutput(stderr=failed, code=code)
    if verb != "print":
        return ToolOutput(world=changes.with_service(call.world, call.name, service))
    pid = call.live.services.get(label)
    return ToolOutput(
        f"{target} = {{\n\tactive count = 1\n\tpath = {service.path}\n\ttype = LaunchDaemon\n"
        + (f"\tstate = running\n\n\tpid = {pid}\n" if pid else "\tstate = not running\n")
        + "}\n"
    )


def ioreg(call: ToolCall) -> ToolOutput:
    platform = call.machine.ports[0].domain[:-4] + "0000"  # of no port, and always the same
    return ToolOutput(
        '+-o J475dAP  <class IOPlatformExpertDevice>\n    {\n      "IOPlatformUUID" = "'
        + platform
        + '"\n    }\n'
    )


def find(call: ToolCall) -> ToolOutput:
    """List reports of panics and crashes, with their texts after ``-exec``, the file that keeps Spotlight away, or a
    definition that root alone may change: the only uses of this tool."""
    folder = call.words[0] if call.words else ""
    if call.words[1:2] == ("-prune",):
        others_change = call.machine.service(_label(folder)).flaw in (launchd.Flaw.OWNER, launchd.Flaw.MODE)
        return ToolOutput("" if others_change else f"{folder}\n")
    if call.words[-1:] == (NEVER_INDEX,):
        return ToolOutput("" if call.machine.weights_indexed else f"{folder}/{NEVER_INDEX}\n")
    names = (
        call.machine.panics
        if folder == _REPORTS
        else call.machine.crashes
        if folder.endswith(_REPORTS)
        else ()
    )
    age = next((int(word[1:]) for word in call.words if re.fullmatch(r"-[0-9]+", word)), 10**9)
    new = [name for name in names if call.now - _written_at(name) < 60 * age]
    texts = {name: _RDMA_PANIC if name in call.machine.rdma_panics else _MEMORY_PANIC for name in new}
    read = "-exec" in call.words
    return ToolOutput("".join(f"{folder}/{name}\n" + (f"{texts[name]}\n" if read else "") for name in new))


def _written_at(name: str) -> float:
    """Return the time in a report's name, such as ``panic-full-2026-10-06-231920.0002.panic``; long ago without one."""
    found = re.search(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{6}", name)
    return timegm(time.strptime(found[0], "%Y-%m-%d-%H%M%S")) if found else 0.0


def report_name(kind: str, now: float) -> str:
    """Return the name of a report that is written now: ``panic-full-…`` or ``python3-…``."""
    moment = time.strftime("%Y-%m-%d-%H%M%S", time.gmtime(now))
    return f"panic-full-{moment}.0002.panic" if kind == "panic" else f"{kind}-{moment}.ips"


def pgrep(call: ToolCall) -> ToolOutput:
    """Answer ``pgrep -P PARENT -f PATTERN``; launchd is the parent of orphans."""
    try:
        pattern = re.compile(call.words[-1])
    except (re.error, IndexError):
        return ToolOutput(stderr="usage: pgrep [-flo] pattern\n", code=2)
    own = {each.pid for each in call.live.processes}
    orphans = [each for each in call.live.processes if "-P" not in call.words or each.parent not in own]
    found = [each.pid for each in orphans if pattern.search(each.command)]
    return ToolOutput("".join(f"{pid}\n" for pid in sorted(found)), code=0 if found else 1)


def ps(call: ToolCall) -> ToolOutput:
    """Run the real tool, because processes are real, with columns that both systems have."""
    return ToolOutput(become=("/bin/ps", *call.words))


def sudo(call: ToolCall) -> ToolOutput:
    words = call.words[1:] if call.words[:1] == ("-n",) else call.words
    if not call.machine.sudo and not call.root:
        return refused(call, "a password is required")
    if words in ((), ("-v",), ("true",)) or words[:1] == ("-l",):
        return ToolOutput()
    if words[-1].startswith(DAEMONS) and words[0].endswith(("install", "rm")):
        return _with_definition(call, words)
    return ToolOutput(become=words, as_root=True)


def _with_definition(call: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    """Install or remove a service's definition, in the folder that stands for the system's."""
    installs, path = words[0].endswith("install"), call.root_folder + words[-1]
    service = replace(
        call.machine.service(_label(path)), path=path if installs else "", flaw=launchd.Flaw.NONE
    )
    become = ("/usr/bin/install", "-m", "644", words[-2], path) if installs else ("/bin/rm", "-f", path)
    return ToolOutput(world=changes.with_service(call.world, call.name, service), become=become)


def shutdown(call: ToolCall) -> ToolOutput:
    if not call.root:
        return refused(call, "NOT super-user")
    return ToolOutput("Shutdown NOW!\n", reboots=True)


def xcode_select(call: ToolCall) -> ToolOutput:
    return ToolOutput("/usr\n")  # an existing folder


def socketfilterfw(call: ToolCall) -> ToolOutput:
    on = call.machine.firewall
    return ToolOutput(f"Firewall is {'enabled' if on else 'disabled'}. (State = {int(on)}) \n")


def defaults(call: ToolCall) -> ToolOutput:
    """Read or write whether updates are installed, the only use of this tool."""
    verb, key = call.words[:1], call.words[2:3]
    if key != ("AutomaticallyInstallMacOSUpdates",) or verb not in (("read",), ("write",)):
        return refused(call, "of this machine only AutomaticallyInstallMacOSUpdates is known")
    if verb == ("read",):
        return ToolOutput(f"{int(call.machine.updates)}\n")
    if not call.root:
        return refused(call, f"Could not write domain {call.words[1]}; exiting")
    return ToolOutput(world=changes.with_machine(call.world, call.name, updates=call.words[-1] == "true"))


def tmutil(call: ToolCall) -> ToolOutput:
    """Report or change whether a folder is backed up; without ``-p``, this does not need root."""
    verb = call.words[0] if len(call.words) == 2 else ""
    if verb == "isexcluded":
        return ToolOutput(
            f"[{'Included' if call.machine.weights_backed_up else 'Excluded'}] {call.words[1]}\n"
        )
    if verb not in ("addexclusion", "removeexclusion"):
        return refused(call, "of this machine only isexcluded, addexclusion and removeexclusion are known")
    backed_up = verb == "removeexclusion"
    return ToolOutput(world=changes.with_machine(call.world, call.name, weights_backed_up=backed_up))


def touch(call: ToolCall) -> ToolOutput:
    """Make the file that keeps Spotlight away, which is part of the machine's state. Make any other file for real."""
    if not call.words[-1:] or not call.words[-1].endswith(f"/{NEVER_INDEX}"):
        return ToolOutput(become=("/usr/bin/touch", *call.words))
    return ToolOutput(world=changes.with_machine(call.world, call.name, weights_indexed=False))


def unlink(call: ToolCall) -> ToolOutput:
    """Remove the file that keeps Spotlight away, the only use of this tool."""
    if not call.words[-1:] or not call.words[-1].endswith(f"/{NEVER_INDEX}") or call.machine.weights_indexed:
        return refused(call, f"{' '.join(call.words)}: No such file or directory")
    return ToolOutput(world=changes.with_machine(call.world, call.name, weights_indexed=True))


def quiet(call: ToolCall) -> ToolOutput:
    """Succeed without output."""
    return ToolOutput()
