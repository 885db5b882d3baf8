# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Worker pods and the launcher's batch/v1 Job of an MPIJob.

Source: mpi-operator 0.8.2; mpijob.md 3.4 and 3.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ascendop.api.job import ReplicaSpec
from ascendop.api.kind import PodSlot
from ascendop.api.launch import Place
from ascendop.api.model import Object
from ascendop.api.mpi import INTEL, LAUNCHER, MPICH, ROOT_KEYS
from ascendop.builder import labels as keys
from ascendop.builder.env import names_of, value, without
from ascendop.builder.mpi import (
    DISCOVERY,
    HOST_FILE,
    PRIVATE_KEY,
    PUBLIC_KEY,
    Job,
    config_name,
    launcher_name,
    pod_selector,
    secret_name,
)
from ascendop.builder.pod import GANG_SCHEDULER

KEYS_VOLUME: Final = "ssh-auth"
CONFIG_VOLUME: Final = "mpi-job-config"
CONFIG_PATH: Final = "/etc/mpi"
GANG_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""How the coscheduling plug-in knows the pods of a PodGroup."""
_GPUS: Final = "nvidia.com/"
_GPUS_SEEN: Final = "NVIDIA_VISIBLE_DEVICES"
_HOSTS: Final = f"{CONFIG_PATH}/{HOST_FILE}"
_RETRIES: Final = "-o ConnectionAttempts=10"
_OWNER_ONLY: Final = 0o600
_GROUP_READS: Final = 0o440


def worker_pod(job: Job, slot: PodSlot, place: Place) -> Object:
    """One worker: an sshd, unless its template says what else to run."""
    spec = _spec(job, slot.replica, slot.name, place, env=[value("K_MPI_JOB_ROLE", "worker")])
    main, *others = spec["containers"]
    if not main.get("command") and not main.get("args"):
        main = {**main, "command": ["/usr/sbin/sshd", "-De"]}
    domain = "cluster.local" if place.strict else place.domain or "cluster.local"
    dns = spec.get("dnsConfig") or {}
    search = f"{job.name}.{job.namespace}.svc.{domain}"
    spec["dnsConfig"] = {**dns, "searches": [*(dns.get("searches") or ()), search]}
    spec["containers"] = [main, *others]
    labels = {keys.JOB_ROLE: "worker", keys.REPLICA_INDEX: str(slot.rank)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": slot.name,
            "namespace": job.namespace,
            **_marks(job, slot.replica, labels, place),
            "ownerReferences": [job.owner],
        },
        "spec": spec,
    }


def launcher_job(job: Job, place: Place) -> Object:
    """The Job whose one pod runs mpirun; it retries by itself."""
    replica, name = job.replicas[LAUNCHER], launcher_name(job.name)
    spec = _spec(job, replica, name, place, env=_launcher_env(job, replica, place))
    main, *others = spec["containers"]
    mounted = {"name": CONFIG_VOLUME, "mountPath": CONFIG_PATH}
    main = {**main, "volumeMounts": [*main["volumeMounts"], mounted]}
    spec["containers"] = [main, *others]
    spec["volumes"] = [*spec["volumes"], _config_volume(job)]
    labels = {keys.JOB_ROLE: "launcher"}
    if job.spec.launches_as_worker:
        labels[keys.REPLICA_INDEX] = "0"
    policy = job.run_policy
    limits = {
        "ttlSecondsAfterFinished": policy.ttl_seconds_after_finished,
        "activeDeadlineSeconds": policy.active_deadline_seconds,
        "backoffLimit": policy.backoff_limit,
    }
    marks = _marks(job, replica, labels, place)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {"app": job.name},
            "ownerReferences": [job.owner],
        },
        "spec": {
            **{key: limit for key, limit in limits.items() if limit is not None},
            # A launcher that is on its way out has the host name that the next one needs.
            "podReplacementPolicy": "Failed",
            "template": {"metadata": {**marks, "ownerReferences": [job.owner]}, "spec": spec},
        },
    }


def key_mode(job: Job, replica: ReplicaSpec, place: Place) -> int | None:
    """Mode of the key files; None for the API's own, 0644.

    ssh refuses a private key that is its caller's and that others may read. So root, who owns the
    files, wants them for itself; everybody else has to be let read at all.
    Source:  mpijob.md FAQ-1, W-13, where the modes were measured.
    """
    peer = _OWNER_ONLY if job.spec.key_path == ROOT_KEYS else None
    whole = replica.pod_spec.get("securityContext") or {}
    own = {**whole, **((replica.containers or [{}])[0].get("securityContext") or {})}
    user = own.get("runAsUser")
    if place.strict or (user is None and not own.get("runAsNonRoot")):
        return peer
    if user == 0:
        return _OWNER_ONLY
    if peer is None:
        return None
    return None if whole.get("fsGroup") is None else _GROUP_READS


def _spec(
    job: Job, replica: ReplicaSpec, host_name: str, place: Place, *, env: list[Object]
) -> Object:
    spec = dict(replica.pod_spec)
    main, *others = replica.containers
    mount = {"name": KEYS_VOLUME, "mountPath": job.spec.key_path}
    main = {
        **main,
        "env": [*(main.get("env") or ()), *env],
        "volumeMounts": [*(main.get("volumeMounts") or ()), mount],
    }
    spec["containers"] = [main, *others]
    spec["volumes"] = [*(spec.get("volumes") or ()), _keys_volume(job, replica, place)]
    spec["hostname"], spec["subdomain"] = host_name, job.name
    if spec.get("hostNetwork"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        if place.apart_on_host_network:
            spec["affinity"] = _apart(job, spec.get("affinity") or {})
    spec["restartPolicy"] = replica.restart_policy
    if place.gang:
        spec["schedulerName"] = place.gang
    return spec


def _apart(job: Job, affinity: Object) -> Object:
    """On the network of a node there is one sshd for each port.

    Source:  mpijob.md W-47.
    """
    pods = affinity.get("podAntiAffinity") or {}
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {
        "labelSelector": {"matchLabels": pod_selector(job)},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {**affinity, "podAntiAffinity": {**pods, rule: [*(pods.get(rule) or ()), term]}}


def _marks(job: Job, replica: ReplicaSpec, own: Mapping[str, str], place: Place) -> Object:
    """Labels and annotations: the template's, and over them what pods are found by."""
    meta = replica.template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), **pod_selector(job), **own}
    annotations = dict(meta.get("annotations") or {})
    if place.gang == GANG_SCHEDULER:
        annotations[keys.POD_GROUP] = job.name
    elif place.gang:
        labels[GANG_LABEL] = job.name
    return {"labels": labels} | ({"annotations": annotations} if annotations else {})


