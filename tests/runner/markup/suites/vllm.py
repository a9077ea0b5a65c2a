"""What vLLM's parsers make of the texts of vLLM's own tests: those that pass, run once without torch (``vllm_stand_ins``)."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.channels import Channels
from reconciler.runner.markup.families import THINKING
from tests.runner.markup import collection
from tests.runner.markup.reading import BY_NAME

from .cases import Case, complete, value

VERSION = "0.33.0"
SHA256 = "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112"
SUITES = ("tool_parsers", "reasoning")
"""Folders of its tests; they use one more, ``parser``, most of which replays streams that break off."""
NEEDS = (
    "cachetools==8.0.2",
    "ijson==3.6.0",
    "mistral-common==1.13.1",
    "msgspec==0.22.0",
    "partial-json-parser==0.2.1.1.post7",
    "pybase64==1.5.1",
    "pydantic-extra-types==2.11.1",
    "pycountry==26.2.16",
)
"""What vLLM's parsers need and this environment has not."""
THINK = ("<think>", "</think>")
FAMILIES: Sequence[tuple[str, str]] = (
    ("granite4", "hermes"), ("hermes", "hermes"), ("llama_tool", "llama-3"), ("llama3", "llama-3"), ("mistral", "mistral"),
    ("qwen3", "qwen3-coder"), ("glm", "glm"), ("poolside", "glm"), ("ling3", "glm"), ("kimi_k2", "kimi-k2"),
    ("kimi_k3", "kimi-k3"), ("deepseekv31", "deepseek-v3"), ("deepseekv32", "deepseek-v3.2"), ("deepseek_v32", "deepseek-v3.2"),
    ("deepseekv4", "deepseek-v3.2"), ("deepseek_v4", "deepseek-v3.2"), ("deepseekv3", "deepseek-v3"),
    ("minimax_m2", "minimax-m2"), ("minimax_m3", "minimax-m3"), ("gemma4", "gemma-4"), ("functiongemma", "function-gemma"),
    ("lfm2", "lfm2"), ("longcat", "longcat"), ("hy_v3", "hunyuan-3"), ("apertus", "apertus"), ("gigachat", "gigachat"),
    ("granite", "granite-3"), ("minicpm5", "minicpm"), ("step3p5", "qwen3-coder"), ("seed_oss", "seed"),
    ("nemotron_v3", "qwen3-coder"), ("mimo", "qwen3-coder"), ("cohere", "command"), ("muse", "muse"), ("gptoss", "harmony"),
    ("harmony", "harmony"), ("deepseek_r1", ""), ("deepseekr1", ""), ("deepseek_v3", ""), ("olmo3", ""), ("ernie", "hermes"), ("holo2", ""),
    ("basic_parsers", ""), ("minicpmv", ""),
)  # fmt: skip
"""The family of a parser whose name has this in it; empty: one without calls. Parsers of other models are left out."""


def cases() -> list[Case]:
    """Return all texts whose parser is that of a family here."""
    found: dict[str, Case] = {}
    for row in _records():
        case = _case(row)
        if case is not None:
            same = [name for name in found if name.partition(" #")[0] == case.name]
            if not any(
                dataclasses.replace(found[name], name="") == dataclasses.replace(case, name="")
                for name in same
            ):
                name = f"{case.name} #{len(same) + 1}" if same else case.name
                found[name] = dataclasses.replace(case, name=name)
    return list(found.values())


def _case(row: Mapping[str, Any]) -> Case | None:
    family = _family(row)
    if family is None or not row["text"]:
        return None
    pairs = tuple(pair for pair in THINKING if any(marker.strip() in row["text"] for marker in pair)) or (
        THINK,
    )
    if not isinstance(family, Channels):
        family = dataclasses.replace(family, thinking=pairs)
    calls = [(name, value(arguments)) for name, arguments in row.get("calls", [])]
    if not complete(calls):
        return None  # a stream that breaks off
    tools = [_wrapped(tool) for tool in row["tools"] if isinstance(tool, dict)]
    names = {name for name, _ in calls} | set(re.findall(r'"name":\s*"([^"]+)"', row["text"]))
    if row["kind"] != "reasoning" and not tools:
        tools = [_wrapped({"name": name, "parameters": {}}) for name in sorted(names) or ["no_tool"]]
    alone = row["kind"] == "reasoning" or row["test"].startswith(
        "tests/reasoning/"
    )  # it leaves calls to another parser
    return Case(
        row["test"].rpartition("/")[2] + " " + row["kind"],
        family,
        row["text"],
        [] if alone else tools,
        ("", pairs[0][0] + "\n"),
        calls,
        row["content"] or "",
        None if row["kind"] in ("calls", "stream") and not row.get("reasoning") else row["reasoning"] or "",
        asked_calls=not alone,
    )


def _wrapped(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function") or {key: tool.get(key) for key in ("name", "description", "parameters")}
    return {"type": "function", "function": function}


def _family(row: Mapping[str, Any]) -> Family | None:
    for source in (f"{row['parser']} {row['engine']}", row["test"]):
        plain = source.lower().replace("_", "").replace("-", "")
        for part, name in FAMILIES:
            if name == "hunyuan-3" and ":opensource" not in row["text"]:
                name = "hunyuan"
            if part.replace("_", "") in plain:
                return BY_NAME[name].family if name else Family("plain")
    return None


def _records() -> Iterator[dict[str, Any]]:
    kept = collection.CACHE / f"vllm-{VERSION}.jsonl"
    if not kept.exists():
        collection.CACHE.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=collection.CACHE) as name:
            _record(Path(name), Path(name) / "records")
            (Path(name) / "records").rename(kept)
    return (json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines())


def _record(folder: Path, record: Path) -> None:
    """Fetch vLLM and run its tests. Its source package says what it needs only where torch is: pip unpacks it and then fails."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    (folder / "wanted.txt").write_text(f"vllm=={VERSION} --hash=sha256:{SHA256}\n")
    pip = [uv, "tool", "run", "--quiet", "pip", "download", "--quiet", "--no-deps", "--no-binary", "vllm"]
    pip += ["--no-build-isolation", "--no-clean", "--requirement", "wanted.txt", "--dest", "."]
    environment = {**os.environ, "TMPDIR": str(folder)}
    subprocess.run(pip, cwd=folder, env=environment, timeout=600, check=False, capture_output=True)
    (source,) = folder.glob("pip-download-*/vllm_*")
    install = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--no-deps", "--target", "needs"]
    subprocess.run([*install, *NEEDS], cwd=folder, check=True, timeout=300)
    for suite in (*SUITES, "parser"):
        shutil.copytree(source / "tests" / suite, folder / "run" / "tests" / suite)
    (folder / "run" / "tests" / "__init__.py").touch()
    here = Path(__file__).parent
    path = [str(each) for each in (here, folder / "needs", folder / "run", source, here.parents[3])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "VLLM": str(source),
        "RECORD": str(record),
    }
    environment |= {"VOCABULARY": str(collection.deepseek()), "HF_HUB_OFFLINE": "1", "PYTEST_ADDOPTS": ""}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        ".",
        "-p",
        "no:cacheprovider",
    ]
    command += [
        "-p",
        "vllm_stand_ins",
        "-p",
        "vllm_recorder",
        "--continue-on-collection-errors",
        "--timeout=120",
    ]
    command += [f"tests/{suite}" for suite in SUITES]
    subprocess.run(
        command, cwd=folder / "run", env=environment, check=False, timeout=3000, capture_output=True
    )
