# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What we would make, against what the original operator made for the same jobs on a real server.

The recordings are data of test/e2e; here only the objects that a new job gets are compared, pure.
Every difference that is meant stands in DIFFERS, with the finding that it mends.
"""

import copy
import io
from pathlib import Path

import pytest
import yaml

from ascendop.cli.files import load_objects
from ascendop.cli.render import Rendering
from ascendop.kinds import load_kinds
from ascendop.kube.quantity import Quantity
from hack.replay.normal import changes, without_pod_defaults

RECORDED = Path(__file__).parents[2] / "e2e" / "recorded"
CASES = [
    f"ascendjob/{path.name.removesuffix('.job.yaml')}"
    for number in (*range(1, 16), 32, 33, 35)
    for path in RECORDED.glob(f"ascendjob/{number:02}-*.job.yaml")
]
TORCH_CASES = [
    f"pytorchjob/{path.name.removesuffix('.job.yaml')}"
    for number in (1, 2, *range(4, 10), 11, 16, 17)
    for path in RECORDED.glob(f"pytorchjob/{number:02}-*.job.yaml")
]
"""Not those with an elastic policy, of which only the schema is here."""
GANGS = {
    *(case for case in CASES if not case.endswith("gang-off")),
    "pytorchjob/02-sample-torchrun-npu-gang",
}

ADDED = {
    "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE",
    "MS_TOPO_TIMEOUT", "MS_NODE_ID",
}  # fmt: skip
"""Variables after those of the contract: what frameworks.md 11 found missing."""

RECOVERY = {
    "ELASTIC_PROCESS_RECOVER_ENABLE", "ENABLE_RESTART_FAULT_PROCESS", "HCCL_ASYNC_ERROR_HANDLING",
    "HIGH_AVAILABILITY", "MINDIO_FOR_MINDSPORE", "MS_ENABLE_TFT", "MS_ENABLE_THM",
    "PROCESS_RECOVER",
}  # fmt: skip
"""Appended by the original in the order of a map, by us in that of the alphabet (5.8)."""

VISIBLE = {
    "name": "ASCEND_VISIBLE_DEVICES",
    "valueFrom": {
        "fieldRef": {
            "apiVersion": "v1",
            "fieldPath": "metadata.annotations['huawei.com/Ascend910']",
        }
    },
}


def env_of(obj):
    return obj["spec"]["containers"][0]["env"]


def sees_its_devices(obj):
    """W-23: cpu among the requests hides the NPUs from the original; no docs ask for that."""
    env = env_of(obj)
    env.insert(next(i for i, e in enumerate(env) if e["name"] == "MINDX_TASK_ID"), VISIBLE)


def has_trimmed_words(obj):
    """E11, 5.8 a: a blank before a word of recover-strategy does not unmake the word."""
    for entry in env_of(obj):
        if entry["name"] == "HIGH_AVAILABILITY":
            entry["value"] = "elastic-training,recover"


def sees_and_has_trimmed_words(obj):
    sees_its_devices(obj)
    has_trimmed_words(obj)


def has_a_rank_of_its_own(obj):
    """W-24: with a Master without NPUs, the original gives it and the first Worker one RANK."""
    for entry in env_of(obj):
        if entry["name"] == "RANK":
            entry["value"] = str(int(entry["value"]) + 1)


def trains_by_its_limits(obj):
    """W-23, 5.10: limits stand for absent requests, as in every pod."""
    sees_its_devices(obj)
    env = env_of(obj)
    at = next(i for i, e in enumerate(env) if e["name"] == "REPLICA_TYPE")
    env.insert(at, {"name": "HCCL_LOGIC_SUPERPOD_ID", "value": "0"})
    env += [
        {"name": "LOCAL_WORLD_SIZE", "value": "8"},
        {"name": "WORLD_SIZE", "value": "8"},
        {"name": "LOCAL_RANK", "value": "0,1,2,3,4,5,6,7"},
        {"name": "MASTER_ADDR", "value": "CLUSTER_IP(lim-master-0)"},
        {"name": "MASTER_PORT", "value": "2222"},
        {"name": "RANK", "value": "0"},
    ]


DIFFERS = {
    "ascendjob/11-mindspore-npu-scheduler-recover": {
        "msr-scheduler-0": sees_its_devices,
        "msr-worker-0": sees_its_devices,
        "msr-worker-1": sees_its_devices,
    },
    "ascendjob/13-hostnetwork-recover-in-place": {
        "hnet-master-0": sees_and_has_trimmed_words,
        "hnet-worker-0": has_trimmed_words,
    },
    "ascendjob/14-cpu-master-npu-worker": {
        "cpum-worker-0": has_a_rank_of_its_own,
        "cpum-worker-1": has_a_rank_of_its_own,
    },
    "ascendjob/15-limits-only": {"lim-master-0": trains_by_its_limits},
    "ascendjob/32-queue-policy-minavailable": {
        "qp-master-0": sees_its_devices,
        "qp-worker-0": sees_its_devices,
        "qp-worker-1": sees_its_devices,
        "qp-worker-2": sees_its_devices,
    },
}
"""Our meant differences, by name of the object; a Service shares its pod's name and is equal."""