def _keys_volume(job: Job, replica: ReplicaSpec, place: Place) -> Object:
    secret: Object = {
        "secretName": secret_name(job.name),
        "items": [
            {"key": PRIVATE_KEY, "path": "id_rsa"},
            {"key": PUBLIC_KEY, "path": "id_rsa.pub"},
            {"key": PUBLIC_KEY, "path": "authorized_keys"},
        ],
    }
    mode = key_mode(job, replica, place)
    if mode is not None:
        secret["defaultMode"] = mode
    return {"name": KEYS_VOLUME, "secret": secret}


def _config_volume(job: Job) -> Object:
    items = [
        {"key": HOST_FILE, "path": HOST_FILE, "mode": 0o444},
        {"key": DISCOVERY, "path": DISCOVERY, "mode": 0o555},
    ]
    return {"name": CONFIG_VOLUME, "configMap": {"name": config_name(job.name), "items": items}}


def _launcher_env(job: Job, replica: ReplicaSpec, place: Place) -> list[Object]:
    found = [value("K_MPI_JOB_ROLE", "launcher"), *_peers_env(job)]
    if not place.strict:
        # Beyond the contract, so what the template says counts.
        theirs = names_of(replica.containers[0].get("env") or ())
        found += without(_newer_env(job), theirs)
    if blanks_gpus(job, replica, place):
        # So that the launcher, which computes nothing, does not see the accelerators of a node.
        found += [{"name": _GPUS_SEEN}, {"name": "NVIDIA_DRIVER_CAPABILITIES"}]
    return found


def blanks_gpus(job: Job, replica: ReplicaSpec, place: Place) -> bool:
    """Whether the launcher is kept from the GPUs of its node: not where it asks for some.

    Source:  mpijob.md 3.5, field-reports.md FR-042.
    """
    if job.spec.launches_as_worker:
        return False
    wants = (
        name
        for container in replica.containers
        for amounts in (container.get("resources") or {}).values()
        if isinstance(amounts, dict)
        for name in amounts
    )
    return place.strict or not any(name.startswith(_GPUS) for name in wants)


def overridden(job: Job, place: Place) -> str:
    """What of the launcher's template does not count, in a sentence; empty when all does.

    Source:  field-reports.md FR-042.
    """
    replica = job.replicas[LAUNCHER]
    env = replica.containers[0].get("env") or ()
    theirs: Object = next((e for e in env if e.get("name") == _GPUS_SEEN), {})
    if place.strict or not (theirs.get("value") and blanks_gpus(job, replica, place)):
        return ""
    return (
        f"{_GPUS_SEEN}={theirs['value']} of the launcher does not count, since it asks for no GPU: "
        f"request {_GPUS}gpu, or set runLauncherAsWorker"
    )


def _peers_env(job: Job) -> list[Object]:
    slots = job.spec.slots
    if job.spec.implementation == INTEL:
        return [
            value("I_MPI_HYDRA_HOST_FILE", _HOSTS),
            value("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", _RETRIES),
            value("I_MPI_PERHOST", slots),
        ]
    if job.spec.implementation == MPICH:
        return [value("HYDRA_HOST_FILE", _HOSTS), value("HYDRA_LAUNCH_EXTRA_ARGS", _RETRIES)]
    return [
        value("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        value("OMPI_MCA_orte_default_hostfile", _HOSTS),
        value("OMPI_MCA_plm_rsh_args", _RETRIES),
        value("OMPI_MCA_orte_set_default_slots", slots),
    ]


def _newer_env(job: Job) -> list[Object]:
    """What releases of today read instead.

    Open MPI 5 without it starts all ranks beside mpirun, and ends well; MPICH's launcher never had
    the name that the original sets.
    Source:  mpijob.md W-11, W-20.
    """
    if job.spec.implementation == INTEL:
        return []
    if job.spec.implementation == MPICH:
        return [value("HYDRA_LAUNCHER_EXTRA_ARGS", _RETRIES)]
    return [
        value("PRTE_MCA_prte_default_hostfile", _HOSTS),
        value("PRTE_MCA_plm_ssh_args", _RETRIES),
        value("PRTE_MCA_prte_set_default_slots", job.spec.slots),
        # With "true" the launcher's own entry in the host file is taken for another host.
        value("PRTE_MCA_prte_keep_fqdn_hostnames", "false"),
    ]
