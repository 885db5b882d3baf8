# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The PodGroups that the original operator made, and where we differ on purpose."""

from pathlib import Path

import pytest
import yaml

from ascendop.api.job import ReplicaSpec, SchedulingPolicy
from ascendop.gang.podgroup import GangRole, GangSpec, build_pod_group

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


def gang(job, owner):
    replicas = {k: ReplicaSpec.model_validate(v) for k, v in job["replicas"].items()}
    recovers = "recover-strategy" in job["annotations"]
    return GangSpec(
        namespace="NS",
        name=f"{job['name']}-JOB_UID",
        labels=job["labels"],
        annotations=job["annotations"],
        owner=owner,
        roles=[GangRole(role, spec.count, spec.template) for role, spec in replicas.items()],
        policy=SchedulingPolicy.model_validate(job["policy"]) if job["policy"] else None,
        task_members=True,
        extra_labels={"process-recover-enable": "on"} if recovers else {},
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_pod_group_is_that_of_the_original(path):
    """ascendjob:P1, ascendjob:P2, ascendjob:P3, ascendjob:P5, ascendjob:P6, scheduling:SCH-28."""
    case = yaml.safe_load(path.read_text())
    want = case["want"]
    want["metadata"]["namespace"] = "NS"
    # The queue that the API server filled in; the priorities are those of the recorded cluster.
    got = build_pod_group(gang(case["job"], want["metadata"]["ownerReferences"][0]), {})
    assert got | {"spec": {"queue": "default"} | got["spec"]} == want
