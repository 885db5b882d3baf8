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

from hack.bench.kinds import ASCENDJOB, NAME, NAMESPACE, Benched
from hack.bench.wire import BenchError
from hack.controlplane import ROOT

PODS_PER_JOB: Final = 5
"""Where there are many jobs."""
_PATHS: Final[Mapping[str, str]] = {
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups",
}
_UID: Final = b"JOB_UID"
_KEYS: Final = {"ssh-privatekey": "a" * 488, "ssh-publickey": "a" * 348}
"""As long as those that an operator makes; `render` makes none."""


@dataclass(frozen=True, slots=True)
class Shape:
    """So many jobs of so many pods; a launcher is one of them."""

    jobs: int
    pods_per_job: int
    kind: Benched = ASCENDJOB

    @property
    def pods(self) -> int:
        return self.jobs * self.pods_per_job

    @property
    def launchers(self) -> int:
        """How many of the pods are made by the Job controller."""
        return self.jobs if self.kind.launches else 0

    def __str__(self) -> str:
        if self.jobs == 1:
            return f"one {self.kind.kind} of {self.pods:,} pods"
        return f"{self.jobs} {self.kind.kind}s x {self.pods_per_job} pods"

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
        body = self.body.replace(NAMESPACE.encode(), namespace.encode())
        body = body.replace(NAME.encode(), job.encode()).replace(_UID, uid)
        body = body.replace(f"CLUSTER_IP({job}-master-0)".encode(), address)
        return self.path.format(namespace=namespace), body

    def named(self, job: str, uid: bytes) -> str:
        """Its name in that job."""
        return self.name.replace(NAME, job).replace(_UID.decode(), uid.decode())


@dataclass(frozen=True, slots=True)
class Rendered:
    """What is written for one job of a shape, in order."""

    job: bytes
    groups: tuple[Written, ...]
    services: tuple[Written, ...]
    shared: tuple[Written, ...]
    """What its pods mount."""
    pods: tuple[Written, ...]
    """And what makes pods: one each."""

    def job_of(self, namespace: str, name: str) -> bytes:
        """The job itself, as a user would send it."""
        return self.job.replace(NAMESPACE.encode(), namespace.encode()).replace(
            NAME.encode(), name.encode()
        )


def render(shape: Shape, labels: Mapping[str, str] | None = None) -> Rendered:
    """The objects as the operator makes them: `ascendop render` is asked, and nothing guessed.

    labels:  of the jobs, beside the usual ones.
    """
    job = orjson.dumps(shape.kind.make(shape.pods_per_job, labels or {}))
    command = [sys.executable, "-m", "ascendop", "render", "-o", "json", "-"]
    asked = subprocess.run(command, input=job, capture_output=True, check=False, cwd=ROOT)
    if asked.returncode:
        raise BenchError(f"ascendop render: {asked.stderr.decode().strip().splitlines()[-1]}")
    found = [_written(obj) for obj in orjson.loads(asked.stdout)["items"]]

    def of(*kinds: str) -> tuple[Written, ...]:
        return tuple(written for written in found if written.kind in kinds)

    return Rendered(job, of("PodGroup"), of("Service"), of("ConfigMap", "Secret"), of("Job", "Pod"))


def _written(obj: dict[str, Any]) -> Written:
    kind = str(obj["kind"])
    if kind == "Secret":
        obj = {**obj, "data": _KEYS}
    return Written(kind, _PATHS[kind], str(obj["metadata"]["name"]), orjson.dumps(obj))
