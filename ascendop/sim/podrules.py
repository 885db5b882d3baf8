# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a real server adds to a pod, demands of it, and lets nobody change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ascendop.kube.resource import Object
from ascendop.sim.answers import Cause

Spec = dict[str, Any]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DEFAULT_MODE = 0o644
_NOT_READY_S = 300
_RESTART = ("Always", "OnFailure", "Never")
_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def default_pod(pod: Object) -> None:
    """Fill in what the API documents as defaults, and what admission adds everywhere."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    for container in _containers(spec):
        _ask_for_limits(container["resources"])
        for port in container.get("ports") or () if spec.get("hostNetwork") else ():
            port.setdefault("hostPort", port.get("containerPort"))
    spec.setdefault("enableServiceLinks", True)
    _tolerate(spec)


def _containers(spec: Spec) -> Iterator[Spec]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _ask_for_limits(resources: Spec) -> None:
    """A limit without a request asks for the limit; in a template that stays unsaid."""
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def default_pod_spec(spec: Spec) -> None:
    """Of a pod or of a pod template."""
    for container in _containers(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if account := spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", account)


def start_pod(pod: Object) -> None:
    """A new pod's status is the server's, whatever was sent."""
    pod["status"] = {"phase": "Pending", "qosClass": _qos(pod.get("spec") or {})}


def pod_faults(pod: Object) -> Iterator[Cause]:
    spec = pod.get("spec") or {}
    yield from pod_spec_faults(spec, "spec")


def pod_spec_faults(spec: Spec, path: str) -> Iterator[Cause]:
    containers = spec.get("containers") or []
    if not containers:
        yield _required(f"{path}.containers")
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or ()):
            where = f"{path}.{part}[{index}]"
            yield from _container_faults(container, where, volumes)
            name = container.get("name", "")
            if name in seen:
                yield Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{where}.name")
            seen.add(name)
    if spec.get("restartPolicy", "Always") not in _RESTART:
        told = ", ".join(f'"{policy}"' for policy in _RESTART)
        yield Cause(
            "FieldValueNotSupported",
            f'Unsupported value: "{spec["restartPolicy"]}": supported values: {told}',
            f"{path}.restartPolicy",
        )


def pod_change_faults(old: Object, new: Object) -> Iterator[Cause]:
    """A pod's spec is decided once; images, a deadline and added tolerations are the exceptions."""
    if _frozen(old["spec"]) != _frozen(new["spec"]):
        yield Cause(
            "FieldValueForbidden",
            f"Forbidden: pod updates may not change fields other than {_CHANGEABLE}",
            "spec",
        )
    was, now = old["spec"].get("tolerations") or [], new["spec"].get("tolerations") or []
    if any(toleration not in now for toleration in was):
        yield Cause(
            "FieldValueForbidden",
            "Forbidden: existing toleration can not be modified except its tolerationSeconds",
            "spec.tolerations",
        )


def _frozen(spec: Spec) -> Spec:
    kept = {
        name: value
        for name, value in spec.items()
        if name not in ("activeDeadlineSeconds", "tolerations")
    }
    for part in ("initContainers", "containers"):
        if part in kept:
            kept[part] = [{**container, "image": ""} for container in kept[part] or ()]
    return kept


def _default_container(container: Spec) -> None:
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference:
            reference.setdefault("apiVersion", "v1")
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if container.get("image"):
        container.setdefault("imagePullPolicy", _pull_policy(container["image"]))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _default_probe(container[probe])


def _pull_policy(image: str) -> str:
    """Always for a tag that moves: `latest`, or none."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_probe(probe: Spec) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("scheme", "HTTP")


def _default_volume(volume: Spec) -> None:
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", _DEFAULT_MODE)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}


def _tolerate(spec: Spec) -> None:
    """As the admission plugin DefaultTolerationSeconds does."""
    tolerations = spec.setdefault("tolerations", [])
    for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_covers(toleration, taint) for toleration in tolerations):
            tolerations.append(
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _NOT_READY_S,
                }
            )


def _covers(toleration: Spec, taint: str) -> bool:
    key = toleration.get("key", "")
    return key in ("", taint) and toleration.get("effect", "") in ("", "NoExecute")


def _qos(spec: Spec) -> str:
    asked = [container.get("resources") or {} for container in _containers(spec)]
    counted = ("cpu", "memory")
    if not any(
        name in (resources.get(part) or {})
        for resources in asked
        for part in ("requests", "limits")
        for name in counted
    ):
        return "BestEffort"
    sure = all(
        name in (resources.get("limits") or {})
        and (resources.get("requests") or {}).get(name) == resources["limits"][name]
        for resources in asked
        for name in counted
    )
    return "Guaranteed" if sure else "Burstable"


def _container_faults(container: Spec, path: str, volumes: set[Any]) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield _required(f"{path}.name")
    elif not _NAME.fullmatch(name):
        yield Cause(
            "FieldValueInvalid",
            f'Invalid value: "{name}": a lowercase RFC 1123 label must consist of lower case '
            "alphanumeric characters or '-', and must start and end with an alphanumeric character",
            f"{path}.name",
        )
    if not container.get("image"):
        yield _required(f"{path}.image")
    yield from _mount_faults(container, path, volumes)
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield _required(f"{path}.env[{index}].name")


def _mount_faults(container: Spec, path: str, volumes: set[Any]) -> Iterator[Cause]:
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            yield Cause(
                "FieldValueNotFound",
                f'Not found: "{mount.get("name", "")}"',
                f"{path}.volumeMounts[{index}].name",
            )
        if not mount.get("mountPath"):
            yield _required(f"{path}.volumeMounts[{index}].mountPath")


def _required(path: str) -> Cause:
    return Cause("FieldValueRequired", "Required value", path)
