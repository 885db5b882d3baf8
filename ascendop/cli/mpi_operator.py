# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`ascendop mpi-operator`: MPIJobs alone, by the flags and under the Lease of that operator.

For a manifest that is taken over: with the same lock namespace old and new exclude each other.
Source: mpijob.md 7.
"""

from __future__ import annotations

import os
import sys
from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Mapping
from typing import Any, Final

from ascendop import __version__
from ascendop.app.causes import primary
from ascendop.app.preflight import UnusableClusterError
from ascendop.cli.run import operate
from ascendop.errors import UsageError
from ascendop.settings import Settings, load_settings

NAME: Final = "mpi-operator"
NO_CRD: Final = 1
"""Exit code where the cluster has no MPIJobs, which the original's Deployment waits for."""
_VERBOSE: Final = 4  # klog's level from which on every request is a line
_FIXED: Final = {
    "kinds": ("MPIJob",),
    "enable_gang_scheduling": False,
    "workload_tables": False,
    "rank_table_dir": "",
    "lease_name": NAME,
    "lease_namespace": NAME,
    "lease_s": 15.0,
    "renew_s": 5.0,
    "retry_s": 3.0,
    "metrics_listen": "",
    "health_listen": ":8080",
}
"""What has no flag there, or another default than here."""
_IGNORED: Final = (
    "vmodule", "logtostderr", "alsologtostderr", "log_dir", "log_file", "log_file_max_size",
    "log_backtrace_at", "one_output", "skip_headers", "skip_log_headers", "add_dir_header",
    "stderrthreshold", "legacy_stderr_threshold_behavior",
)  # fmt: skip
"""Of its logging library. Lines go to standard error here."""
_SWITCHES: Final = frozenset({
    "logtostderr", "alsologtostderr", "one_output", "skip_headers", "skip_log_headers",
    "add_dir_header", "legacy_stderr_threshold_behavior",
})  # fmt: skip


def _text(text: str) -> str:
    return text


def _names(text: str) -> tuple[str, ...]:
    return (text,) if text else ()


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text} is no whole number") from None


def _port(text: str) -> str:
    return f":{_whole(text)}" if _whole(text) else ""


def _level(text: str) -> str:
    return "debug" if _whole(text) >= _VERBOSE else "info"


_FLAGS: Final[Mapping[str, tuple[str, Callable[[str], Any], str]]] = {
    "kubeConfig": ("kubeconfig", _text, "kubeconfig file; KUBECONFIG wins over it"),
    "namespace": ("namespaces", _names, "the one namespace to look after [KUBEFLOW_NAMESPACE]"),
    "threadiness": ("workers", _whole, "jobs that are reconciled at the same time"),
    "monitoring-port": ("metrics_listen", _port, "port of /metrics; 0 for none"),
    "gang-scheduling": ("mpi_gang_scheduler", _text, "volcano, or a scheduler's name"),
    "lock-namespace": ("lease_namespace", _text, "namespace of the Lease [mpi-operator]"),
    "kube-api-qps": ("writes_per_s", _whole, "writes per second; no limit when not given"),
    "kube-api-burst": ("writes_burst", _whole, "writes at once, under that limit"),
    "controller-queue-rate-limit": ("retries_per_s", _whole, "second tries per second"),
    "controller-queue-burst": ("retries_burst", _whole, "second tries at once"),
    "cluster-domain": ("cluster_domain", _text, "put behind host names"),
    "v": ("log_level", _level, f"{_VERBOSE} and more for debug"),
}


class _Collect(Action):
    """The last one of a name counts, as in Go."""

    def __call__(
        self,
        parser: ArgumentParser,  # noqa: ARG002  argparse's own
        namespace: Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        name = (option_string or "").lstrip("-")
        namespace.said = {**(getattr(namespace, "said", None) or {}), name: str(values)}


def add_parser(sub: _SubParsersAction[ArgumentParser]) -> None:
    """The verb and its flags, with one dash or two."""
    parser = sub.add_parser(NAME, help="run MPIJobs by the flags of mpi-operator")
    for name, (_, _, said) in _FLAGS.items():
        parser.add_argument(f"-{name}", f"--{name}", dest="said", action=_Collect, help=said)
    parser.add_argument("-master", "--master", dest="said", action=_Collect, help="leave it empty")
    for name in _IGNORED:
        switch = name in _SWITCHES
        parser.add_argument(
            f"-{name}",
            f"--{name}",
            dest="said",
            action=_Collect,
            help="accepted, and of no effect",
            nargs="?" if switch else None,
            const="true" if switch else None,
        )
    parser.add_argument("-version", "--version", action="store_true", help="print the version")
    parser.set_defaults(run=run)


def settings_of_peer(said: Mapping[str, str], env: Mapping[str, str]) -> Settings:
    """What the flags mean here. Raises UsageError, with every mistake in them."""
    found: dict[str, Any] = dict(_FIXED)
    mistakes = []
    if env.get("KUBEFLOW_NAMESPACE"):
        found["namespaces"] = (env["KUBEFLOW_NAMESPACE"],)
    for name, text in said.items():
        if name in _FLAGS:
            setting, convert, _ = _FLAGS[name]
            try:
                found[setting] = convert(text)
            except ValueError as error:
                mistakes.append(f"-{name}={text}: {error}")
    if said.get("master"):
        mistakes.append("-master: write the server's address into the kubeconfig")
    if mistakes:
        raise UsageError("; ".join(mistakes))
    if env.get("KUBECONFIG"):
        found.pop("kubeconfig", None)
    return load_settings(found, env)


def run(args: Namespace) -> int:
    """Until SIGTERM or SIGINT; 1 where there are no MPIJobs."""
    if args.version:
        lines = ("API Version: v2", f"Version: {__version__}")
        print("\n".join(lines))
        return 0
    settings = settings_of_peer(getattr(args, "said", None) or {}, os.environ)
    try:
        return operate(settings)
    except BaseExceptionGroup as group:
        return _without_crd(primary(group))
    except UnusableClusterError as error:
        return _without_crd(error)


def _without_crd(error: BaseException) -> int:
    if not isinstance(error, UnusableClusterError):
        raise error
    print(f"ascendop: {error}", file=sys.stderr)
    return NO_CRD
