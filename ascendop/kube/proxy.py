# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Through which proxy a server is reached, decided once and not per request."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from ascendop.errors import UsageError


def proxy_for(server: str, *, named: str | None, environ: Mapping[str, str]) -> str | None:
    """The proxy's URL, or None for a direct way.

    named:   `proxy-url` of the kubeconfig; it wins over the environment and over NO_PROXY.
    Raises:  UsageError for a scheme that we do not speak.
    """
    if named:
        return _checked(named, "proxy-url")
    variable = f"{urlsplit(server).scheme}_proxy"
    found = environ.get(variable.upper()) or environ.get(variable)
    skipped = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not found or is_direct(server, skipped):
        return None
    return _checked(found if "://" in found else f"http://{found}", variable.upper())


def is_direct(server: str, no_proxy: str) -> bool:
    """Whether NO_PROXY covers the server; this machine itself is never behind a proxy.

    Shape:  comma-separated: *, name (with its subdomains), .name (subdomains only), address,
            network; each but the networks and * with an optional port.
    """
    url = urlsplit(server)
    host = (url.hostname or "").rstrip(".")
    if host == "localhost" or _is_loopback(host):
        return True
    port = url.port or (443 if url.scheme == "https" else 80)
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_covers(entry, host, port) for entry in entries if entry)


def _covers(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return _in_network(host, entry)
    name, only_port = _split_port(entry)
    if only_port is not None and only_port != port:
        return False
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, int(rest[1:]) if rest[1:].isdecimal() else None
    name, colon, port = entry.rpartition(":")
    if colon and port.isdecimal() and ":" not in name:
        return name, int(port)
    return entry, None


def _in_network(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(proxy: str, source: str) -> str:
    scheme = urlsplit(proxy).scheme
    if scheme not in {"http", "https"}:
        raise UsageError(f"{source} has the scheme {scheme!r}; only http and https are spoken")
    return proxy
