"""ApiKey: a hash and never a secret, times with a zone, and what is written can be read again."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from reconciler.errors import InvalidManifests
from reconciler.resources.api_key import ApiKey
from reconciler.source.yaml.documents import load

SECRET = "sk-3vQk0p7wq1Zt"
HASH = f"sha256:{hashlib.sha256(SECRET.encode()).hexdigest()}"


def made(**spec: Any) -> ApiKey:
    body = {
        "apiVersion": "reconciler/v1alpha1",
        "kind": "ApiKey",
        "metadata": {"name": "webui"},
        "spec": spec,
    }
    (document,) = load({"key.yaml": json.dumps(body).encode()}, part=True)
    assert isinstance(document.manifest, ApiKey)
    return document.manifest


def refusal(**spec: Any) -> str:
    with pytest.raises(InvalidManifests) as refused:
        made(**spec)
    return str(refused.value)


def test_a_key_needs_nothing_but_a_hash() -> None:
    spec = made(hash=HASH).spec
    assert (spec.hash, spec.models, spec.expires) == (HASH, (), None)
    assert set(spec.limits.model_dump().values()) == {None}


@pytest.mark.parametrize("wrong", [SECRET, SECRET * 8, f"sha256:{SECRET}", HASH.upper(), HASH + "0", 7])
def test_what_is_no_hash_is_refused_and_not_repeated(wrong: Any) -> None:
    message = refusal(hash=wrong)
    assert "spec.hash: not a hash" in message
    assert SECRET not in message


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2027-01-31T00:00:00Z", "2027-01-31T00:00:00Z"),
        ("2027-01-31T02:00:00+02:00", "2027-01-31T00:00:00Z"),
    ],
)
def test_a_time_is_kept_in_utc_and_written_as_it_is_read(written: str, read: str) -> None:
    key = made(hash=HASH, expires=written)
    assert key.spec.expires is not None
    assert json.loads(key.model_dump_json(by_alias=True))["spec"]["expires"] == read
    assert ApiKey.model_validate_json(key.model_dump_json(by_alias=True)) == key


@pytest.mark.parametrize("wrong", ["2027-01-31T00:00:00", "tomorrow", 7, "2027-02-31T00:00:00Z"])
def test_a_time_without_a_zone_or_none_at_all_is_refused(wrong: Any) -> None:
    assert "expected a time with its zone" in refusal(hash=HASH, expires=wrong)


@pytest.mark.parametrize(
    "limit", ["requestsPerMinute", "tokensPerMinute", "tokensPerDay", "parallelRequests"]
)
def test_a_limit_of_nothing_is_refused(limit: str) -> None:
    assert f"spec.limits.{limit}" in refusal(hash=HASH, limits={limit: 0})
    assert made(hash=HASH, limits={limit: 1}).spec.limits.model_dump(by_alias=True)[limit] == 1
