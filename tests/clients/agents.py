"""Runs a coding agent on a task: it reads a file, edits it, and runs a command that checks it; once more while a rank dies."""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import Cluster

from .documents import blocks
from .installing import installed
from .outcome import Outcome
from .rows import CHAT, MESSAGES, NODE, PYTHON, RESPONSES, Client
from .scripts import Script, call
from .sdks import environment
from .world import base, continued, generated, kill_rank

NOTES, EDITED = "colour = red\n", "colour = blue\n"
CHECK = "grep -q 'colour = blue' notes.txt && echo checked-$(wc -c < notes.txt)\n"
CHECKED = "The check printed checked-14."
SECONDS_MAX = 240.0
PACE = 0.1
"""Seconds of a token while a rank is to be killed."""
_READING = "I read the notes first."
_CHECKING = "The notes have another colour now. I run the check that is in this folder, and then I am done with the task."
_WENT_ON = "The session went on."
_PICTURE = "{folder}/picture.png"
_RED = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
"""A PNG of one red pixel."""
_DONE = "The check printed {seen:checked-[0-9]+}."


@dataclass(frozen=True)
class Agent:
    """A coding agent. ``{prompt}`` stands in its command for the task."""

    client: Client
    command: Sequence[str]
    steps: Script
    slow: int = 2
    """The step during which a rank is killed."""
    shows: str = CHECKED
    """What it prints in the end."""
    history: Script = ()
    """Steps that leave an image, the result of nothing and a call that breaks off in its history."""
    again: Sequence[str] = ()
    """Its command for going on with the session before."""

    @property
    def scripts(self) -> Mapping[str, Script]:
        """Return its task, undisturbed and slowly enough that a rank can be killed in the middle."""
        slowly = [{**step, "pace": PACE} if at == self.slow else step for at, step in enumerate(self.steps)]
        name = self.client.name.lower().replace(" ", "-")
        went = {f"{name}-history": self.history, f"{name}-on": [{"say": _WENT_ON}]} if self.history else {}
        return {name: self.steps, f"{name}-slowly": slowly, **went}


_PATCH = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: notes.txt
@@
-colour = red
+colour = blue
*** End Patch
EOF"""
_FILE = "{folder}/notes.txt"
_EDIT = f"""The notes get another colour, which the check that is in this folder then looks at.

notes.txt
```
<<<<<<< SEARCH
{NOTES}=======
{EDITED}>>>>>>> REPLACE
```"""
"""An edit for an agent that reads edits out of the text."""


def _calling(
    name: str,
    package: str,
    surface: str,
    command: Sequence[str],
    again: Sequence[str],
    *calls: Mapping[str, object],
) -> Agent:
    """An agent that works by calls of tools."""
    read, edit, check, look, silent = calls
    steps = (
        {"say": _READING, "calls": [read]},
        {"calls": [edit]},
        {"say": _CHECKING, "calls": [check]},
        {"say": _DONE},
    )
    history = ({"calls": [look]}, {"calls": [silent]}, {"cut": check})
    return Agent(Client(name, NODE, [package], surface), command, steps, history=history, again=again)


_CODEX = ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")

AGENTS: Sequence[Agent] = (
    _calling(
        "Codex",
        "@openai/codex@0.171.0",
        RESPONSES,
        [*_CODEX, "{prompt}"],
        [*_CODEX, "resume", "--last", "{prompt}"],
        call("exec_command", cmd="cat notes.txt"),
        call("exec_command", cmd=_PATCH),
        call("exec_command", cmd="sh check.sh"),
        call("view_image", path=_PICTURE),
        call("exec_command", cmd="true"),
    ),
    _calling(
        "Claude Code",
        "@anthropic-ai/claude-code@2.1.332",
        MESSAGES,
        ["claude", "-p", "{prompt}", "--allowedTools", "Read,Edit,Bash"],
        ["claude", "--continue", "-p", "{prompt}", "--allowedTools", "Read,Edit,Bash"],
        call("Read", file_path=_FILE),
        call("Edit", file_path=_FILE, old_string="colour = red", new_string="colour = blue"),
        call("Bash", command="sh check.sh", description="Run the check"),
        call("Read", file_path=_PICTURE),
        call("Bash", command="true", description="Do nothing"),
    ),
    _calling(
        "OpenCode",
        "opencode-ai@1.18.33",
        CHAT,
        ["opencode", "run", "{prompt}"],
        ["opencode", "run", "--continue", "{prompt}"],
        call("read", filePath=_FILE),
        call("edit", filePath=_FILE, oldString="colour = red", newString="colour = blue"),
        call("bash", command="sh check.sh", description="Run the check"),
        call("read", filePath=_PICTURE),
        call("bash", command="true", description="Do nothing"),
    ),
    _calling(
        "qwen-code",
        "@qwen-code/qwen-code@0.24.4",
        CHAT,
        ["qwen", "--yolo", "-p", "{prompt}"],
        ["qwen", "--yolo", "--continue", "-p", "{prompt}"],
        call("read_file", file_path=_FILE),
        call("edit", file_path=_FILE, old_string="colour = red", new_string="colour = blue"),
        call("run_shell_command", command="sh check.sh", is_background=False),
        call("read_file", file_path=_PICTURE),
        call("run_shell_command", command="true", is_background=False),
    ),
    _calling(
        "Continue",
        "@continuedev/cli@1.5.47",
        CHAT,
        ["cn", "-p", "--auto", "{prompt}"],
        ["cn", "--resume", "-p", "--auto", "{prompt}"],
        call("Read", filepath=_FILE),
        call("Edit", file_path=_FILE, old_string="colour = red", new_string="colour = blue"),
        call("Bash", command="sh check.sh"),
        call("Read", filepath=_PICTURE),
        call("Bash", command="true"),
    ),
    Agent(
        Client("aider", PYTHON, ["aider-chat==0.86.2"], CHAT),
        [
            *("aider", "--model", "openai/tiny", "--no-git", "--yes-always", "--edit-format", "diff"),
            *(
                "--no-check-update",
                "--no-show-release-notes",
                "--no-show-model-warnings",
                "--analytics-disable",
            ),
            *("--auto-test", "--test-cmd", "sh check.sh", "--message", "{prompt}", "notes.txt"),
        ],
        [{"say": _EDIT}, {"say": _READING}],
        slow=0,
        shows="checked-14",
    ),
)

AGENT_SCRIPTS: Mapping[str, Script] = {
    name: script for agent in AGENTS for name, script in agent.scripts.items()
}


def run(agent: Agent, made: Cluster, folder: Path) -> Outcome:
    """Run an agent's task twice, with an empty home in ``folder``."""
    outcome = Outcome(agent.client)
    began = time.monotonic()
    usual, slowly, *history = agent.scripts
    if history:
        outcome.features["history"] = _goes_on(agent, made, folder, *history)
    outcome.features["tools"] = _task(agent, made, folder, usual, kill=False)
    outcome.features["killed"] = _task(agent, made, folder, slowly, kill=True)
    outcome.features["text"] = outcome.features["stream"] = outcome.features["tools"]
    outcome.seconds = time.monotonic() - began
    return outcome


