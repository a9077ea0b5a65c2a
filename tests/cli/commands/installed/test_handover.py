"""What is missing after an upgrade, and in which log the reason is."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from reconciler.cli.commands.installed import handover, upgrade
from reconciler.cli.commands.installed.handover import missing_service
from reconciler.cli.core.app import Settings
from reconciler.services.lock import held
from tests.cli.conftest import Cli

ENDPOINT = "http://127.0.0.1:8400/v1"


@pytest.mark.parametrize(
    ("controller", "endpoint", "gateway", "missing"),
    [
        (None, ENDPOINT, "0.2.0", "controller"),
        ("0.1.0", ENDPOINT, "0.2.0", "controller"),
        ("0.2.0", ENDPOINT, "0.2.0", ""),
        ("0.2.0", ENDPOINT, "0.1.0", "gateway"),
        ("0.2.0", None, "0.2.0", "gateway"),
    ],
)
def test_the_service_is_named_that_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    controller: str | None,
    endpoint: str | None,
    gateway: str,
    missing: str,
) -> None:
    monkeypatch.setattr(handover, "SERVE_SECONDS", 0.0)
    found = None if controller is None else {"version": controller, "endpoint": endpoint}
    monkeypatch.setattr(handover, "status", lambda _: found)
    with held(tmp_path / "gateway.lock", f"python reconciler {gateway} gateway"):
        assert missing_service(Settings(tmp_path), "0.2.0", endpoint=True) == missing


def test_where_there_was_no_endpoint_no_gateway_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "status", lambda _: {"version": "0.2.0", "endpoint": None})
    assert missing_service(Settings(tmp_path), "0.2.0", endpoint=False) == ""


class Versions:
    """Those of an installed service, which are switched in no time."""

    root = Path("versions")
    previous = "0.1.0"

    def make(self, requirement: str, index_url: str | None) -> str:
        return "0.2.0"

    def switching(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def use(self, version: str, before: str | None) -> None:
        pass

    def drop_unused(self) -> None:
        pass


@pytest.mark.parametrize("service", ["controller", "gateway"])
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ("upgrade", "0.2.0", "--index-url", "https://packages.example.com/simple"),
            "of version 0.2.0 does not serve, and 0.1.0 was put back",
        ),
        (("rollback",), "of version 0.1.0 does not serve"),
    ],
)
def test_the_log_is_named_that_has_the_reason(
    cli: Cli,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    said: str,
    service: str,
) -> None:
    monkeypatch.setattr(upgrade, "_installed", lambda _: (Versions(), "0.1.0"))
    monkeypatch.setattr(upgrade, "_keep_store", lambda *_: None)
    monkeypatch.setattr(upgrade, "_go_back", lambda *_: None)
    monkeypatch.setattr(upgrade, "missing_service", lambda *_: service)
    told = cli(*command)
    assert told.code == 1
    assert f"the {service} {said}; see {home}/logs/{service}.log" in told.err
