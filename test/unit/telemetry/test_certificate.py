# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Our own ports as HTTPS."""

import os
import ssl
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ascendop.errors import UsageError
from ascendop.telemetry.certificate import Certificate
from ascendop.telemetry.health import Checks, HealthServer

pytestmark = pytest.mark.real_time


def issue(folder, name="localhost"):
    """A pair of files for a host that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(hours=1))  # noqa: TID251  OpenSSL's clock
        .not_valid_after(datetime.now(UTC) + timedelta(hours=1))  # noqa: TID251  likewise
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "tls.crt", folder / "tls.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


@pytest.fixture
def served(tmp_path):
    """The port of a server with a pair, and the pair."""
    files = issue(tmp_path)
    server = HealthServer(
        ("127.0.0.1", 0),
        {"/": Checks().answer},
        flag="--health-listen",
        certificate=Certificate(*files),
    )
    server.start()
    yield server.port, files
    server.stop()


def ask(port, certificate, **limits):
    context = ssl.create_default_context(cafile=certificate)
    for name, value in limits.items():
        setattr(context, name, value)
    url = f"https://localhost:{port}/"
    with urllib.request.urlopen(url, timeout=10, context=context) as answer:
        return answer.status, answer.read()


def test_who_trusts_the_certificate_is_answered(served):
    port, (certificate, _) = served
    assert ask(port, certificate) == (200, b"ok\n")


def test_a_renewed_certificate_is_used_without_a_restart(served, tmp_path):
    port, (certificate, key) = served
    before = certificate.read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    renewed, new_key = issue(other)
    renewed.replace(certificate)
    assert ask_old(port, before, tmp_path), "half a renewal leaves the old pair in use"
    new_key.replace(key)
    assert ask(port, certificate) == (200, b"ok\n")


def ask_old(port, pem, folder):
    old = folder / "old.crt"
    old.write_bytes(pem)
    return ask(port, old)[0] == 200


def test_old_versions_of_tls_are_refused(served):
    port, (certificate, _) = served
    context = ssl.create_default_context(cafile=certificate)
    assert context.minimum_version <= ssl.TLSVersion.TLSv1_2
    assert ask(port, certificate, maximum_version=ssl.TLSVersion.TLSv1_2)[0] == 200
    made = Certificate(*served[1]).context()
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_client_that_speaks_plain_http_disturbs_nobody(served):
    port, (certificate, _) = served
    with pytest.raises(OSError, match=r".+"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
    assert ask(port, certificate) == (200, b"ok\n")


@pytest.mark.parametrize("broken", ["nothing there", "no certificate", "another key"])
def test_a_pair_that_cannot_be_used_is_one_sentence(broken, tmp_path):
    certificate, key = issue(tmp_path)
    if broken == "nothing there":
        certificate.unlink()
    elif broken == "no certificate":
        certificate.write_text("hello")
    else:
        other = tmp_path / "other"
        other.mkdir()
        os.replace(issue(other)[1], key)  # noqa: PTH105  over the other one
    with pytest.raises(UsageError, match="cannot use certificate") as caught:
        Certificate(certificate, key)
    assert "\n" not in str(caught.value)
