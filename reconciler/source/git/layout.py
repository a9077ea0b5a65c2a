"""The files that make a folder a bare git repository: creates them, finds damage after a disk failure, a loss of power or a
partial copy, and writes them again."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path

from reconciler.errors import Invalid, Unreachable, few_names

from .hooks import SETTINGS
from .process import TIMEOUT_SECONDS, git_process, run_git

_FOLDERS = ("refs", "refs/heads", "objects/info", "objects/pack")
"""Without ``refs`` git finds no repository; tools that copy no empty folders leave it out once the refs are packed."""
_SETTINGS = "".join("[{}]\n\t{} = {}\n".format(*name.split("."), value) for name, value in SETTINGS.items())
EXAMINED_SECONDS = 120.0
WHOLE_BYTES_MAX = 256 * 1024 * 1024
"""For a larger repository, only the connections of its objects are examined, and not the contents of its files."""
SHOWN = 3
_HARMLESS = ("notice:", "warning:", "dangling ", "Checking ", "hint:")
_LOGGED = re.compile(r"[0-9a-f]+ ([0-9a-f]{40,64}) .*")


def initialize(path: Path, branch: str) -> None:
    """Create an empty repository. Raises ``Invalid`` if something else is in its place."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise Invalid(f"{path} exists but is not a git repository: move it away")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    init_bare(path, branch)
    with (path / "config").open("a", encoding="utf-8") as config:  # git would need a process for each
        config.write(_SETTINGS)


def init_bare(path: Path, branch: str) -> None:
    run_git(("init", "--quiet", "--bare", "--template=", f"--initial-branch={branch}", str(path)))


def looks_like_one(path: Path) -> bool:
    """Return whether a folder has the objects of a bare repository, even if it lacks the rest."""
    return (path / "objects").is_dir() and ((path / "hooks").is_dir() or (path / "logs").is_dir())


def restore(path: Path, branch: str, refs: tuple[str, ...]) -> list[str]:
    """Restore the known parts that the bare repository at ``path`` has lost: its folders, ``HEAD``, which names
    ``branch``, ``config``, and each of ``refs`` that has its last commit in its log.

    Return the restored paths in the repository. Raises ``OSError``, ``Invalid`` and ``Unreachable``.
    """
    if not looks_like_one(path):
        return []
    restored = [name for name in _FOLDERS if not (path / name).is_dir()]
    for name in restored:
        (path / name).mkdir(parents=True)
    head = f"ref: refs/heads/{branch}\n".encode()
    if not _is_head(path / "HEAD"):
        _write(path / "HEAD", head)
        restored.append("HEAD")
    if not _is_config(path) and _has_notes(path):
        _write(path / "config", _config(path).encode())
        restored.append("config")
    for ref in refs:
        commit = last_logged(path, ref)
        if commit and _is_lost(path, ref) and not _commit(path, commit).returncode:
            if (path / ref).is_file():  # git does not replace an unreadable ref
                (path / ref).unlink()
            run_git((f"--git-dir={path}", "update-ref", ref, commit))
            restored.append(ref)
    return restored


def last_logged(path: Path, ref: str) -> str:
    """Return the last commit of a ref by its log; empty without a log, which git removes with the ref."""
    try:
        lines = (path / "logs" / ref).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    found = _LOGGED.fullmatch(lines[-1]) if lines else None
    return found[1] if found is not None and found[1].strip("0") else ""


def damage(path: Path) -> str:
    """Return the faults that `git fsck` finds in the bare repository at ``path``, for people; empty if there are none.

    Raises ``Unreachable`` if it takes too long.
    """
    size = sum(each.stat().st_size for each in (path / "objects").rglob("*") if each.is_file())
    depth = "--connectivity-only" if size > WHOLE_BYTES_MAX else "--full"
    arguments = (f"--git-dir={path}", "fsck", depth, "--no-dangling", "--no-progress")
    process = git_process(arguments, b"", {}, EXAMINED_SECONDS)
    if not process.returncode:
        return ""
    if process.returncode < 0:
        raise Unreachable(f"git fsck was ended by signal {-process.returncode}")
    lines = (process.stderr + b"\n" + process.stdout).decode("utf-8", "replace").splitlines()
    found = [line.strip().replace(f"{path}/", "") for line in lines if line.strip()]
    return few_names([line for line in found if not line.startswith(_HARMLESS)] or found, SHOWN)


def _is_head(file: Path) -> bool:
    """Return whether git accepts a file as the HEAD of a repository."""
    with suppress(OSError):
        content = file.read_bytes().strip()
        return re.fullmatch(rb"ref:\s*refs/\S+|[0-9a-f]{40,64}", content) is not None
    return False


def _is_config(path: Path) -> bool:
    """Return whether git can read the settings of a repository, and they make it one; an empty file does not."""
    if not (path / "config").is_file() or b"repositoryformatversion" not in (path / "config").read_bytes():
        return False
    listed = git_process(("config", "--file", str(path / "config"), "--list"), b"", {}, TIMEOUT_SECONDS)
    return b"bad config" not in listed.stderr


def _has_notes(path: Path) -> bool:
    """Return whether the controller's refs exist. They have the settings of ``config`` beyond git's own."""
    packed = path / "packed-refs"
    notes = path / "refs" / "reconciler"
    return any(notes.glob("*")) or (packed.is_file() and b" refs/reconciler/" in packed.read_bytes())


def _config(path: Path) -> str:
    """Return the settings that git needs to read a repository, by the length of the names in its logs."""
    long = any(len(last_logged(path, ref)) == 64 for ref in ("HEAD", "refs/heads/main"))
    version, extensions = (1, "[extensions]\n\tobjectformat = sha256\n") if long else (0, "")
    return f"[core]\n\trepositoryformatversion = {version}\n\tbare = true\n{extensions}{_SETTINGS}"


def _is_lost(path: Path, ref: str) -> bool:
    """Return whether a ref leads to no object. False if git could not find out, for lack of memory or time."""
    return b"Not a valid object name" in _commit(path, ref).stderr


def _commit(path: Path, name: str) -> subprocess.CompletedProcess[bytes]:
    arguments = (f"--git-dir={path}", "cat-file", "-e", f"{name}^{{commit}}")
    return git_process(arguments, b"", {}, TIMEOUT_SECONDS)


def _write(file: Path, content: bytes) -> None:
    """Write a file in place of an unreadable one. Raises ``Invalid`` if a folder is in its place."""
    if file.is_dir() and not file.is_symlink():
        raise Invalid(f"{file} is a folder: move it away")
    draft = file.with_name(f"{file.name}.restored")
    draft.write_bytes(content)
    draft.replace(file)
