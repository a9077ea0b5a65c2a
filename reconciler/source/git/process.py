"""Runs git: with a time-out, without prompts, in English, and with the repository's own configuration only."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from reconciler.errors import Invalid, Unreachable
from reconciler.wire.shortage import explained

TIMEOUT_SECONDS = 30.0
PUSH_TIMEOUT_SECONDS = 120.0


def run_git(
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> bytes:
    """Run git and return its output. Raises ``Invalid`` for an exit status that is not in ``codes``."""
    process = git_process(arguments, stdin, environment or {}, timeout_seconds)
    if process.returncode not in codes:
        raise Invalid(f"git {_command(arguments)}: {error_text(process.stderr)}")
    return process.stdout


def git_process(
    arguments: Sequence[str],
    stdin: bytes,
    environment: Mapping[str, str] | None,
    timeout_seconds: float,
    file_bytes_max: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in its own process group, which is killed at the time-out.

    With ``environment`` None the user's own configuration applies. With ``file_bytes_max`` the system ends a git that
    writes a larger file.
    """
    command = ["git", "--no-pager", *arguments]
    if file_bytes_max is not None:
        # in blocks of 512 bytes, as POSIX has it; an option of Popen for this is not safe with threads
        command = ["/bin/sh", "-c", 'ulimit -f "$0" && exec "$@"', str(file_bytes_max // 512), *command]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(environment),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise Invalid("git is not installed, or not on PATH") from None
    except OSError as error:
        raise Unreachable(explained(f"git cannot be started: {error}")) from error
    with process:
        try:
            out, err = process.communicate(stdin, timeout_seconds)
        except subprocess.TimeoutExpired:
            raise Unreachable(f"git {_command(arguments)} took more than {timeout_seconds:g} s") from None
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):  # it has just ended
                    os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if extra is None or not name.startswith("GIT_")}
    fixed = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    if extra is None:
        return {**kept, **fixed, "GIT_AUTHOR_DATE": "@0 +0000"}  # only the author is needed, not the time
    return {**kept, **fixed, **_OWN, **extra}


_OWN = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "XDG_CONFIG_HOME": os.devnull,  # a user's own attributes
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_DEFAULT_REF_FORMAT": "files",
}
"""Use only the repository's own configuration and formats, whatever git's defaults."""


def _command(arguments: Sequence[str]) -> str:
    return next((argument for argument in arguments if not argument.startswith("-")), "")


def error_text(stderr: bytes) -> str:
    return stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ") or "failed"
