"""The gateway as one file, for machines that have its libraries but not this product: a zip archive that Python
runs."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import reconciler

_ROOMS = ("bootstrap", "gateway", "remote", "services", "serving", "wire")
_TIME = (1980, 1, 1, 0, 0, 0)
_START = b"import sys\nfrom reconciler.bootstrap.front import main\nsys.exit(main(sys.argv))\n"


@dataclass(frozen=True, slots=True)
class GatewayFile:
    """The name and bytes of the file for machines."""

    name: str
    content: bytes


@functools.cache
def gateway_file() -> GatewayFile:
    """Return the file, with a digest of the sources in its name: the same sources make the same file."""
    package = Path(reconciler.__file__).parent
    paths = [
        package / "__init__.py",
        *(package / f"{name}.py" for name in ("descriptors", "errors", "secret_files")),
    ]
    paths += [path for room in _ROOMS for path in sorted((package / room).rglob("*.py"))]
    paths += sorted((package / "gateway" / "dialects").glob("*.txt"))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _TIME), _START)
        for path in paths:
            entry = zipfile.ZipInfo(path.relative_to(package.parent).as_posix(), _TIME)
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    digest = hashlib.sha256(content.getvalue()).hexdigest()[:12]
    return GatewayFile(f"gateway-{digest}.pyz", content.getvalue())
