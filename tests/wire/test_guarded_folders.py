"""Which folders macOS guards, and which volumes are not there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from reconciler.wire.guarded_folders import absent_volume, barred


def refusal(path: str | None, number: int = errno.EPERM) -> OSError:
    return OSError(number, "Operation not permitted", path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/Volumes/weights/tiny/config.json", True),
        (str(Path.home() / "Desktop" / "tiny"), True),
        (str(Path.home() / "Documents" / "tiny"), True),
        (str(Path.home() / ".reconciler" / "models"), False),
        (str(Path.home() / "Desktop tiny"), False),
        ("/opt/models", False),
        (None, False),
    ],
)
def test_consent_is_lacking_only_where_macos_guards_a_folder(path: str | None, expected: bool) -> None:
    assert barred(refusal(path)) is expected
    assert not barred(refusal(path, errno.EACCES)), "a person can mend that with chmod"
    assert not barred(ValueError("cut short"))


def test_a_link_into_a_guarded_folder_is_guarded(tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to("/Volumes/weights")
    assert barred(refusal(str(tmp_path / "models" / "tiny")))
    assert absent_volume(tmp_path / "models" / "tiny") == "/Volumes/weights"


@pytest.mark.parametrize("path", ["/opt/models", "/", "/Volumes", "/VolumesOf/x"])
def test_elsewhere_no_volume_is_absent(path: str) -> None:
    assert absent_volume(Path(path)) == ""
