# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A key pair for the ssh between the pods of one job."""

from __future__ import annotations

from collections.abc import Mapping

from ascendop.builder.mpi import PRIVATE_KEY, PUBLIC_KEY


def make_ssh_keys() -> Mapping[str, bytes]:
    """ECDSA on P-521: the private key as PEM, the public one as a line of authorized_keys.

    Takes some milliseconds, so it is nothing for the loop.
    Source:  mpijob.md 3.3.
    """
    # Four megabytes that only the leader of a cluster with such jobs needs.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return {PRIVATE_KEY: private, PUBLIC_KEY: public + b"\n"}
