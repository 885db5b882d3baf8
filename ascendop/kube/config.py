# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which cluster, and as whom: from a kubeconfig, or from inside a pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ascendop.clock import WallClock, wall
from ascendop.errors import UsageError
from ascendop.kube.credentials import Credential, token_file
from ascendop.kube.tls import Tls

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the API server is and how to get in: all that a transport needs to know."""

    server: str
    """Scheme, host, port and possibly a prefix, without a slash at the end."""
    credential: Credential = field(default_factory=Credential)
    tls: Tls = field(default_factory=Tls)
    proxy: str | None = field(default=None, repr=False)
    """May hold a password."""
    namespace: str = "default"
    """Of the context, or of the pod we run in."""
    origin: str = ""
    """Where this was found, for messages, e.g. context kind-dev of ~/.kube/config."""


async def load(
    *,
    environ: Mapping[str, str],
    kubeconfig: str | None = None,
    context: str | None = None,
    wall_clock: WallClock = wall,
    persist: bool = False,
    strict_tls: bool = True,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The cluster that was named, or else the nearest one.

    Order:       the file or context asked for, $KUBECONFIG, the pod we run in, ~/.kube/config.
    persist:     write a rotated OIDC refresh token back into the kubeconfig.
    strict_tls:  off for a cluster whose CA is older than RFC 5280.
    Raises:      UsageError, with one sentence that says what to do.
    """
    asked_for = kubeconfig or environ.get("KUBECONFIG", "")
    if not asked_for and context is None and "KUBERNETES_SERVICE_HOST" in environ:
        found = in_cluster(environ, service_account=service_account)
    else:
        # Here and only here: the loaders come with 63 MiB that a pod never needs.
        from ascendop.kube.kubeconfig import load_kubeconfig  # noqa: PLC0415

        found = await load_kubeconfig(
            asked_for or _nearest(environ),
            context=context,
            environ=environ,
            wall_clock=wall_clock,
            persist=persist,
        )
    return replace(found, tls=replace(found.tls, strict=strict_tls))


def _nearest(environ: Mapping[str, str]) -> str:
    default = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if not default.exists():
        raise UsageError(
            f"no cluster: there is no {default}, KUBECONFIG is not set, and this is no pod; "
            "name a file with --kubeconfig"
        )
    return str(default)


def in_cluster(
    environ: Mapping[str, str], *, service_account: Path = SERVICE_ACCOUNT
) -> Connection:
    """The cluster of the pod we run in, as its service account."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise UsageError("this is no pod: KUBERNETES_SERVICE_HOST is not set; use --kubeconfig")
    token = service_account / "token"
    if not token.exists():
        raise UsageError(
            f"the pod has no service account token ({token} is missing); "
            "set automountServiceAccountToken: true, or name a file with --kubeconfig"
        )
    namespace = service_account / "namespace"
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credential=Credential(token_file(str(token))),
        tls=Tls(ca_file=str(service_account / "ca.crt")),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        origin="the pod's service account",
    )