def rendered(case):
    rendering = Rendering(
        load_kinds(),
        namespace="NS",
        gang=case in GANGS,
        clusterd="CLUSTER_IP(mindx-dl/clusterd-grpc-svc)",
    )
    made = rendering.objects(load_objects([str(RECORDED / f"{case}.job.yaml")], io.StringIO()))
    return {identity(obj): as_recorded(obj) for obj in made}


def recorded(case):
    """The objects of all entries until pods are there."""
    want = yaml.safe_load((RECORDED / f"{case}.want.yaml").read_text())
    found = {}
    for entry in [want["created"], *want["steps"]]:
        for obj in [*entry.get("objects", ()), *entry.get("added", ())]:
            if obj["kind"] != "ConfigMap":  # the user's own
                found[identity(obj)] = as_compared(obj)
        if any(kind == "Pod" for kind, _ in found):
            break
    return found


def identity(obj):
    return obj["kind"], obj["metadata"]["name"]


def as_recorded(obj):
    """The object as a server would store it and the recorder write it down."""
    obj = copy.deepcopy(obj)
    obj["metadata"].pop("namespace")
    obj["metadata"]["ownerReferences"][0]["uid"] = "OWNER"
    {"PodGroup": group_stored, "Service": service_stored, "Pod": pod_stored}[obj["kind"]](obj)
    return as_compared(obj)


def group_stored(group):
    group["spec"].setdefault("queue", "default")


def service_stored(service):
    name = service["metadata"]["name"]
    service["spec"] = {"clusterIP": f"CLUSTER_IP({name})", "type": "ClusterIP"} | service["spec"]
    for port in service["spec"]["ports"]:
        port["targetPort"] = port["port"]


def pod_stored(pod):
    spec = pod["spec"]
    for container in spec["containers"]:
        container_stored(container, host_network=spec.get("hostNetwork", False))
    for volume in spec.get("volumes", ()):
        for source, filled in (("hostPath", {"type": ""}), ("configMap", {"defaultMode": 420})):
            if source in volume:
                volume[source] = filled | volume[source]
    without_pod_defaults(spec)


def container_stored(container, *, host_network):
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port["containerPort"])
    for entry in container.get("env", ()):
        if "fieldRef" in entry.get("valueFrom", {}):
            entry["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
    resources = container.get("resources", {})
    if "limits" in resources:
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    for amounts in resources.values():
        amounts |= {name: str(Quantity.parse(amount)) for name, amount in amounts.items()}


def as_compared(obj):
    """Without our additions, and without orders that are no contract."""
    obj = copy.deepcopy(obj)
    obj.pop("status", None)
    spec = obj["spec"]
    if obj["kind"] == "Service":
        spec["ports"].sort(key=lambda port: port["name"])
    for waiting in spec.get("initContainers", ()):
        if waiting["name"] == "init-pytorch":
            # Ours asks the hosts file before DNS: where there is no DNS, there are still names.
            waiting["command"] = [*waiting["command"][:-1], "until the master's name resolves"]
    for container in spec.get("containers", ()) if obj["kind"] == "Pod" else ():
        added = ADDED if container["name"] == "ascend" else set()  # PyTorchJob's contract has them
        env = [entry for entry in container.get("env", ()) if entry["name"] not in added]
        ours = sorted((e for e in env if e["name"] in RECOVERY), key=lambda e: e["name"])
        container["env"] = [e for e in env if e["name"] not in RECOVERY] + ours
        if not container["env"]:
            del container["env"]
    return obj


@pytest.mark.parametrize("case", CASES + TORCH_CASES)
def test_a_new_job_gets_the_objects_of_the_recording(case):
    """The samples and more: PodGroups, Services and pods.

    ascendjob:P1, ascendjob:P2, ascendjob:P3, ascendjob:P5, ascendjob:P6, ascendjob:D1,
    ascendjob:D2, ascendjob:D3, ascendjob:D4, ascendjob:D8, ascendjob:D9, ascendjob:E1,
    ascendjob:E2, ascendjob:E3, ascendjob:E4, ascendjob:E6, ascendjob:E7, ascendjob:E11,
    ascendjob:E16, ascendjob:E17, ascendjob:E20.
    """
    got, want = rendered(case), recorded(case)
    for kind, name in want:
        if kind != "Service" and name in DIFFERS.get(case, {}):
            DIFFERS[case][name](want[kind, name])
    assert sorted(got) == sorted(want)
    assert {key: changes(want[key], got[key]) for key in want if want[key] != got[key]} == {}


@pytest.mark.parametrize("case", CASES)
def test_what_we_add_to_the_environment_comes_after_the_contract(case):
    rendering = Rendering(load_kinds())
    found = load_objects([str(RECORDED / f"{case}.job.yaml")], io.StringIO())
    for obj in rendering.objects(found):
        for container in obj["spec"].get("containers", ()) if obj["kind"] == "Pod" else ():
            added = [entry["name"] in ADDED for entry in container.get("env", ())]
            assert added == sorted(added)
