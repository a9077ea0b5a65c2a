"""`key`: the secret goes to standard output once, and the repository has its hash."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.wire.keys import SECRET_PATTERN, hash_of, looks_mistyped
from tests.cli.conftest import Cli, Controller

from .test_manifests import git
from .test_writing import committed, head, subjects, template, watched

pytestmark = pytest.mark.processes

__all__ = ["committed", "template", "watched"]


def spec(home: Path, name: str = "webui") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(git(home, "show", f"main:apikey-{name}.yaml"))["spec"]
    return found


def test_a_key_is_made_and_only_its_secret_goes_to_standard_output(cli: Cli, home: Path) -> None:
    result = cli("key", "create", "webui")
    secret = result.out.strip()
    assert (result.code, result.out) == (0, secret + "\n")
    assert re.fullmatch(SECRET_PATTERN, secret)
    assert not looks_mistyped(secret)
    assert secret not in result.err
    assert "apikey.reconciler/webui: this is its secret, which is shown once:" in result.err
    assert spec(home) == {"hash": hash_of(secret)}
    assert subjects(home) == ["Create apikey/webui"]


def test_a_key_may_have_limits_models_and_an_end(cli: Cli, home: Path) -> None:
    options = "--models large,small --requests-per-minute 60 --tokens-per-day 200000 --parallel-requests 2"
    result = cli("key", "create", "webui", *options.split(), "--expires", "30d", "--metrics", "-o", "json")
    body = json.loads(result.out)
    assert body["name"] == "webui"
    assert body["revision"] == git(home, "rev-parse", "main").strip()
    found = spec(home)
    end = datetime.datetime.fromisoformat(found.pop("expires")) - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=29, hours=23) < end < datetime.timedelta(days=30, minutes=1)
    assert found == {
        "hash": hash_of(body["secret"]),
        "models": ["large", "small"],
        "limits": {"requestsPerMinute": 60, "tokensPerDay": 200_000, "parallelRequests": 2},
        "metrics": True,
    }


def test_a_key_is_made_once_and_a_name_alone_would_lose_its_secret(cli: Cli, home: Path) -> None:
    cli("key", "create", "webui")
    again = cli("key", "create", "webui")
    assert (again.code, again.out) == (1, "")
    assert (
        "apikey/webui is there already; give it another secret with: reconciler key rotate webui" in again.err
    )
    assert "would lose the secret" in cli("key", "create", "other", "-o", "name").err
    assert cli("key", "create", "other", "--dry-run").out == "apikey.reconciler/other created (dry run)\n"
    assert subjects(home) == ["Create apikey/webui"]
    assert "limits.requestsPerMinute" not in cli("key", "create", "a", "--requests-per-minute", "0").err


def test_a_rotated_key_has_both_secrets_for_a_while(cli: Cli, home: Path) -> None:
    first = cli("key", "create", "webui").out.strip()
    second = cli("key", "rotate", "webui", "--overlap", "2h").out.strip()
    third = json.loads(cli("key", "rotate", "webui", "--overlap", "0", "-o", "json").out)["secret"]
    assert len({first, second, third}) == 3
    found = spec(home)
    assert found["hash"] == hash_of(third)
    assert [each["hash"] for each in found["previous"]] == [hash_of(first), hash_of(second)]
    ends = [datetime.datetime.fromisoformat(each["until"]) for each in found["previous"]]
    now = datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(hours=1, minutes=59) < ends[0] - now < datetime.timedelta(hours=2)
    assert ends[1] <= now
    assert subjects(home)[:2] == ["Rotate apikey/webui", "Rotate apikey/webui"]
    for _ in range(9):
        cli("key", "rotate", "webui")
    assert len(spec(home)["previous"]) == 8
    assert cli("key", "rotate", "webui", "--dry-run").out == "apikey.reconciler/webui rotated (dry run)\n"


@pytest.mark.parametrize(
    "command", [("create", "webui"), ("rotate", "other"), ("revoke", "other"), ("delete", "apikey", "other")]
)
def test_a_change_of_keys_is_in_force_at_the_gateways_before_the_next_request(
    cli: Cli, watched: Controller, home: Path, command: tuple[str, ...]
) -> None:
    cli("key", "create", "other")
    answer, looks = watched.answers["status"](None), list[int]()

    def status(_: Any) -> dict[str, Any]:
        looks.append(1)
        far = {"node": "mac-2", "problem": "no route to host"}
        near = [{"node": None, "problem": None}] if len(looks) < 6 else []
        return {**answer, "revision": head(home), "keysBehind": [*near, far]}

    watched.answers["status"] = status
    result = cli(*(command if command[0] == "delete" else ("key", *command)))
    assert (result.code, len(looks) >= 6) == (0, True)
    assert result.err.endswith(
        "note: earlier keys are still in force at the gateway of mac-2; no route to host\n"
    )


def test_a_revoked_key_stays_as_an_object_and_gets_no_other_secret(cli: Cli, home: Path) -> None:
    secret = cli("key", "create", "webui").out.strip()
    revoked = cli("key", "revoke", "webui", "-m", "the laptop was stolen")
    assert (revoked.code, revoked.out) == (0, "apikey.reconciler/webui revoked\n")
    assert spec(home) == {"hash": hash_of(secret), "revoked": True}
    assert cli("key", "revoke", "webui").out == "apikey.reconciler/webui revoked\n"
    assert "is revoked" in cli("key", "rotate", "webui").err
    assert 'apikeys "other" not found' in cli("key", "revoke", "other").err
    assert subjects(home) == ["the laptop was stolen", "Create apikey/webui"]
    assert "reconciler get apikeys" in cli("key", "list").err
