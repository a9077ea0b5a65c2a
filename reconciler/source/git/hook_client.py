"""Runs as the hooks of the cluster repository, with nothing but Python: ``python -I -S push.py HOOK SOCKET VERSIONS ...``.

``pre-receive`` asks the running controller for the effect of a push, prints the answer, and accepts or refuses. If no
controller answers, the command at the end of the arguments validates the push by itself. ``post-receive`` tells the
controller that the branch has moved, and follows the change if the pusher has asked for it; it never fails a push.
"""

from __future__ import annotations

import time

STARTED = time.time()

import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import socket  # noqa: E402
import struct  # noqa: E402
import sys  # noqa: E402

TYPE_CHECKING = False  # the module of that name takes as long to import as all others here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MAIN = "refs/heads/main"
OPERATIONS = "refs/heads/operations"
GREETING_SECONDS = 1.0
"""The time within which a running controller accepts a connection and greets."""
JUDGE_SECONDS = 30.0
VALIDATE_SECONDS = 120.0
LOOK_SECONDS = 1.0
WAIT_SECONDS = 300.0
WAIT_SECONDS_MAX = 3600.0
HELD_BACK_SECONDS = 20.0
FRAME_BYTES_MAX = 16 * 1024 * 1024
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
OPTIONS = ("allow-job", "allow-removal", "plan", "wait")


class Refused(Exception):
    """The controller has refused a request."""


