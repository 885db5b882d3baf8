# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Keys, certificates and kubeconfigs of a cluster, made in a moment: elliptic curves."""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hack.node.layout import API, Layout

SERVER = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
MASTERS = "system:masters"
LIFETIME = timedelta(days=30)


class Authority:
    """A CA in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "ca.key").exists():
            key = new_key(folder / "ca.key")
            name = _name("ascendop test CA", "")
            (folder / "ca.crt").write_bytes(_signed(name, name, key, key, authority=True))
        self._key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        self._name = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()).subject

    def issue(
        self,
        file: str,
        name: str,
        usage: x509.ObjectIdentifier,
        *,
        group: str = "",
        names: Iterable[str] = (),
    ) -> None:
        """Write FILE.key and FILE.crt."""
        key = new_key(self.folder / f"{file}.key")
        certificate = _signed(
            _name(name, group), self._name, key, self._key, usage=usage, names=tuple(names)
        )
        (self.folder / f"{file}.crt").write_bytes(certificate)

    def kubeconfig(self, file: str, server: str, to: Path) -> None:
        """For the holder of FILE.key."""

        def data(name: str) -> str:
            return base64.b64encode((self.folder / name).read_bytes()).decode()

        cluster = {"server": server, "certificate-authority-data": data("ca.crt")}
        user = {
            "client-certificate-data": data(f"{file}.crt"),
            "client-key-data": data(f"{file}.key"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "node", "cluster": cluster}],
            "users": [{"name": file, "user": user}],
            "contexts": [{"name": "node", "context": {"cluster": "node", "user": file}}],
            "current-context": "node",
        }
        to.touch(mode=0o600)
        to.write_text(json.dumps(config))


def make(node: Layout) -> Path:
    """Everything that the parts of this node need; the folder with it."""
    folder = node.run / "pki"
    folder.mkdir(parents=True, exist_ok=True)
    if node.control is not None:
        for file in ("ca.key", "ca.crt"):
            (folder / file).write_bytes((node.control.run / "pki" / file).read_bytes())
    authority = Authority(folder)
    who, group = f"system:node:{node.name}", "system:nodes"
    authority.issue("kubelet-serving", who, SERVER, group=group, names=(node.name, node.ip))
    authority.issue("kubelet", who, CLIENT, group=group)
    authority.kubeconfig("kubelet", node.api, node.run / "kubelet.kubeconfig")
    authority.issue("proxy", "system:kube-proxy", CLIENT)
    authority.kubeconfig("proxy", node.api, node.run / "proxy.kubeconfig")
    if node.control is None:
        _control_plane(authority, node)
    return folder


def _control_plane(authority: Authority, node: Layout) -> None:
    service = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    names = (*service, "kubernetes.default.svc.cluster.local", "localhost")
    authority.issue(
        "apiserver", "kube-apiserver", SERVER, names=(*names, "127.0.0.1", node.ip, API)
    )
    authority.issue("apiserver-kubelet", "apiserver-kubelet-client", CLIENT, group=MASTERS)
    clients = {
        "admin": ("admin", MASTERS),
        "kcm": ("system:kube-controller-manager", ""),
        "scheduler": ("system:kube-scheduler", ""),
        "coredns": ("coredns", MASTERS),
    }
    for file, (name, group) in clients.items():
        authority.issue(file, name, CLIENT, group=group)
        authority.kubeconfig(file, node.api, node.run / f"{file}.kubeconfig")
    key = new_key(authority.folder / "sa.key")
    (authority.folder / "sa.pub").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def new_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return key


def _name(name: str, group: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if group:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: object,
    *,
    authority: bool = False,
    usage: x509.ObjectIdentifier | None = None,
    names: tuple[str, ...] = (),
) -> bytes:
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(_key_usage(authority=authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if usage is not None:
        made = made.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if names:
        found = [_general_name(name) for name in names]
        made = made.add_extension(x509.SubjectAlternativeName(found), critical=False)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
