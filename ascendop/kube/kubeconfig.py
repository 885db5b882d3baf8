# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A kubeconfig's context → Connection, through the loaders of kubernetes_asyncio.

Importing this costs 63 MiB and half a second; only `config.load` does, and only outside of pods.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger

from ascendop.clock import WallClock
from ascendop.errors import UsageError
from ascendop.kube.config import Connection
from ascendop.kube.credentials import Credential, Fetch, Grant, token_file
from ascendop.kube.execplugin import exec_plugin, parse_exec
from ascendop.kube.idtoken import provider_token
from ascendop.kube.proxy import proxy_for
from ascendop.kube.tls import Tls

_BROKEN = (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError)
"""What the loaders raise for a file that is not as they think."""
_OWN = frozenset({"exec", "token", "tokenFile"})
"""Of a user: what the loader would read, or run without a time limit, once and for ever."""
_NOBODY = "nobody"


@dataclass(slots=True)
class Loaded:
    """Where the loader puts what it found; the names are its own."""

    host: str = ""
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    api_key: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class _Named:
    """An entry of clusters or users, and the folder that its paths start from."""

    name: str
    value: dict[str, Any]
    file: str

    @property
    def base(self) -> str:
        return str(Path(self.file).resolve().parent)


@dataclass(frozen=True, slots=True)
class _Chosen:
    origin: str
    namespace: str
    cluster: _Named
    user: _Named


async def load_kubeconfig(
    paths: str,
    *,
    context: str | None,
    environ: Mapping[str, str],
    wall_clock: WallClock,
    persist: bool,
) -> Connection:
    """One context of one file, or of several as $KUBECONFIG lists them.

    Raises:  UsageError, with one sentence.
    """
    merged, save = _merge(paths)
    chosen = _choose(merged, context, paths)
    try:
        fetch = _own_fetch(chosen, environ, wall_clock)
        loader = _loader(chosen, own=fetch is not None, save=save if persist else None)
        loaded = Loaded()
        await _load(loader, loaded)
        server = _checked(loaded.host)
        return Connection(
            server=server,
            credential=_credential(chosen, fetch, loader, loaded, wall_clock),
            tls=Tls(
                ca_file=loaded.ssl_ca_cert,
                cert_file=loaded.cert_file,
                key_file=loaded.key_file,
                server_name=loaded.tls_server_name,
                insecure=not loaded.verify_ssl,
            ),
            proxy=proxy_for(server, named=loaded.proxy, environ=environ),
            namespace=chosen.namespace,
            origin=chosen.origin,
        )
    except UsageError as error:
        raise UsageError(f"{chosen.origin}: {error}") from None
    except _BROKEN as error:
        raise UsageError(f"{chosen.origin} cannot be used: {error}; correct the file") from error


async def _load(loader: KubeConfigLoader, loaded: Loaded) -> None:
    try:
        await loader.load_and_set(loaded)
    except _BROKEN:
        raise
    except Exception as error:  # noqa: BLE001  an identity provider that answers no, or nothing
        raise UsageError(f"no credentials: {type(error).__name__}") from None


def _merge(paths: str) -> tuple[ConfigNode, Callable[[], None]]:
    files = [os.path.expanduser(path) for path in paths.split(os.pathsep) if path]  # noqa: PTH111
    there = [path for path in files if Path(path).exists()]
    if not there:
        raise UsageError(f"the kubeconfig {paths} does not exist; name another with --kubeconfig")
    for path in there:
        _check_yaml(path)
    try:
        merger = KubeConfigMerger(os.pathsep.join(there))
    except _BROKEN as error:
        raise UsageError(f"the kubeconfig {paths} is not one: {error}; correct it") from error
    merged: ConfigNode | None = merger.config
    if merged is None:
        raise UsageError(f"the kubeconfig {paths} is empty; name another with --kubeconfig")
    return merged, merger.save_changes


def _check_yaml(path: str) -> None:
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(
            f"the kubeconfig {path} is not YAML: line {line}: {error.problem}; correct it"
        ) from None
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise UsageError(
            f"the kubeconfig {path} cannot be read: {why}; name one that can"
        ) from error
    if not isinstance(content, dict) or not content.get("clusters"):
        raise UsageError(f"{path} names no cluster, so it is no kubeconfig; name another file")


