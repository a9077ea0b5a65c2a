"""What ranks show to each other: derived from the group's secret, the same for all of them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning.context.membership import certificate, secret
from reconciler.runner.group.sealed import accepting, connecting


@settings(max_examples=25, deadline=None)
@given(st.text(), st.text())
def test_the_same_secret_gives_the_same_certificate_and_another_one_another(one: str, other: str) -> None:
    assert certificate(one) == certificate(one)
    assert (certificate(one) == certificate(other)) == (one == other)


def test_every_epoch_has_a_secret_of_its_own() -> None:
    secrets = {
        secret(entropy, replica, epoch)
        for entropy in ("a", "b")
        for replica in ("tiny/0", "tiny/1")
        for epoch in (1, 2)
    }
    assert len(secrets) == 8


def test_it_is_good_whatever_the_clock_of_a_machine_says() -> None:
    found = x509.load_pem_x509_certificate(certificate("s").encode())
    assert found.not_valid_before_utc == datetime(1970, 1, 1, tzinfo=UTC)
    assert found.not_valid_after_utc.year == 9999


def test_a_rank_can_use_it_and_nothing_else_is_trusted() -> None:
    for context in (accepting(certificate("s")), connecting(certificate("s"))):
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
        assert len(context.get_ca_certs()) <= 1
