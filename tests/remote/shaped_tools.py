"""The tools of ``shaped.Shape``: run as ``shaped_tools.py TOOL FOLDER ARGUMENTS…``, without packages of others."""

from __future__ import annotations

import contextlib
import json
import os
import plistlib
import shlex
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from reconciler.sandbox.world.launchd import Service, State, step

STOP_SECONDS = 0.5
"""launchd takes so long to let go of a service; on a Mac, until its process has ended."""
THROTTLE_SECONDS = 0.2
"""launchd waits ten seconds between two starts, systemd as long as the unit says."""


def place(folder: Path, path: str) -> Path:
    """Where a file of the system is kept on this machine."""
    return folder / "root" / path.lstrip("/") if path.startswith(("/Library", "/etc")) else Path(path)


def note(folder: Path, tool: str, words: list[str]) -> None:
    with (folder / "asked").open("a") as log:
        log.write(shlex.join([tool, *words]) + "\n")


def watch(folder: Path, name: str, command: list[str], condition: str, takes_along: str) -> None:
    """Be the service manager's part for one service: starts it again for as long as ``condition`` is there.

    What ends with it: its process ``group``, as launchd has it, or all that it has ``begun``, as systemd; or nothing.
    """
    if os.fork():
        return
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    (folder / f"watcher-{name}").write_text(str(os.getpid()))
    pid = folder / f"watch-{name}"
    loaded = folder / f"loaded-{name}"
    while loaded.exists():
        if Path(condition).exists():
            mark = f"INVOCATION_ID={os.getpid()}-{time.monotonic_ns()}"
            environment = {"PATH": "/usr/bin:/bin", **dict([mark.split("=", 1)])}
            process = subprocess.Popen(command, start_new_session=True, env=environment)
            pid.write_text(str(process.pid))
            process.wait()
            pid.write_text("")
            with contextlib.suppress(ProcessLookupError):
                if takes_along == "group":
                    os.killpg(process.pid, 9)
            for each in begun_with(mark) if takes_along == "begun" else ():
                os.kill(each, 9)
        time.sleep(THROTTLE_SECONDS)
    os._exit(0)


