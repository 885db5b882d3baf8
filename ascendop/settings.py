# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every setting: default, bounds, unit, sentence; from flags, environment and a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.config import JsonDict

from ascendop.errors import UsageError

ENV_PREFIX: Final = "ASCENDOP_"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LISTEN: Final = re.compile(r"(?P<host>[^:\[\]]*|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_LAST_PORT: Final = 65535


def _split(value: object) -> object:
    """Lists are written with commas in flags and variables, as lists in a file."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _check_label(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise ValueError("must be a DNS label such as ml-team")
    return value


def _check_listen(value: str) -> str:
    if value:
        parse_listen(value)
    return value


def _check_log_file(value: str) -> str:
    path = PurePath(value)
    # "./" is gone when the parts are looked at, so the text is looked at, too.
    if value and (not path.is_absolute() or ".." in path.parts or "./" in value):
        raise ValueError("must be an absolute path without . or .. in it")
    return value


Label = Annotated[str, AfterValidator(_check_label)]
LogFile = Annotated[str, AfterValidator(_check_log_file)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Labels = Annotated[tuple[Label, ...], BeforeValidator(_split)]
Listen = Annotated[str, AfterValidator(_check_listen)]
Live: Final[JsonDict] = {"live": True}
"""Marks what may change while the operator runs."""


class Settings(BaseModel):
    """How this operator runs. Frozen; a change is another Settings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    # ── what it looks after ──

    kinds: Names = ()
    """Job kinds to run, e.g. AscendJob,PyTorchJob; all when empty."""
    namespaces: Labels = ()
    """Namespaces to look after, so that Roles suffice; all when empty."""
    enable_gang_scheduling: bool = True
    """Whether pods of a job start together or not at all, by a PodGroup."""
    retry_grace_s: float = Field(default=30.0, ge=0, le=3600)
    """A pod failed, fault-retry-times is set, Volcano's NPU plug-in has no entry: Failed then."""
    mpi_gang_scheduler: str = ""
    """Scheduler that starts the pods of an MPIJob as a gang: volcano, or one with the coscheduling
    plug-in by its name; none when empty."""
    mpi_names_early: bool = False
    """Whether workers of an MPIJob can be reached by name before they are ready, and its launcher
    comes when they have addresses, so that it does not spend its retries on names."""
    mpi_start_timeout_s: float = Field(default=0.0, ge=0, le=31_536_000)
    """An MPIJob that has not run within so many seconds since its start has failed; 0 for none."""
    mpi_delete_expired: bool = False
    """Whether ttlSecondsAfterFinished deletes an MPIJob as a whole, and not its launcher alone."""
    mpi_delete_keys: bool = False
    """Whether the Secret with the keys of an MPIJob goes when the job has ended; needs the right to
    delete Secrets."""
    mpi_spread_host_network: bool = False
    """Whether pods of an MPIJob on the network of their nodes get one node each: on one and the
    same their sshd would want the same port."""
    mpi_poke_launcher: bool = False
    """Whether a launcher's pod is annotated when its hosts change, for kubelet to refresh the host
    file at once and not within a minute."""
    mpi_whole_requests: bool = False
    """Whether minResources of an MPIJob's gang count init containers, side-cars, overhead, too."""
    mpi_discover_slots: bool = False
    """Whether discover_hosts.sh of an MPIJob says host:slots, workers by their numbers, as elastic
    Horovod reads it; the host alone, workers by name, when not."""
    mpi_strict_parity: bool = False
    """Whether an MPIJob gets only what mpi-operator makes, without our additions."""
    cluster_domain: str = ""
    """Put behind the host names of an MPIJob, e.g. cluster.local; short names when empty."""
    stop_survivors: bool = False
    """Whether running pods of a failed job go if it names no cleanPodPolicy; else they run on."""
    rank_table_dir: str = "/user/mindx-dl/ranktable"
    """Shared directory below which rank tables are written as files; none when empty."""
    workload_tables: bool = True
    """Whether Deployments, StatefulSets and Volcano Jobs that want a rank table get one, too.
    Where they do not, files that jobs left behind while no replica led stay as well."""
    clusterd_namespace: Label = "mindx-dl"
    """Namespace of the ClusterD Service."""
    clusterd_service: Label = "clusterd-grpc-svc"
    """Name of the Service through which training processes reach ClusterD."""
    field_manager: str = Field(default="ascendop", min_length=1, max_length=128)
    """Owner of our fields in server-side apply."""

    # ── how fast ──

    workers: int = Field(default=16, ge=1, le=256, json_schema_extra=Live)
    """Jobs that are reconciled at the same time."""
    reconcile_timeout_s: float = Field(default=60.0, ge=1, le=600, json_schema_extra=Live)
    """A reconcile that takes longer is given up and tried again."""
    retry_limit_s: float = Field(default=300.0, ge=1, le=3600, json_schema_extra=Live)
    """Longest pause between two tries of a job that keeps failing."""
    retries_per_s: float = Field(default=50.0, gt=0, le=10000, json_schema_extra=Live)
    """Second tries over all jobs; first tries are not limited."""
    retries_burst: int = Field(default=500, ge=1, le=100000, json_schema_extra=Live)
    """Second tries that may be made at once."""
    writes_per_s: float = Field(default=0.0, ge=0, le=100000, json_schema_extra=Live)
    """Upper bound on writes to the API server; 0 leaves it to the server to say when it is busy."""
    writes_burst: int = Field(default=0, ge=0, le=100000, json_schema_extra=Live)
    """Writes that may leave at once under that bound; 0 for two seconds of it."""
    writes_at_once: int = Field(default=32, ge=1, le=32)
    """Writes in flight at the same time."""
    pods_by_lists: bool = False
    """Whether pods go by 1000 in one request: on openFuyao, with the verb collectionCreate."""
    resync_h: float = Field(default=10.0, ge=0.1, le=168)
    """Every job is looked at this often even if nothing happened."""
    audit: bool = False
    """Whether caches are compared with the server every half hour, so that missed events show."""

    # ── the API server ──

    kubeconfig: str = ""
    """Kubeconfig file; when empty that of the environment, the pod's account, or ~/.kube/config."""
    context: str = ""
    """Context of the kubeconfig; its current one when empty."""
    service_account_dir: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    """Folder with token, ca.crt and namespace of the pod's account."""
    request_timeout_s: float = Field(default=30.0, ge=1, le=300)
    """Of one request, as client and server count it."""
    list_timeout_s: float = Field(default=60.0, ge=1, le=600)
    """Of one page of a list."""
    cache_sync_timeout_s: float = Field(default=120.0, ge=1, le=3600)
    """The start fails when the caches are not filled by then."""
    strict_tls: bool = True
    """Whether server certificates must satisfy RFC 5280; off for cluster CAs without key ids."""

    # ── who leads ──

    leader_elect: bool = True
    """Whether replicas elect a leader; off only where there never is a second one."""
    lease_name: Label = "ascendop"
    """Name of the Lease."""
    lease_namespace: str = ""
    """Namespace of the Lease; the pod's own when empty."""
    lease_s: float = Field(default=15.0, ge=1, le=3600)
    """How long a silent leader is believed; a follower takes over after this."""
    renew_s: float = Field(default=10.0, ge=1, le=3600)
    """A leader that could not renew its lease for this long ends."""
    retry_s: float = Field(default=2.0, ge=1, le=600)
    """Pause between two tries to take or renew the lease."""
    grace_s: float = Field(default=20.0, ge=0, le=600)
    """At the end, running reconciles may take this long."""
    pod_name: str = ""
    """Name of the operator's own pod, for its identity."""
    pod_uid: str = ""
    """UID of the operator's own pod, for its identity."""
    pod_namespace: str = ""
    """Namespace of the operator's own pod."""

    # ── who watches ──

    metrics_listen: Listen = ":8080"
    """Where /metrics is served, host:port; without a host on all addresses, nowhere when empty."""
    health_listen: Listen = ":8081"
    """Where /healthz and /readyz are served, likewise."""
    tls_cert_file: str = ""
    """Certificate with its chain, PEM, by which metrics and health are HTTPS; HTTP when empty."""
    tls_private_key_file: str = ""
    """Its private key, PEM."""
    profile_listen: Listen = ""
    """Where profiles are served, a loopback address such as 127.0.0.1:6060; nowhere when empty."""
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", json_schema_extra=Live
    )
    """Least severe lines that are written."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """JSON for machines, text for people; auto is text on a terminal."""
    log_file: LogFile = ""
    """File that gets every line, too, new each 20 MB; standard error alone when empty."""
    log_max_age_days: int = Field(default=7, ge=7, le=700)
    """Older files of the log are removed."""
    log_max_backups: int = Field(default=30, ge=1, le=180)
    """Files of the log that are kept beside the one that is written."""
    log_compress: bool = False
    """Whether they are compressed."""

    @model_validator(mode="after")
    def _key_and_certificate_go_together(self) -> Self:
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise ValueError(
                f"tls_cert_file={self.tls_cert_file}, "
                f"tls_private_key_file={self.tls_private_key_file}: give both, or neither"
            )
        return self

    @model_validator(mode="after")
    def _lease_times_hold(self) -> Self:
        if not self.lease_s > self.renew_s > 1.2 * self.retry_s:
            raise ValueError(
                f"lease_s={self.lease_s:g}, renew_s={self.renew_s:g}, retry_s={self.retry_s:g}: "
                "lease_s must be above renew_s, and renew_s above 1.2 x retry_s"
            )
        return self


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the reference page, and one flag."""

    name: str
    flag: str
    """Long form; a switch also has --no-…"""
    env: str
    default: str
    """As one would write it; empty for nothing."""
    sentence: str
    is_switch: bool
    is_live: bool
    """Whether a change in the file takes effect without a restart."""
    choices: tuple[str, ...] = ()


