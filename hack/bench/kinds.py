# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The kinds that are measured, and one job of each as its users write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]
Labels = Mapping[str, str]
# Placeholders; what stands between them is as long as any name would be.
NAME: Final = "name-of-job"
NAMESPACE: Final = "name-of-namespace"


@dataclass(frozen=True, slots=True)
class Benched:
    """One kind.

    path:  of the jobs of a namespace.
    make:  a job of so many pods, with these labels beside the usual ones.
    """

    kind: str
    api_version: str
    plural: str
    make: Callable[[int, Labels], Object]
    launches: bool = False
    """One of the pods is that of a Job of batch/v1."""

    def jobs(self, namespace: str) -> str:
        """Path of its jobs."""
        return f"/apis/{self.api_version}/namespaces/{namespace}/{self.plural}"


def _head(kind: str, api_version: str, labels: Labels) -> Object:
    meta = {"name": NAME, "namespace": NAMESPACE, "labels": dict(labels)}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta}


def _ascendjob(pods: int, labels: Labels) -> Object:
    usual = {"framework": "pytorch", "ring-controller.atlas": "ascend-910b"}
    roles = {"Master": 1, "Worker": pods - 1}
    return {
        **_head("AscendJob", "mindxdl.gitee.com/v1", {**usual, **labels}),
        "spec": {
            "schedulerName": "volcano",
            "runPolicy": {"schedulingPolicy": {"minAvailable": pods, "queue": "default"}},
            "successPolicy": "AllWorkers",
            "replicaSpecs": {
                role: {"replicas": count, "restartPolicy": "Never", "template": _on_npus()}
                for role, count in roles.items()
                if count
            },
        },
    }


def _on_npus() -> Object:
    """As users write it for one node of eight NPUs."""
    npus = {"huawei.com/Ascend910": "8"}
    train = "torchrun --nproc_per_node $LOCAL_WORLD_SIZE --node_rank $RANK /workspace/train.py"
    container = {
        "name": "ascend",
        "image": "registry.example.com/vision/train:1.0",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/bash", "-c"],
        "args": [train],
        "ports": [{"name": "ascendjob-port", "containerPort": 2222}],
        "resources": {"requests": npus, "limits": npus},
        "volumeMounts": [
            {"name": "driver", "mountPath": "/usr/local/Ascend/driver", "readOnly": True},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    return {
        "metadata": {"labels": {"ring-controller.atlas": "ascend-910b"}},
        "spec": {
            "automountServiceAccountToken": False,
            "nodeSelector": {"accelerator-type": "module-910b-8"},
            "containers": [container],
            "volumes": [
                {"name": "driver", "hostPath": {"path": "/usr/local/Ascend/driver"}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            ],
        },
    }


def _mpijob(pods: int, labels: Labels) -> Object:
    """One of the pods is the launcher's."""
    small = {"limits": {"cpu": "1", "memory": "1Gi"}}
    large = {"limits": {"cpu": "8", "memory": "32Gi"}}
    solve = ["mpirun", "-n", str(8 * (pods - 1)), "python3", "/workspace/solve.py"]
    return {
        **_head("MPIJob", "kubeflow.org/v2beta1", labels),
        "spec": {
            "slotsPerWorker": 8,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": _plain("mpi", solve, small)},
                "Worker": {
                    "replicas": pods - 1,
                    "template": _plain("mpi", ["/usr/sbin/sshd", "-De"], large),
                },
            },
        },
    }


def _pytorchjob(pods: int, labels: Labels) -> Object:
    train = ["python3", "/workspace/train.py"]
    roles = {"Master": 1, "Worker": pods - 1}
    resources = {"limits": {"cpu": "8", "memory": "32Gi"}}
    return {
        **_head("PyTorchJob", "kubeflow.org/v1", labels),
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running"},
            "pytorchReplicaSpecs": {
                role: {
                    "replicas": count,
                    "restartPolicy": "OnFailure",
                    "template": _plain("pytorch", train, resources),
                }
                for role, count in roles.items()
                if count
            },
        },
    }


def _plain(name: str, command: list[str], resources: Object) -> Object:
    container = {
        "name": name,
        "image": "registry.example.com/vision/train:1.0",
        "command": command,
        "resources": resources,
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    volume = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    return {"spec": {"containers": [container], "volumes": [volume]}}


ASCENDJOB: Final = Benched("AscendJob", "mindxdl.gitee.com/v1", "ascendjobs", _ascendjob)
MPIJOB: Final = Benched("MPIJob", "kubeflow.org/v2beta1", "mpijobs", _mpijob, launches=True)
PYTORCHJOB: Final = Benched("PyTorchJob", "kubeflow.org/v1", "pytorchjobs", _pytorchjob)