def begun_with(mark: str) -> list[int]:
    """Processes with these words in their environment: systemd knows them by their control group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def end(folder: Path, name: str) -> None:
    (folder / f"loaded-{name}").unlink(missing_ok=True)
    held = folder / f"watch-{name}"
    if held.exists() and held.read_text():
        os.kill(int(held.read_text()), 15)
    watcher = folder / f"watcher-{name}"
    while watcher.exists():
        try:
            os.kill(int(watcher.read_text()), 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    held.unlink(missing_ok=True)


def running(folder: Path, name: str) -> str:
    held = folder / f"watch-{name}"
    return held.read_text() if held.exists() else ""


def launchctl(folder: Path, words: list[str]) -> int:
    verb, *more = words
    if verb == "boot":
        for kept in folder.glob("service-*"):
            service = Service(**json.loads(kept.read_text())).after_boot()
            keep(folder, service)
            if service.state == State.LOADED:
                load(folder, service.path)
        return 0
    if verb == "print-disabled":
        found = [Service(**json.loads(kept.read_text())) for kept in folder.glob("service-*")]
        print(
            "disabled services = {",
            *(f'\t"{each.label}" => disabled' for each in found if each.disabled),
            "}",
            sep="\n",
        )
        return 0
    path = str(place(folder, more[1])) if verb == "bootstrap" else ""
    name = plistlib.loads(Path(path).read_bytes())["Label"] if path else more[0].partition("/")[2]
    kept = folder / f"service-{name}"
    service = Service(**json.loads(kept.read_text())) if kept.exists() else Service(name)
    service = replace(service, path=path or service.path)
    after, code = step(service, verb, time.time(), STOP_SECONDS)
    if verb == "print":
        return show(folder, after, code)
    note(folder, "launchctl", words)
    if code:
        sys.stderr.write(f"launchctl {verb}: {code}\n")
        return code
    if verb == "bootstrap":
        load(folder, path)
    if verb == "bootout" and service.state == State.LOADED:
        end(folder, name)
    keep(folder, after)
    return 0


def keep(folder: Path, service: Service) -> None:
    (folder / f"service-{service.label}").write_text(json.dumps(asdict(service)))


def show(folder: Path, service: Service, code: int) -> int:
    if code:
        sys.stderr.write(f'Bad request.\nCould not find service "{service.label}" in domain for system\n')
        return code
    pid = running(folder, service.label)
    sys.stdout.write(f"system/{service.label} = {{\n\tactive count = 1\n\tpath = {service.path}\n")
    sys.stdout.write("\tstate = running\n" if pid else "\tstate = not running\n")
    sys.stdout.write(f"\tpid = {pid}\n" if pid else "")
    sys.stdout.write("\n\tresource coalition = {\n\t\tpid = 1\n\t}\n}\n")
    return 0


def load(folder: Path, path: str) -> int:
    job = plistlib.loads(Path(path).read_bytes())
    loaded = folder / f"loaded-{job['Label']}"
    loaded.write_text(path)
    ((condition, wanted),) = job["KeepAlive"]["PathState"].items()
    assert wanted is True
    takes_along = "" if job.get("AbandonProcessGroup") else "group"
    watch(folder, job["Label"], job["ProgramArguments"], condition, takes_along)
    return 0


def systemctl(folder: Path, words: list[str]) -> int:
    given, words = words, [word for word in words if word not in ("--user", "--now")]
    verb, *more = words
    if verb == "boot":
        for enabled in folder.glob("enabled-*"):
            begin(folder, enabled.read_text())
        return 0
    if verb == "is-system-running":
        print("running")
        return 0
    name = more[-1] if more else ""
    path = next((p for p in units(folder) if p.name == name), None)
    if verb == "show":
        print(f"FragmentPath={path or ''}\nMainPID={running(folder, name) or 0}")
        print(f"UnitFileState={'enabled' if (folder / f'enabled-{name}').exists() else ''}")
        return 0
    note(folder, "systemctl", given)
    if verb == "daemon-reload":
        return 0
    return 5 if path is None else change(folder, verb, path)


def change(folder: Path, verb: str, path: Path) -> int:
    """Enable, disable, restart or start the service of a unit, and now."""
    name = path.name
    enabled = folder / f"enabled-{name}"
    if verb == "disable":
        enabled.unlink(missing_ok=True)
        end(folder, name)
        return 0
    if verb == "enable":
        enabled.write_text(str(path))
    if verb == "restart":
        end(folder, name)
    if not (folder / f"loaded-{name}").exists():
        begin(folder, str(path))
    return 0


def units(folder: Path) -> list[Path]:
    home = Path(os.environ.get("HOME", "/"))
    return [*folder.glob("root/etc/systemd/system/*"), *home.glob(".config/systemd/user/*")]


def begin(folder: Path, path: str) -> None:
    unit = dict(line.split("=", 1) for line in Path(path).read_text().splitlines() if "=" in line)
    name = Path(path).name
    (folder / f"loaded-{name}").write_text(path)
    takes_along = "" if unit.get("KillMode") == "process" else "begun"
    watch(folder, name, shlex.split(unit["ExecStart"]), unit["ConditionPathExists"], takes_along)


def asked_what_is_allowed(folder: Path, words: list[str]) -> int:
    """Be sudo with the commands of ``folder/allowed``, one a line, for ``sudo -n -l COMMAND``; all else takes a password."""
    allowed = folder / "allowed"
    if (
        words[:2] == ["-n", "-l"]
        and allowed.exists()
        and shlex.join(words[2:]) in allowed.read_text().splitlines()
    ):
        return 0
    sys.stderr.write("sudo: a password is required\n")
    return 1


def main() -> int:
    tool, folder, words = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if tool == "sudo":
        if (folder / "sudo").read_text() != "yes":
            return asked_what_is_allowed(folder, words)
        if words[:2] == ["-n", "-l"]:
            return 0
        words = words[1:] if words[0] == "-n" else words  # or a person types the password
        os.execvp(words[0], words)
    if tool == "tee":
        note(folder, "tee", words)
        goal = place(folder, words[-1])
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_text(sys.stdin.read())
        return 0
    if tool == "install":
        note(folder, "install", words)
        goal = place(folder, words[-1])
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_bytes(Path(words[-2]).read_bytes())
        return 0
    if tool == "rm":
        goal = place(folder, words[-1])
        if goal == Path(words[-1]):
            os.execv("/bin/rm", ["rm", *words])
        note(folder, "rm", words)
        goal.unlink(missing_ok=True)
        return 0
    if tool in ("chown", "chmod"):
        goal = place(folder, words[-1])
        if goal == Path(words[-1]):
            os.execv(f"/bin/{tool}", [tool, *words])
        note(folder, tool, words)  # whoever tests is not root
        return 0
    if tool == "find":
        print(words[0])  # root owns each definition: another user makes them here
        return 0
    if tool == "id":
        print("501" if words == ["-u"] else "ada")
        return 0
    if tool in ("launchctl", "systemctl"):
        return {"launchctl": launchctl, "systemctl": systemctl}[tool](folder, words)
    outputs = {
        "uname": {"-s": "Darwin", "-m": "arm64", "-n": "studio-1.local"}.get(" ".join(words), ""),
        "sw_vers": "26.3",
        "loginctl": "no",
        "fdesetup": "FileVault is On.",
        "rdma_ctl": "disabled",
        "xcode-select": "/Library/Developer/CommandLineTools",
        "pmset": "AC Power:\n Sleep On Power Button 1\n autorestart          0\n sleep                1 (sleep prevented by powerd)\n",
    }
    print(outputs[tool])
    return 0


if __name__ == "__main__":
    sys.exit(main())