def _goes_on(agent: Agent, made: Cluster, folder: Path, script: str, on: str) -> str:
    """Let an agent go on after an image, the result of nothing and a call that breaks off. Return what is wrong."""
    work = folder / script
    work.mkdir()
    (work / "picture.png").write_bytes(base64.b64decode(_RED))
    program, variables = _laid_out(agent, made, folder, work)
    for command, name, output in ((agent.command, script, "before"), (agent.again, on, "output")):
        prompt = f"Follow the script {name} in {work}."
        with (work / output).open("wb") as told:
            asked = [program, *(word.replace("{prompt}", prompt) for word in command[1:])]
            environ = {**environment(folder), **variables}
            try:
                subprocess.run(
                    asked,
                    stdin=subprocess.DEVNULL,
                    stdout=told,
                    stderr=told,
                    cwd=work,
                    env=environ,
                    timeout=SECONDS_MAX,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return f"had not ended after {SECONDS_MAX:.0f} s: {(work / output).read_text(errors='replace')[-1500:]}"
    said = (work / "output").read_text(errors="replace")
    before = (work / "before").read_text(errors="replace")
    return "" if _WENT_ON in said else f"did not go on: {said[-1500:]}\nbefore that: {before[-1500:]}"


def _task(agent: Agent, made: Cluster, folder: Path, script: str, kill: bool) -> str:
    """Run the task once. Return what is wrong; empty where the agent finished it."""
    work = folder / script
    work.mkdir()
    (work / "notes.txt").write_text(NOTES)
    (work / "check.sh").write_text(CHECK)
    command, variables = _laid_out(agent, made, folder, work)
    prompt = f"Follow the script {script} in {work}."
    before = continued(made)
    with (work / "output").open("wb") as output, (work / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [command, *(word.replace("{prompt}", prompt) for word in agent.command[1:])],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=work,
            env={**environment(folder), **variables},
        )
        try:
            killed = not kill or _kill_while_it_streams(made, agent, work, process)
            process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return f"had not ended after {SECONDS_MAX:.0f} s: {_tail(work)}"
        finally:
            process.kill()
            process.wait(10)
    if not killed:
        return f"no rank was killed while it streamed: {_tail(work)}"
    if kill and continued(made) == before:
        return f"no answer was continued: {_tail(work)}"
    if process.returncode or agent.shows not in (work / "output").read_text(errors="replace"):
        return f"exited with {process.returncode}: {_tail(work)}"
    if (work / "notes.txt").read_text() != EDITED:
        return f"did not edit the file: {_tail(work)}"
    return ""


def _kill_while_it_streams(made: Cluster, agent: Agent, work: Path, process: subprocess.Popen[bytes]) -> bool:
    """Kill a rank some tokens after the slow step has begun: for those who call tools, after the edit."""
    ends = time.monotonic() + SECONDS_MAX
    while agent.slow and (work / "notes.txt").read_text() != EDITED:
        if process.poll() is not None or time.monotonic() > ends:
            return False
        time.sleep(0.05)
    said = generated(made)
    while generated(made) < said + 5:
        if process.poll() is not None or time.monotonic() > ends:
            return False
        time.sleep(0.05)
    kill_rank(made, 1)
    return True


def _laid_out(agent: Agent, made: Cluster, folder: Path, work: Path) -> tuple[str, Mapping[str, str]]:
    """Write the files of the document. Return the program, and the variables that the document sets."""
    where = installed(agent.client.kind, agent.client.packages)
    variables: dict[str, str] = {}
    home = Path(environment(folder)["HOME"])
    for block in blocks(agent.client.name):
        if block.file:
            target = home / block.file[2:] if block.file.startswith("~/") else work / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.at(base(made)))
        else:
            variables |= block.exports(base(made))
    program = shutil.which(agent.command[0], path=f"{where}/bin:{where}/node_modules/.bin")
    assert program is not None, f"{where} has no {agent.command[0]}"
    return program, variables


def _tail(work: Path) -> str:
    texts = [(work / name).read_text(errors="replace")[-1500:] for name in ("output", "errors")]
    return "\n".join(texts)
