# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster whose MPIJobs are those of training-operator: another version under the same name."""

import subprocess

import pytest
import yaml

from hack import tools
from hack.admin import wait_for
from hack.controlplane import CRDS, ControlPlane
from hack.operate import Operator

pytestmark = pytest.mark.long
THEIRS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "mpijobs.kubeflow.org"},
    "spec": {
        "group": "kubeflow.org",
        "names": {"kind": "MPIJob", "plural": "mpijobs", "singular": "mpijob"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "MPIJob",
    "metadata": {"name": "old", "namespace": "default"},
    "spec": {"slotsPerWorker": 1, "cleanPodPolicy": "Running", "mpiReplicaSpecs": {}},
}
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mpijobs.kubeflow.org"
PATH = "/apis/kubeflow.org/v1/namespaces/default/mpijobs/old"
TORCH = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "beside", "namespace": "default"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}},
            }
        }
    },
}


def apply(plane, file, *flags):
    command = [tools.path("kubectl"), f"--kubeconfig={plane.kubeconfig}", "apply", "--server-side"]
    return subprocess.run(
        [*command, *flags, "-f", file], capture_output=True, text=True, check=False
    )


def test_what_is_there_stays_as_it_is_and_other_kinds_run(tmp_path):
    """field-reports:FR-103: nothing half handled, and the reason from the server itself."""
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text(yaml.safe_dump(THEIRS))
    ours = CRDS / "mpijobs.kubeflow.org.yaml"
    crds = [theirs, *(file for file in sorted(CRDS.glob("*.yaml")) if file != ours)]
    with ControlPlane(tmp_path / "plane", crds=crds) as plane, plane.admin() as admin:
        old = admin.create(JOB)
        refused = apply(plane, ours)
        assert refused.returncode == 1 and ".spec.versions" in refused.stderr
        forced = apply(plane, ours, "--force-conflicts")
        assert forced.returncode == 1 and "status.storedVersions" in forced.stderr
        operator = Operator(plane, tmp_path, "--no-enable-gang-scheduling").start()
        try:
            admin.create(TORCH)
            pod = "/api/v1/namespaces/default/pods/beside-master-0"
            wait_for("another kind runs", lambda: admin.ask("GET", pod)[0] == 200, 30)
            assert admin.request("GET", PATH) == old
            admin.request("DELETE", PATH)
            admin.request("DELETE", DEFINITION)
            wait_for("ours can be applied", lambda: apply(plane, ours).returncode == 0, 60)
        finally:
            operator.stop()
