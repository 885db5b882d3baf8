# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Jobs that cannot run as written, beside one that can: each is told why, and no other suffers."""

import asyncio
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.cli.files import Located
from ascendop.cli.house import House
from ascendop.cli.simulate import START, Scenario, _fates, _running
from ascendop.clock import simulated
from ascendop.kube.resource import EVENTS, PODS, Scope
from ascendop.reconciler.decide import decide
from ascendop.settings import Settings
from ascendop.sim.loop import JumpingLoop
from ascendop.sim.nodes import create_nodes, parse_nodes
from ascendop.sim.scheduler import Scheduler
from ascendop.sim.server import ApiServer
from ascendop.sim.staged import StagedNodes

from .. import make  # noqa: TID252  the standard library has a package called test

SETTINGS = Settings(leader_elect=False, rank_table_dir="", health_listen="", metrics_listen="")
LONG_S = 3600.0

ODD = {
    "no-framework": (
        {"framework": None},
        (
            "InvalidFramework: framework label is not set, please set label framework as one of "
            "<pytorch,mindspore,tensorflow>"
        ),
    ),
    "foreign-framework": (
        {"framework": "mempool"},
        (
            "InvalidFramework: framework label is mempool, please set label framework as one of "
            "<pytorch,mindspore,tensorflow>"
        ),
    ),
    "no-role": (
        {"spec": {"replicaSpecs": {}}},
        (
            "InvalidReplicaType: replicaType is not valid: there need 1 leader replicaType, "
            "Master for pytorch, Chief of tensorflow"
        ),
    ),
    "two-masters": (
        {"Master": 2, "Worker": 1},
        "InvalidReplicaSpec: Master replicaSpec is not valid, the replicas must be only 1",
    ),
    "foreign-role": (
        {"Master": 1, "Chief": 1},
        "InvalidReplicaType: replicaType is Chief but must be one of [Master Worker]",
    ),
    "no-container": (
        {"Master": make.replica(1, make.container("other"))},
        "InvalidContainer: Master replicaSpec is not valid: There is no container named ascend",
    ),
    "no-image": (
        {"Master": make.replica(1, image="")},
        (
            "InvalidContainer: Master replicaSpec is not valid: "
            "Image is undefined in the container of ascend"
        ),
    ),
    "odd-amount": (
        {"Master": make.replica(1, resources={"limits": {"cpu": "many"}})},
        (
            "InvalidTemplate: Master replicaSpec is not valid: template.spec.containers[ascend]."
            "resources.limits.cpu is 'many', no amount; write it like 8, 500m or 16Gi"
        ),
    ),
    "odd-shape": (
        {"Master": make.replica(1, env={"A": "b"})},
        (
            "InvalidTemplate: Master replicaSpec is not valid: template.spec.containers[0].env "
            "is a map; write a list"
        ),
    ),
    "odd-policy": (
        {"spec": {"successPolicy": "Most"}},
        'InvalidSuccessPolicy: job success policy is invalid, it must be one of <"", AllWorkers>',
    ),
    "1-digit-first": (
        {},
        (
            "InvalidName: '1-digit-first' cannot be a Service's name; "
            "use a-z 0-9 and - only, and begin with a letter"
        ),
    ),
    "several": (
        {
            "framework": "mempool",
            "labels": {"scaleout-type": "ib"},
            "spec": {"successPolicy": "Most"},
        },
        (
            "3 mistakes: InvalidSuccessPolicy: spec.successPolicy: job success policy is invalid, "
            'it must be one of <"", AllWorkers>; '
            "InvalidScaleOutConfig: metadata.labels.scaleout-type: the value of label "
            "scaleout-type is invalid, which should be ROCE or UBOE; "
            "InvalidFramework: metadata.labels.framework: framework label is mempool, "
            "please set label framework as one of <pytorch,mindspore,tensorflow>"
        ),
    ),
}
"""What is odd about each, and what its owner reads."""
REFUSED = make.job(
    name="refused", Master=make.replica(1, volumeMounts=[{"name": "gone", "mountPath": "/x"}])
)
"""Only the server knows that no pod can be made of it."""