def describe_settings() -> tuple[Setting, ...]:
    """Every setting, in order: for the command line and docs/reference/settings.md."""
    return tuple(
        Setting(
            name=name,
            flag="--" + name.replace("_", "-"),
            env=ENV_PREFIX + name.upper(),
            default=_shown(field.default),
            sentence=(field.description or "").replace("\n", " "),
            is_switch=field.annotation is bool,
            is_live=field.json_schema_extra == Live,
            choices=tuple(getattr(field.annotation, "__args__", ()))
            if getattr(field.annotation, "__origin__", None) is Literal
            else (),
        )
        for name, field in Settings.model_fields.items()
    )


def load_settings(
    flags: Mapping[str, Any], env: Mapping[str, str], file: Mapping[str, Any] | None = None
) -> Settings:
    """Flags before environment before file before defaults.

    flags:   by field name; None for a flag that was not given.
    env:     the whole environment. Other variables that begin with ASCENDOP_ are not ours to
             judge: Kubernetes makes some for every Service of that name.
    file:    what `parse_file` read.
    Raises:  UsageError, with every mistake in it and where it was written.
    """
    given: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for name, value in (file or {}).items():
        given[name], origin[name] = value, f"{name} in the settings file"
    for setting in describe_settings():
        for value, where in (
            (env.get(setting.env), setting.env),
            (flags.get(setting.name), setting.flag),
        ):
            if value is not None:
                given[setting.name], origin[setting.name] = value, where
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise UsageError("; ".join(_mistakes(error, origin))) from None


