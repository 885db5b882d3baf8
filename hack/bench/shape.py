# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The jobs that are measured, and every object that has to be written for one of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from hack.bench.wire import BenchError
from hack.controlplane import ROOT

Object = dict[str, Any]
PODS_PER_JOB: Final = 5
"""Where there are many jobs."""
JOBS: Final = "/apis/mindxdl.gitee.com/v1/namespaces/{namespace}/ascendjobs"
_PATHS: Final[Mapping[str, str]] = {
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups",
}
# Placeholders in rendered objects; what stands between them is as long as any name would be.
_NAME: Final = "name-of-job"
_NAMESPACE: Final = "name-of-namespace"
_UID: Final = b"JOB_UID"


@dataclass(frozen=True, slots=True)
class Shape:
    """So many jobs of so many pods."""

    jobs: int
    pods_per_job: int

    @property
    def pods(self) -> int:
        return self.jobs * self.pods_per_job

    def __str__(self) -> str:
        if self.jobs == 1:
            return f"one AscendJob of {self.pods:,} pods"
        return f"{self.jobs} AscendJobs x {self.pods_per_job} pods"

    def names(self) -> list[str]:
        """Of the jobs."""
        return [f"bench-{number:05}" for number in range(self.jobs)]


@dataclass(frozen=True, slots=True)
class Written:
    """One object to be written: where, and its JSON with placeholders."""

    kind: str
    path: str
    name: str
    body: bytes

    def filled(self, namespace: str, job: str, uid: bytes, address: bytes) -> tuple[str, bytes]:
        """Collection and body for one job; `address` is the ClusterIP of its Service."""
        body = self.body.replace(_NAMESPACE.encode(), namespace.encode())
        body = body.replace(_NAME.encode(), job.encode()).replace(_UID, uid)
        body = body.replace(f"CLUSTER_IP({job}-master-0)".encode(), address)
        return self.path.format(namespace=namespace), body

    def named(self, job: str, uid: bytes) -> str:
        """Its name in that job."""
        return self.name.replace(_NAME, job).replace(_UID.decode(), uid.decode())


@dataclass(frozen=True, slots=True)
class Rendered:
    """What is written for one job of a shape, in order."""

    job: bytes
    group: Written
    services: tuple[Written, ...]
    pods: tuple[Written, ...]

    def job_of(self, namespace: str, name: str) -> bytes:
        """The job itself, as a user would send it."""
        return self.job.replace(_NAMESPACE.encode(), namespace.encode()).replace(
            _NAME.encode(), name.encode()
        )


def render(shape: Shape, labels: Mapping[str, str] | None = None) -> Rendered:
    """The objects as the operator makes them: `ascendop render` is asked, and nothing guessed.

    labels:  of the jobs, beside the usual ones.
    """
    job = orjson.dumps(_job(shape.pods_per_job, labels or {}))
    command = [sys.executable, "-m", "ascendop", "render", "-o", "json", "-"]
    asked = subprocess.run(command, input=job, capture_output=True, check=False, cwd=ROOT)
    if asked.returncode:
        raise BenchError(f"ascendop render: {asked.stderr.decode().strip().splitlines()[-1]}")
    found = [_written(obj) for obj in orjson.loads(asked.stdout)["items"]]
    of_kind = {kind: tuple(w for w in found if w.kind == kind) for kind in _PATHS}
    (group,) = of_kind["PodGroup"]
    return Rendered(job, group, of_kind["Service"], of_kind["Pod"])


def _written(obj: Object) -> Written:
    kind = str(obj["kind"])
    return Written(kind, _PATHS[kind], str(obj["metadata"]["name"]), orjson.dumps(obj))


def _job(pods: int, labels: Mapping[str, str]) -> Object:
    roles = {"Master": 1, "Worker": pods - 1}
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {
            "name": _NAME,
            "namespace": _NAMESPACE,
            "labels": {
                "framework": "pytorch",
                "ring-controller.atlas": "ascend-910b",
                **labels,
            },
        },
        "spec": {
            "schedulerName": "volcano",
            "runPolicy": {"schedulingPolicy": {"minAvailable": pods, "queue": "default"}},
            "successPolicy": "AllWorkers",
            "replicaSpecs": {
                role: {"replicas": count, "restartPolicy": "Never", "template": _template()}
                for role, count in roles.items()
                if count
            },
        },
    }


def _template() -> Object:
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