def _choose(merged: ConfigNode, context: str | None, paths: str) -> _Chosen:
    known = dict(_entries(merged, "contexts", "context"))
    name = context or merged.value.get("current-context") or ""
    if name not in known:
        there = ", ".join(sorted(known)) or "none at all"
        if not name:
            raise UsageError(f"{paths} has no current-context; choose with --context: {there}")
        raise UsageError(
            f"there is no context {name!r} in {paths}; choose with --context; there are: {there}"
        )
    found = known[name].value
    origin = f"context {name} of {known[name].file}"
    clusters = dict(_entries(merged, "clusters", "cluster"))
    users = dict(_entries(merged, "users", "user"))
    cluster, user = found.get("cluster") or "", found.get("user") or ""
    if not (clusters.get(cluster) and clusters[cluster].value.get("server")):
        raise UsageError(
            f"{origin}: there is no cluster {cluster!r} with a server; "
            "add one, or choose another context"
        )
    if user and user not in users:
        raise UsageError(f"{origin}: there is no user {user!r}; add one, or choose another context")
    nobody = _Named(_NOBODY, {}, known[name].file)
    return _Chosen(
        origin=origin,
        namespace=found.get("namespace") or "default",
        cluster=clusters[cluster],
        user=users.get(user, nobody),
    )


def _checked(server: str) -> str:
    url = urlsplit(server)  # ValueError for brackets that are no address
    if url.scheme not in {"http", "https"} or not url.hostname or url.port == 0:
        raise UsageError(f"the server {server!r} is no URL; write for example https://host:6443")
    return server


def _entries(merged: ConfigNode, section: str, key: str) -> list[tuple[str, _Named]]:
    nodes = merged.value.get(section) or ()
    if not all(isinstance(node.value, dict) and node.value.get("name") for node in nodes):
        raise UsageError(
            f"the kubeconfig {merged.path} has an entry without a name in {section}; name it"
        )
    return [
        (node.value["name"], _Named(node.value["name"], node.value.get(key) or {}, node.path))
        for node in nodes
    ]


def _loader(chosen: _Chosen, *, own: bool, save: Callable[[], None] | None) -> KubeConfigLoader:
    """A loader that sees the chosen entries only, and no credential that we look after."""
    user = chosen.user.value
    if own:
        user = {key: value for key, value in user.items() if key not in _OWN}
    entries = {
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [_node(chosen.cluster, {"name": "it", "cluster": chosen.cluster.value})],
        "users": [_node(chosen.user, {"name": "it", "user": user})],
        "current-context": "it",
    }
    return KubeConfigLoader(
        ConfigNode(chosen.origin, entries),
        config_base_path=None,
        config_persister=None if save is None else lambda _config: save(),
    )


def _node(named: _Named, value: dict[str, Any]) -> ConfigNode:
    return ConfigNode(named.name, value, named.file)


def _own_fetch(chosen: _Chosen, environ: Mapping[str, str], wall_clock: WallClock) -> Fetch | None:
    """Credentials that change under our eyes, and so are ours to look after."""
    user = chosen.user
    if "auth-provider" in user.value:
        return None
    if "exec" in user.value:
        told = _told(chosen.cluster.value)
        plugin = parse_exec(user.value["exec"], base=user.base, cluster=told)
        return exec_plugin(plugin, environ=environ, wall_clock=wall_clock)
    if user.value.get("tokenFile"):
        return token_file(str(Path(user.base, user.value["tokenFile"])))
    return None


def _told(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """A cluster as an exec plugin is told of it."""
    same = (
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority-data",
        "proxy-url",
    )
    told = {key: cluster[key] for key in same if key in cluster}
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.get("extension")
    return told


def _credential(
    chosen: _Chosen,
    fetch: Fetch | None,
    loader: KubeConfigLoader,
    loaded: Loaded,
    wall_clock: WallClock,
) -> Credential:
    if fetch is not None:
        return Credential(fetch)
    authorization = loaded.api_key.get("BearerToken", "").strip()
    provider = chosen.user.value.get("auth-provider")
    if provider is None:
        return Credential(grant=Grant(authorization))
    return provider_token(loader, loaded, provider, wall_clock)