def scenario():
    return Scenario(
        nodes=(parse_nodes("2x8 910B"),),
        seed=0,
        duration_s=600.0,
        until_s=3600.0,
        failures=(),
        chaos_percent=0,
        faults=0.0,
    )


class Told:
    """What there is to see when everything has come to rest."""

    def __init__(self, jobs, events, pods):
        self._jobs = {job["metadata"]["name"]: job for job in jobs}
        self._events = events
        self._pods = pods

    def condition(self, name):
        """The last one."""
        found = self._jobs[name]["status"]["conditions"][-1]
        return found["type"], found["reason"], found["message"]

    def warnings(self, name):
        """Reason and note of each."""
        return [
            (event["reason"], event["note"])
            for event in self._events
            if event["regarding"]["name"] == name and event["type"] == "Warning"
        ]

    def pods(self, name):
        return [pod for pod in self._pods if pod["metadata"]["name"].startswith(f"{name}-")]


async def lived(*jobs):
    """Apply the jobs, wait until the last has ended and nothing moves any more."""
    loop = asyncio.get_running_loop()
    wall = simulated(START, loop.time)
    server = ApiServer(wall=wall, rng=Random(0))
    server.admission.append(_fates(scenario(), Random(1)))
    house = House(server, rng=Random(2))
    await create_nodes(house.client, *scenario().nodes, wall=wall)
    async with house.operator(SETTINGS, wall) as operator:
        nodes = StagedNodes(house.client, wall=wall, rng=Random(3), sets=("", "finish"))
        async with _running(nodes, Scheduler(house.client, wall=wall)):
            await house.gangs_may_wait()
            await house.apply([Located(job, "jobs.yaml", 1) for job in jobs])
            await asyncio.sleep(LONG_S)
            found = [
                await house.client.get(resource, "default", job["metadata"]["name"])
                for resource, job in house.applied
            ]
            events = await house.client.list(EVENTS, Scope("default"))
            pods = await house.client.list(PODS, Scope("default"))
            assert not operator.queue.running()
    return Told(found, events, pods)


@pytest.fixture(scope="module")
def told():
    """A good job, a dozen odd ones and one that the server refuses, an hour of them."""
    odd = [make.job(name=name, **fields) for name, (fields, _) in ODD.items()]
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(lived(*odd, REFUSED, make.job(name="good")))


def test_the_good_job_runs_to_its_end(told):
    assert told.condition("good")[0] == "Succeeded"
    assert len(told.pods("good")) == 2
    assert told.warnings("good") == []


@pytest.mark.parametrize("name", ODD)
def test_an_odd_job_gets_one_condition_and_one_event_that_name_every_mistake(told, name):
    want = ODD[name][1]
    assert told.condition(name) == ("Failed", "JobValidFailed", want)
    ((reason, note),) = told.warnings(name)
    assert note == want.removeprefix(f"{reason}: ")
    assert told.pods(name) == []


def test_what_only_the_server_can_refuse_is_told_in_its_own_words(told):
    said = 'Pod "refused-master-0" is invalid: spec.containers[0].volumeMounts[0].name: Not found:'
    type_, reason, message = told.condition("refused")
    assert (type_, reason) == ("Created", "PodCreateFailed")
    assert message.startswith(f"failed to create pods of type<Master>: {said}")
    notes = dict(told.warnings("refused"))
    assert notes.keys() <= {"FailedCreatePod", "Unschedulable"}  # others came before it
    assert notes["FailedCreatePod"].startswith(f"Error creating: {said}")


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(
            make.job() | {"spec": None},
            "InvalidSpecs: spec: is missing; write the spec of the AscendJob",
            id="no spec",
        ),
        pytest.param(
            make.job(Master=make.replica("one")),
            "InvalidSpecs: spec.replicaSpecs.Master.replicas: Input should be a valid integer",
            id="a word for a number",
        ),
        pytest.param(
            make.torch_job(Master=2),
            "spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1",
            id="another kind",
        ),
    ],
)
def test_a_single_mistake_without_words_of_the_contract_is_told_with_its_path(obj, want):
    """An older CRD in the cluster lets through what ours refuses."""
    conclusion = make.concluded(decide(make.snapshot(obj)))
    (event,) = conclusion.events
    assert want in conclusion.status["conditions"][-1]["message"]
    assert want.partition(": ")[2] in event.note