class Controller:
    """A connection to the controller. Raises ``OSError`` if none answers, ``ValueError`` for an invalid answer."""

    def __init__(self, path: str, versions: Sequence[str]) -> None:
        self.number = 0
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection.settimeout(GREETING_SECONDS)
        self.connection.connect(path)
        self.send({"type": "hello", "role": "hook", "versions": versions})
        self.receive(time.monotonic() + GREETING_SECONDS)

    def ask(self, message: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        self.number += 1
        self.send({**message, "call": self.number})
        deadline = time.monotonic() + seconds
        while True:
            frame = self.receive(deadline)
            if frame.get("reply") == self.number:
                break
        if frame.get("type") == "refused":
            raise Refused(frame.get("text", ""))
        body: dict[str, Any] = frame["body"]
        return body

    def send(self, frame: Mapping[str, Any]) -> None:
        body = json.dumps(frame).encode()
        self.connection.sendall(struct.pack(">I", len(body)) + body)

    def receive(self, deadline: float) -> dict[str, Any]:
        (length,) = struct.unpack(">I", self.exactly(4, deadline))
        if length > FRAME_BYTES_MAX:
            raise ValueError("no frame of this protocol")
        frame = json.loads(self.exactly(length, deadline))
        if not isinstance(frame, dict):
            raise ValueError("no frame of this protocol")
        return dict(frame)

    def exactly(self, count: int, deadline: float) -> bytes:
        received = b""
        while len(received) < count:
            self.connection.settimeout(max(0.01, deadline - time.monotonic()))
            chunk = self.connection.recv(min(65536, count - len(received)))
            if not chunk:
                raise OSError("closed")
            received += chunk
        return received


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def options_of(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the push options: name and value. Raises ``ValueError`` for an unknown one."""
    found: dict[str, Any] = {}
    for index in range(int(environment.get("GIT_PUSH_OPTION_COUNT", "0"))):
        option = environment[f"GIT_PUSH_OPTION_{index}"]
        name, _, value = option.partition("=")
        if name not in OPTIONS:
            raise ValueError(
                f'unknown push option "{option}"; there are:\n'
                "  -o plan, -o wait[=5m], -o allow-removal, -o allow-job"
            )
        found[name] = seconds_of(value) if name == "wait" else value
    return found


def seconds_of(text: str) -> int:
    match = re.fullmatch(r"(\d{1,6})([smh]?)", text or str(int(WAIT_SECONDS)))
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    if not 1 <= seconds <= WAIT_SECONDS_MAX:
        raise ValueError(f'push option "wait={text}": expected a time from 1s to 1h, as in -o wait=5m')
    return seconds


def pre_receive(lines: list[str], path: str, versions: Sequence[str], fallback: Sequence[str]) -> int:
    """Return the exit status: 0 accepts the push."""
    moved = [line.rstrip("\n").split(" ", 2) for line in lines]
    asked = sorted(
        (fields for fields in moved if fields[2] in (MAIN, OPERATIONS)), key=lambda fields: fields[2]
    )
    if not asked:
        return 0
    try:
        options = options_of(os.environ)
    except ValueError as error:
        say(f"reconciler: {error}\nreconciler: {asked[0][2].rpartition('/')[2]} stays as it was")
        return 1
    for fields in asked:
        try:
            verdict = judged(fields, options, path, versions)
        except (OSError, ValueError, KeyError, Refused) as error:
            why = f"{error}" if isinstance(error, Refused) else unanswered(error)
            return by_itself(lines, options, why, fallback)
        for line in verdict["lines"]:
            say(line)
        if not verdict["accept"]:
            return 1
    if "plan" in options:
        say("reconciler: nothing was changed: only the plan was asked for")
        return 1
    return 0


def judged(
    fields: Sequence[str], options: Mapping[str, Any], path: str, versions: Sequence[str]
) -> dict[str, Any]:
    """Ask the controller for the effect of a move of main, or of the operations."""
    old, new, ref = fields
    message: dict[str, Any] = {
        "type": "judge_operations",
        "repository": os.path.realpath("."),
        "old": old,
        "new": new,
        "quarantine": os.environ.get("GIT_QUARANTINE_PATH", "").rpartition("/")[2],
    }
    if ref == MAIN:
        message.update(
            type="judge_push",
            ref=ref,
            allow=options.get("allow-removal"),
            allow_job=options.get("allow-job"),
        )
    return Controller(path, versions).ask(message, JUDGE_SECONDS)


def unanswered(error: Exception) -> str:
    return "the controller is busy" if isinstance(error, TimeoutError) else "the controller is not running"


def by_itself(lines: list[str], options: Mapping[str, Any], why: str, fallback: Sequence[str]) -> int:
    """Validate without a controller."""
    status = validated(lines, fallback)
    if status == 0:
        say(f"reconciler: the manifests are valid; the plan is not known: {why}")
    if status == 0 and "plan" in options:
        say("reconciler: nothing was changed: only the plan was asked for")
        return 1
    return status


def validated(lines: list[str], fallback: Sequence[str]) -> int:
    """Run the command that imports the product."""
    import subprocess

    return subprocess.run(
        fallback, input="".join(lines).encode(), check=False, timeout=VALIDATE_SECONDS
    ).returncode


def post_receive(lines: list[str], path: str, versions: Sequence[str]) -> None:
    moved = [fields for fields in map(str.split, lines) if fields[2] in (MAIN, OPERATIONS)]
    new = [fields[1] for fields in sorted(moved, key=lambda fields: fields[2])]  # main first
    if not new:
        say("reconciler: only the branches main and operations are reconciled; this push changes nothing")
        return
    say(f"reconciler: revision {new[0][:7]} received")
    try:
        controller = Controller(path, versions)
        controller.ask({"type": "look", "name": "source", "at": STARTED}, LOOK_SECONDS)
        seconds = options_of(os.environ).get("wait")
        if seconds:
            follow(controller, new[0], seconds)
    except TimeoutError:
        say("reconciler: the controller is busy; it will pick this up soon")
    except (OSError, ValueError, KeyError, Refused):
        say("reconciler: the controller is not running; it will pick this up when it starts")


def follow(controller: Controller, revision: str, seconds: float) -> None:
    """Print the progress of a revision until it is served or cannot be, or the time is over."""
    deadline = time.monotonic() + seconds
    seen = ""
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            say(
                f"reconciler: not ready after {seconds} s; it goes on without you: reconciler get deployments -w"
            )
            return
        message = {"type": "follow_push", "revision": revision, "seen": seen}
        held_back = min(left, HELD_BACK_SECONDS)
        answer = controller.ask({**message, "wait_seconds": held_back}, held_back + LOOK_SECONDS + 10)
        if answer["version"] != seen:
            for line in answer["lines"]:
                say(line)
        seen = answer["version"]
        if answer["done"]:
            return


def main() -> int:
    hook, path, versions, *fallback = sys.argv[1:]
    lines = sys.stdin.readlines()
    if hook == "pre-receive":
        return pre_receive(lines, path, json.loads(versions), fallback)
    post_receive(lines, path, json.loads(versions))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the pusher has gone; the pushed commits stay
        os._exit(0)
