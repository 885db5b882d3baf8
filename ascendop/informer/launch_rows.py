# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rows of what a job with a launcher has beside its pods: the Job, and what the pods share.

Of a ConfigMap a digest is kept. Of a Secret no data ever come: who has written which keys stands
in its metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ascendop.api.observed import LauncherView, SharedView
from ascendop.builder.content import data_content, program_content, service_content
from ascendop.informer.metadata import Meta, Owner
from ascendop.informer.pool import Pool
from ascendop.informer.represent import StructForm
from ascendop.informer.rows import Whole, Wire, form

_NOBODY = Owner()


class TemplateMeta(Wire):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Affinity(Wire):
    node_affinity: dict[str, Any] | None = None


class Container(Wire):
    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None


class TemplateSpec(Wire):
    containers: list[Container] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None


class Template(Wire):
    metadata: TemplateMeta | None = None
    spec: TemplateSpec | None = None


class BatchSpec(Wire):
    suspend: bool = False
    template: Template | None = None


class BatchCondition(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class BatchStatus(Wire):
    start_time: str | None = None
    completion_time: str | None = None
    failed: int = 0
    conditions: list[BatchCondition] | None = None


class BatchJob(Whole):
    spec: BatchSpec | None = None
    status: BatchStatus | None = None


class SharedServiceSpec(Wire):
    selector: dict[str, str] | None = None
    publish_not_ready_addresses: bool = False


class SharedService(Whole):
    spec: SharedServiceSpec | None = None


class ConfigMap(Whole):
    data: dict[str, str] | None = None


class SecretFields(Wire):
    data: dict[str, Any] | None = msgspec.field(default=None, name="f:data")


class SecretManager(Wire):
    fields: SecretFields | None = msgspec.field(default=None, name="fieldsV1")


class SecretMeta(Meta):
    managed_fields: list[SecretManager] | None = None


class Secret(Whole):
    metadata: SecretMeta


def launcher_row(job: BatchJob, pool: Pool) -> LauncherView:
    meta, spec = job.metadata, job.spec or BatchSpec()
    owner, status = meta.controller() or _NOBODY, job.status or BatchStatus()
    template = spec.template or Template()
    marks, pod = template.metadata or TemplateMeta(), template.spec or TemplateSpec()
    end = _end(status.conditions or ())
    return LauncherView(
        namespace=pool(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_kind=pool(owner.kind),
        owner_name=pool(owner.name),
        owner_uid=pool(owner.uid),
        deleting=meta.deletion_timestamp is not None,
        suspended=spec.suspend,
        started=status.start_time or "",
        failed=status.failed,
        end=pool(end.type),
        ended=status.completion_time or end.last_transition_time or "",
        reason=pool(end.reason),
        message=end.message,
        labels=_names(marks.labels, pool),
        annotations=_names(marks.annotations, pool),
        node_selector=_names(pod.node_selector, pool),
        node_affinity=bool(pod.affinity and pod.affinity.node_affinity),
        program=_program(pod) if owner.kind else "",
    )


def _program(pod: TemplateSpec) -> str:
    return program_content(msgspec.structs.asdict(one) for one in pod.containers or ())


def _names(found: Mapping[str, str] | None, pool: Pool) -> tuple[str, ...]:
    return tuple([pool(name) for name in found or ()])


def _end(conditions: Iterable[BatchCondition]) -> BatchCondition:
    found = (c for c in conditions if c.type in {"Complete", "Failed"} and c.status == "True")
    return next(found, BatchCondition())


def service_row(service: SharedService, pool: Pool) -> SharedView:
    spec = service.spec or SharedServiceSpec()
    content = service_content(spec.selector, not_ready=spec.publish_not_ready_addresses)
    return _shared(service.metadata, pool, content, tuple(spec.selector or ()))


def config_row(found: ConfigMap, pool: Pool) -> SharedView:
    return _shared(found.metadata, pool, data_content(found.data), tuple(found.data or ()))


def secret_row(secret: Secret, pool: Pool) -> SharedView:
    managers = secret.metadata.managed_fields
    names = {
        name.removeprefix("f:")
        for manager in managers or ()
        for name in ((manager.fields and manager.fields.data) or ())
        if name.startswith("f:")
    }
    return _shared(secret.metadata, pool, "", tuple(sorted(names)) if managers else None)


def _shared(meta: Meta, pool: Pool, content: str, keys: tuple[str, ...] | None) -> SharedView:
    owner = meta.controller() or _NOBODY
    return SharedView(
        namespace=pool(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_kind=pool(owner.kind),
        owner_name=pool(owner.name),
        owner_uid=pool(owner.uid),
        deleting=meta.deletion_timestamp is not None,
        content=content,
        keys=keys,
    )


def launchers_form() -> StructForm[BatchJob, LauncherView]:
    """How Jobs are cached; the other forms likewise."""
    return form(BatchJob, launcher_row)


def shared_services_form() -> StructForm[SharedService, SharedView]:
    return form(SharedService, service_row)


def shared_configs_form() -> StructForm[ConfigMap, SharedView]:
    return form(ConfigMap, config_row)


def secrets_form() -> StructForm[Secret, SharedView]:
    return StructForm(Secret, secret_row, _bare_secret)


def _bare_secret(meta: Meta, pool: Pool) -> SharedView:
    return secret_row(Secret(metadata=SecretMeta(**msgspec.structs.asdict(meta))), pool)
