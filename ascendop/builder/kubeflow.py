# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the kubeflow.org/v1 kinds share: labels, Services, words, the rules of their lives.

Source: training-operator 1.9.4; kubeflow-v1-jobs.md sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ascendop.api.kind import JobView, S, Words
from ascendop.api.life import Facts, Rule, Verdict
from ascendop.api.model import Object
from ascendop.builder import labels as keys
from ascendop.builder.names import pod_name
from ascendop.builder.pod import build_service, named_ports

INIT_IMAGE: Final = "alpine:3.10"
INIT_TRIES: Final = 100

Driver = Callable[[Facts], str]
"""The role whose end is the job's end."""


def slot_labels(job: JobView[S], controller: str, role: str, index: int) -> dict[str, str]:
    """The four labels that find one pod."""
    return {
        keys.JOB_NAME: job.name,
        keys.OPERATOR_NAME: controller,
        keys.REPLICA_TYPE: role.lower(),
        keys.REPLICA_INDEX: str(index),
    }


def replica_selector(job: JobView[S], controller: str, role: str) -> str:
    """Label selector of one role's pods, as the scale subresource shows it."""
    found = slot_labels(job, controller, role, 0)
    del found[keys.REPLICA_INDEX]
    return ",".join(f"{key}={found[key]}" for key in sorted(found))


def named_port(container: Object | None, name: str, otherwise: int) -> int:
    """Number of the port of that name."""
    for port in (container or {}).get("ports") or ():
        if port.get("name") == name:
            return int(port["containerPort"])
    return otherwise


def pod_services(job: JobView[S], controller: str, container: str) -> Sequence[Object]:
    """A headless Service per pod, of the pod's name: how the pods find each other."""
    return tuple(
        build_service(
            job,
            pod_name(job.name, role, index),
            slot_labels(job, controller, role, index),
            named_ports(replica.container(container)),
            headless=True,
        )
        for role, replica in job.replicas.items()
        for index in range(replica.count)
    )


def dns_init_container(name: str, host: str) -> Object:
    """Waits until a name resolves, 2 s between tries: by the hosts file or by DNS."""
    look = f"getent hosts {host} || nslookup {host}"
    script = (
        f"for i in $(seq {INIT_TRIES}); do if {look}; then exit 0; fi; "
        "echo waiting for master; sleep 2; done; exit 1"
    )
    return {
        "name": name,
        "image": INIT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
    }


def leader_or_workers(leader: str, workers: str) -> Driver:
    """The leader where the job has one, else all workers together."""
    return lambda f: leader if f.wanted.get(leader) else workers


def kubeflow_words(kind: str) -> Words:
    return Words(
        created=(f"{kind}Created", kind + " {job} is created."),
        invalid=f"{kind}Failed",
        step_failed={
            "group": f"{kind}PodGroupSyncFailed",
            "services": f"{kind}ServiceCreateFailed",
            "pods": f"{kind}PodCreateFailed",
        },
        pod_scheduler_event="SetPodTemplateSchedulerName",
        restart_policy_event="SetPodTemplateRestartPolicy",
        created_first=True,
        service_events=True,
    )


def kubeflow_rules(driver: Driver) -> tuple[Rule, ...]:
    """Success of the driver first, then failures, then life."""
    return (_overdue, partial(_done, driver), _failing, partial(_running, driver))


def _name(driver: Driver, f: Facts) -> str:
    return f.job if driver(f) == "Master" else f"{f.namespace}/{f.job}"


def _overdue(f: Facts) -> Verdict | None:
    if f.overdue:
        text = f"Job {f.job} has failed because it was active longer than specified deadline"
        return Verdict("Failed", f"{f.kind}Failed", text)
    return None


def _done(driver: Driver, f: Facts) -> Verdict | None:
    role = driver(f)
    if role not in f.counts:  # a job without any role has nothing to wait for, and no end either
        return None
    succeeded, wanted = f.counts[role].succeeded, f.wanted[role]
    one_is_enough = f.elastic and role == "Worker" and succeeded > 0
    if one_is_enough or succeeded >= wanted > 0:
        ended = "is successfully completed" if role == "Master" else "successfully completed"
        text = f"{f.kind} {_name(driver, f)} {ended}."
        return Verdict("Succeeded", f"{f.kind}Succeeded", text)
    return None


def _failing(f: Facts) -> Verdict | None:
    for role, counts in f.counts.items():
        # A pod that scale-down takes away is no failure.
        if counts.failed and f.wanted[role] > counts.succeeded + counts.active:
            return _failed(f, role, counts.failed)
    return None


def _running(driver: Driver, f: Facts) -> Verdict | None:
    role = driver(f)
    if role in f.counts and f.counts[role].active:
        text = f"{f.kind} {_name(driver, f)} is running."
        return Verdict("Running", f"{f.kind}Running", text, ())
    return None


def _failed(f: Facts, role: str, count: int) -> Verdict:
    if f.policies[role] != "Never" and role not in f.beyond_repair:
        reason = f"{f.kind}Restarting"
        text = f"{f.kind} {f.job} is restarting because {count} {role} replica(s) failed."
        return Verdict("Restarting", reason, text, (("Warning", reason),))
    reason = f"{f.kind}Failed"
    text = f"{f.kind} {f.job} is failed because {count} {role} replica(s) failed."
    return Verdict("Failed", reason, text)