def parse_file(text: str) -> dict[str, Any]:
    """A settings file: YAML, one mapping of field names. Raises UsageError."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"the settings file is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found or {}, dict):
        raise UsageError("the settings file must be a mapping, such as `workers: 16`")
    return {str(name): value for name, value in (found or {}).items()}


def apply_changes(old: Settings, new: Settings) -> tuple[Settings, tuple[str, ...]]:
    """What may take effect now, and the names of those changes that need a restart."""
    changed = [name for name in Settings.model_fields if getattr(old, name) != getattr(new, name)]
    live = {setting.name for setting in describe_settings() if setting.is_live}
    update = {name: getattr(new, name) for name in changed if name in live}
    return old.model_copy(update=update), tuple(name for name in changed if name not in live)


def parse_listen(text: str) -> tuple[str, int]:
    """Host, empty for all addresses, and port. Raises ValueError."""
    found = _LISTEN.fullmatch(text)
    if not found or int(found["port"]) > _LAST_PORT:
        raise ValueError("must be host:port such as 127.0.0.1:8080, [::1]:8080 or :8080")
    return found["host"].strip("[]"), int(found["port"])


def _mistakes(error: ValidationError, origin: Mapping[str, str]) -> Iterator[str]:
    for mistake in error.errors(include_url=False):
        name = str(mistake["loc"][0]) if mistake["loc"] else ""
        text = mistake["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if mistake["type"] == "extra_forbidden":
            text = "is not a setting"
        where = origin.get(name, name)
        is_text = name and not isinstance(mistake["input"], dict | list | tuple)
        found = f"={mistake['input']}" if is_text and mistake["type"] != "extra_forbidden" else ""
        yield f"{where}{found}: {text}" if where else text


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(default)
    return f"{default:g}" if isinstance(default, float) else str(default)
