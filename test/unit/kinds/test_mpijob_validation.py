# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is said of an MPIJob that cannot run as written: order and words of mpijob.md 2."""

import pytest

from ascendop.builder.mpi_rules import mpi_problems

from .. import launched as mpi  # noqa: TID252  the standard library has a package called test
from .. import make  # noqa: TID252  likewise

LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
POLICIES = 'supported values: "Never", "OnFailure"'
NO_CONTAINER = "Required value: must define at least one container"


def told(obj, **fields):
    """The one Event; nothing else happens."""
    plan, found = mpi.decided(mpi.seen(obj, shared={}, **fields))
    assert make.writes(plan) == [] and found.status == fields.get("status", {})
    ((type_, reason, text),) = mpi.told(found)
    assert (type_, reason) == ("Warning", "ValidationError")
    return text.removeprefix("Found validation errors: ")


def valid(obj):
    return make.writes(mpi.decided(mpi.seen(obj, shared={}))[0]) != []


def test_c02_a_worker_entry_without_a_number_has_none():
    worker = {"template": mpi.template(), "replicas": None}
    text = told(mpi.job(workers=1, worker=worker))
    path = "spec.mpiReplicaSpecs[Worker].replicas"
    assert text == f"{path}: Invalid value: 0: must be greater than or equal to 1"


@pytest.mark.parametrize("spec", [None, {}])
def test_c04_an_object_with_only_a_name(spec):
    obj = mpi.job()
    obj["spec"] = spec
    assert told(obj) == "spec.mpiReplicaSpecs: Required value: must have replica specs"


def test_c05_a_name_that_is_no_host_name():
    text = (
        'metadata.name: Invalid value: "1-foo": will not able to create pod and service with '
        f'invalid DNS label "1-foo-worker-0": {LABEL_RULE}'
    )
    assert told(mpi.job("1-foo", 1)) == text


def test_c06_the_name_has_room_for_the_last_worker():
    """field-reports:FR-022"""
    name = "n" * 54
    assert valid(mpi.job(name, 10))
    assert told(mpi.job(name, 11)).endswith(
        f'"{name}-worker-10": must be no more than 63 characters'
    )


def test_c07_many_mistakes_in_their_order():
    name = "this-name-is-waaaaaaaay-too-long-for-a-worker-hostname"
    policy = {
        "cleanPodPolicy": "unknown",
        "ttlSecondsAfterFinished": -1,
        "activeDeadlineSeconds": -1,
        "backoffLimit": -1,
    }
    obj = mpi.job(name, 1000, policy=policy, mpiImplementation="Unknown")
    found = mpi.seen(obj).job.problems
    assert [(p.path, p.what.partition(":")[0]) for p in found] == [
        ("metadata.name", "Invalid value"),
        ("spec.runPolicy.cleanPodPolicy", "Unsupported value"),
        ("spec.runPolicy.ttlSecondsAfterFinished", "Invalid value"),
        ("spec.runPolicy.activeDeadlineSeconds", "Invalid value"),
        ("spec.runPolicy.backoffLimit", "Invalid value"),
        ("spec.mpiImplementation", "Unsupported value"),
    ]
    assert found[-1].what == (
        'Unsupported value: "Unknown": supported values: "Intel", "MPICH", "OpenMPI"'
    )
    text = told(obj)
    assert text.startswith("[metadata.name: ") and ", spec.runPolicy.cleanPodPolicy: " in text


def test_c08_no_replica_at_all():
    obj = mpi.job()
    obj["spec"]["mpiReplicaSpecs"] = {}
    path = "spec.mpiReplicaSpecs[Launcher]"
    assert told(obj) == f"{path}: Required value: must have Launcher replica spec"


def test_c09_counts_and_policies():
    wrong = {"template": mpi.template(), "restartPolicy": "Always", "replicas": 2}
    obj = mpi.job(
        workers=0,
        launcher=wrong,
        worker={"template": mpi.template(), "restartPolicy": "Invalid"},
    )
    launcher, worker = (f"spec.mpiReplicaSpecs[{role}]" for role in ("Launcher", "Worker"))
    assert told(obj) == (
        f'[{launcher}.restartPolicy: Unsupported value: "Always": {POLICIES}, '
        f"{launcher}.replicas: Invalid value: 2: must be 1, "
        f'{worker}.restartPolicy: Unsupported value: "Invalid": {POLICIES}, '
        f"{worker}.replicas: Invalid value: 0: must be greater than or equal to 1]"
    )


