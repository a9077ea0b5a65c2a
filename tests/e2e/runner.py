"""A runner of a forge, as far as a workflow notices one: the environment, its files, and a bash for each step.

``uses: actions/checkout`` is a real `git clone` here, for actions are programs of Node.js that a forge serves. Everything
else of a step is done as it stands. Source: docs.github.com/en/actions, "Workflow syntax" and "Store information in
variables"; Forgejo's runner sets the same names.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
STEP_SECONDS = 600.0
KEPT = ("HOME", "LANG", "PATH", "TMPDIR")


@dataclass
class StepDone:
    """One step that was run, or left out because an earlier one had failed."""

    name: str
    status: int | None
    output: str = ""


@dataclass
class Runner:
    """One job of a pull request."""

    folder: Path
    origin: Path
    event: Mapping[str, Any]
    api: str
    secrets: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    """What an administrator of the runner has set, such as where pip looks for packages."""
    done: list[StepDone] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("temp", "home"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "event.json").write_text(json.dumps(self.event))
        for name in ("path", "env", "summary", "output"):
            (self.folder / name).touch()

    @property
    def workspace(self) -> Path:
        return self.folder / "work"

    @property
    def summary(self) -> str:
        return (self.folder / "summary").read_text()

    @property
    def environment(self) -> dict[str, str]:
        added = (self.folder / "path").read_text().splitlines()
        return {
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            "HOME": str(self.folder / "home"),
            "PATH": os.pathsep.join([*reversed(added), self.extra.get("PATH", os.environ["PATH"])]),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.api,
            "GITHUB_ENV": str(self.folder / "env"),
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_PATH": str(self.folder / "path"),
            "GITHUB_REPOSITORY": str(self.event["repository"]["full_name"]),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_OS": "Linux",
            "RUNNER_TEMP": str(self.folder / "temp"),
            **{name: value for name, value in self.extra.items() if name != "PATH"},
        }

    def run(self, workflow: Path) -> bool:
        """Run every step of the only job; return whether the job has passed."""
        body = yaml.safe_load(workflow.read_text())
        (job,) = body["jobs"].values()
        common = {name: self._value(value) for name, value in job.get("env", {}).items()}
        failed = False
        for step in job["steps"]:
            name = step.get("name", step.get("uses", ""))
            if failed and not self._always(step):
                self.done.append(StepDone(name, None))
                continue
            own = {name: self._value(value) for name, value in step.get("env", {}).items()}
            command = self._checkout() if "uses" in step else self._script(step["run"])
            ran = subprocess.run(
                command,
                cwd=self.workspace if self.workspace.exists() else self.folder,
                env={**self.environment, **common, **own},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=min(STEP_SECONDS, 60.0 * step.get("timeout-minutes", 10)),
                check=False,
            )
            self.done.append(StepDone(name, ran.returncode, ran.stdout))
            failed = failed or ran.returncode != 0
        return not failed

    def _always(self, step: Mapping[str, Any]) -> bool:
        return EXPRESSION.sub(r"\1", step.get("if", "")) == "!cancelled()"

    def _script(self, text: str) -> list[str]:
        script = self.folder / "script.sh"
        script.write_text(self._value(text))
        return ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]

    def _checkout(self) -> list[str]:
        """Clone with all of its history, as ``fetch-depth: 0`` does, and go to the pull request's commit."""
        clone = f"git clone -q '{self.origin}' '{self.workspace}'"
        return ["bash", "-ec", f"{clone} && git -C '{self.workspace}' checkout -q {self._value('${{ github.event.pull_request.head.sha }}')}"]  # fmt: skip

    def _value(self, text: Any) -> str:
        return EXPRESSION.sub(lambda found: self._evaluated(found[1]), str(text))

    def _evaluated(self, name: str) -> str:
        """Look a name up, such as ``github.event.number``; what there is not is empty, as it is on a forge."""
        value: Any = {
            "github": {"event": self.event, "repository": self.event["repository"]["full_name"]},
            "secrets": self.secrets,
            "vars": self.variables,
        }
        for part in name.split("."):
            value = value.get(part, "") if isinstance(value, Mapping) else ""
        return str(value)
