"""The gateway as one file, for machines that have its libraries but not this product: a zip archive that Python
runs."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile

from .agent_file import Bundle
from .pinned_versions import sources

_ROOMS = ("bootstrap", "gateway", "remote", "services", "serving", "wire")
_MODULES = ("descriptors", "errors", "secret_files")
_TIME = (1980, 1, 1, 0, 0, 0)
_START = b"import sys\nfrom reconciler.bootstrap.node_gateway import main\nsys.exit(main(sys.argv))\n"


@functools.cache
def gateway_file() -> Bundle:
    """Return the file, with a digest of the sources in its name: the same sources make the same file."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _TIME), _START)
        for name, source in sources(_ROOMS, _MODULES).items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), source, zipfile.ZIP_DEFLATED)
    digest = hashlib.sha256(content.getvalue()).hexdigest()[:12]
    return Bundle(f"gateway-{digest}.pyz", content.getvalue())