@pytest.mark.parametrize("template", [{}, {"spec": {"containers": []}}])
def test_c10_a_template_without_containers(template):
    text = told(mpi.job(launcher={"template": template}))
    assert text == f"spec.mpiReplicaSpecs[Launcher].template.spec.containers: {NO_CONTAINER}"


def test_c11_slots():
    text = "spec.slotsPerWorker: Invalid value: -1: must be greater than or equal to 0"
    assert told(mpi.job(slotsPerWorker=-1)) == text
    plan, _ = mpi.decided(mpi.seen(mpi.job(workers=1, slotsPerWorker=0), shared={}))
    (config,) = [w.object for w in make.writes(plan) if w.name == "foo-config"]
    assert config["data"]["hostfile"].endswith(" slots=0\n")


def test_w19_a_policy_that_nobody_knows():
    """mpijob:W-19: a typing mistake is no wish to wait."""
    assert told(mpi.job(launcherCreationPolicy="AtStart")) == (
        'spec.launcherCreationPolicy: Unsupported value: "AtStart": '
        'supported values: "AtStartup", "WaitForWorkersReady"'
    )


@pytest.mark.parametrize("role", ["launcher", "worker"])
@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"volumes": [{"name": "ssh-auth"}]}, "volumes[ssh-auth]"),
        ({"mount": "/root/.ssh/"}, "containers[0].volumeMounts"),
    ],
)
def test_w12_what_is_in_the_way_of_ours_is_told_at_once(role, spec, where):
    """mpijob:W-12"""
    mounts = [{"name": "v", "mountPath": spec["mount"]}] if "mount" in spec else []
    more = {key: value for key, value in spec.items() if key != "mount"}
    found = {"template": mpi.template({**mpi.PLAIN, "volumeMounts": mounts}, **more)}
    text = told(mpi.job(workers=1, **{role: found}))
    assert text.startswith(f"spec.mpiReplicaSpecs[{role.title()}].template.spec.{where}: Invalid")


def test_w12_only_the_launcher_has_the_host_file():
    """mpijob:W-12"""
    mounted = {**mpi.PLAIN, "volumeMounts": [{"name": "v", "mountPath": "/etc/mpi"}]}
    found = {"template": mpi.template(mounted)}
    assert valid(mpi.job(workers=1, worker=found))
    assert "/etc/mpi" in told(mpi.job(workers=1, launcher=found))


def test_c65_w29_other_keys_mean_nothing():
    """mpijob:W-29: the original dies of it where gangs are on."""
    obj = mpi.job(workers=1)
    obj["spec"]["mpiReplicaSpecs"]["Master"] = {"template": mpi.template()}
    found = mpi.seen(obj, shared={}, place=mpi.replace(mpi.NOWHERE, gang="volcano"))
    plan, _ = mpi.decided(found)
    (group,) = [w.object for w in make.writes(plan) if w.object["kind"] == "PodGroup"]
    assert group["spec"]["minMember"] == 2


def test_w41_a_long_text_ends_between_two_letters():
    """mpijob:W-41"""
    text = told(mpi.job(workers=1, mpiImplementation="ü" * 600))
    whole = f"Found validation errors: {text}"
    assert len(whole.encode()) in {1023, 1024} and whole.endswith("ü...")


def test_w34_a_job_whose_launcher_has_ended_ends_however_wrong_it_is_by_now():
    """mpijob:W-34"""
    obj = mpi.job("n" * 54, 11)
    status = {"conditions": [created("n" * 54)]}
    done = mpi.launcher("n" * 54, end="Complete", ended="2026-01-02T03:04:04Z")
    plan, found = mpi.decided(mpi.seen(obj, shared={}, job=done, status=status))
    assert make.writes(plan) == []
    assert ("Succeeded", "True", "MPIJobSucceeded") in mpi.conditions(found)
    assert found.status["completionTime"] == "2026-01-02T03:04:04Z"


def created(name):
    time = "2026-01-02T03:04:00Z"
    return {
        "type": "Created",
        "status": "True",
        "reason": "MPIJobCreated",
        "message": f"MPIJob bar/{name} is created.",
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }


def test_a_mistake_is_told_once():
    """Rules that say the same of the same place are one."""
    row = make.row(mpi.job("1", 1))
    spec = mpi.KIND.spec.model_validate({"mpiReplicaSpecs": None})
    assert len(mpi_problems(row, spec, {})) == len(set(mpi_problems(row, spec, {})))
