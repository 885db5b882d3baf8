# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is made of an MPIJob, object by object. The fixture of mpijob.md 13 and 14."""

import copy

import pytest

from ascendop.api.launch import NOWHERE, Place, Seen
from ascendop.kube.resource import BATCH_JOBS, PODS

from .. import launched as mpi  # noqa: TID252  the standard library has a package called test
from .. import make  # noqa: TID252  likewise

STRICT = Place(strict=True)
OWNER = {
    "apiVersion": "kubeflow.org/v2beta1",
    "kind": "MPIJob",
    "name": "foo",
    "uid": "U",
    "controller": True,
    "blockOwnerDeletion": True,
}
KEYS = {
    "name": "ssh-auth",
    "secret": {
        "secretName": "foo-ssh",
        "defaultMode": 384,
        "items": [
            {"key": "ssh-privatekey", "path": "id_rsa"},
            {"key": "ssh-publickey", "path": "id_rsa.pub"},
            {"key": "ssh-publickey", "path": "authorized_keys"},
        ],
    },
}
MOUNT = {"name": "ssh-auth", "mountPath": "/root/.ssh"}
LABELS = {
    "training.kubeflow.org/operator-name": "mpi-operator",
    "training.kubeflow.org/job-name": "foo",
}
WORKER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "foo-worker-0",
        "namespace": "bar",
        "labels": {
            **LABELS,
            "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/replica-index": "0",
        },
        "ownerReferences": [OWNER],
    },
    "spec": {
        "hostname": "foo-worker-0",
        "subdomain": "foo",
        "restartPolicy": "Never",
        "dnsConfig": {"searches": ["foo.bar.svc.cluster.local"]},
        "containers": [
            {
                **mpi.PLAIN,
                "command": ["/usr/sbin/sshd", "-De"],
                "env": [{"name": "K_MPI_JOB_ROLE", "value": "worker"}],
                "volumeMounts": [MOUNT],
            }
        ],
        "volumes": [KEYS],
    },
}
PEERS = [
    {"name": "OMPI_MCA_orte_keep_fqdn_hostnames", "value": "true"},
    {"name": "OMPI_MCA_orte_default_hostfile", "value": "/etc/mpi/hostfile"},
    {"name": "OMPI_MCA_plm_rsh_args", "value": "-o ConnectionAttempts=10"},
    {"name": "OMPI_MCA_orte_set_default_slots", "value": "1"},
]
NVIDIA = [{"name": "NVIDIA_VISIBLE_DEVICES"}, {"name": "NVIDIA_DRIVER_CAPABILITIES"}]
LAUNCHER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "foo-launcher",
        "namespace": "bar",
        "labels": {"app": "foo"},
        "ownerReferences": [OWNER],
    },
    "spec": {
        "podReplacementPolicy": "Failed",
        "template": {
            "metadata": {
                "labels": {**LABELS, "training.kubeflow.org/job-role": "launcher"},
                "ownerReferences": [OWNER],
            },
            "spec": {
                "hostname": "foo-launcher",
                "subdomain": "foo",
                "restartPolicy": "OnFailure",
                "containers": [
                    {
                        **mpi.PLAIN,
                        "env": [{"name": "K_MPI_JOB_ROLE", "value": "launcher"}, *PEERS, *NVIDIA],
                        "volumeMounts": [
                            MOUNT,
                            {"name": "mpi-job-config", "mountPath": "/etc/mpi"},
                        ],
                    }
                ],
                "volumes": [
                    KEYS,
                    {
                        "name": "mpi-job-config",
                        "configMap": {
                            "name": "foo-config",
                            "items": [
                                {"key": "hostfile", "path": "hostfile", "mode": 292},
                                {
                                    "key": "discover_hosts.sh",
                                    "path": "discover_hosts.sh",
                                    "mode": 365,
                                },
                            ],
                        },
                    },
                ],
            },
        },
    },
}


def objects(obj, place=NOWHERE, pods=()):
    """Everything that a new job gets, by name."""
    plan, _ = mpi.decided(mpi.seen(obj, *pods, shared={}, place=place))
    return {w.name: w.object for w in make.writes(plan, mpi.Create)}


def launcher_of(obj, place=NOWHERE):
    (found,) = [o for o in objects(obj, place).values() if o["kind"] == "Job"]
    return found


def pod_spec(job):
    return job["spec"]["template"]["spec"]


def names(found):
    return [e["name"] for e in found["containers"][0]["env"]]


def hosts(obj, place=NOWHERE):
    name = obj["metadata"]["name"]
    return objects(obj, place)[f"{name}-config"]["data"]["hostfile"]


def test_c24_golden_worker_and_launcher():
    """field-reports:FR-039 mpijob:14.1: with strict parity exactly the original's."""
    found = objects(mpi.job(workers=1), STRICT)
    assert found["foo-worker-0"] == WORKER
    assert found["foo-launcher"] == LAUNCHER


def test_w47_pods_on_the_network_of_their_node_get_one_each():
    """mpijob:W-47: on one and the same their sshd would want the same port."""
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    theirs = {"labelSelector": {}, "topologyKey": "rack"}
    on_host = mpi.template(hostNetwork=True, affinity={"podAntiAffinity": {rule: [theirs]}})
    obj = mpi.job(workers=1, worker={"template": on_host})
    found = objects(obj, Place(apart_on_host_network=True))
    ours = {
        "labelSelector": {"matchLabels": LABELS},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = found["foo-worker-0"]["spec"]["affinity"]
    assert affinity == {"podAntiAffinity": {rule: [theirs, ours]}}
    assert "affinity" not in found["foo-launcher"]["spec"]["template"]["spec"]
    plain = objects(obj, NOWHERE)["foo-worker-0"]["spec"]["affinity"]
    assert plain == {"podAntiAffinity": {rule: [theirs]}}


def test_c24_golden_shared_objects():
    found = objects(mpi.job(workers=1), STRICT)
    meta = {"namespace": "bar", "labels": {"app": "foo"}, "ownerReferences": [OWNER]}
    assert found["foo"] == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "foo", **meta},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": False, "selector": LABELS},
    }
    assert found["foo-config"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "foo-config", **meta},
        "data": {
            "hostfile": "foo-worker-0.foo.bar.svc slots=1\n",
            "discover_hosts.sh": "#!/bin/sh\n",
        },
    }
    assert found["foo-ssh"] == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "foo-ssh", **meta},
        "type": "kubernetes.io/ssh-auth",
    }


def test_c01_a_launcher_alone():
    found = objects(mpi.job())
    assert list(found) == ["foo", "foo-config", "foo-ssh", "foo-launcher"]
    assert found["foo-config"]["data"] == {"hostfile": "", "discover_hosts.sh": "#!/bin/sh\n"}


@pytest.mark.parametrize("implementation", ["OpenMPI", "Intel", "MPICH"])
def test_c03_what_is_made_and_in_which_order(implementation):
    plan, found = mpi.decided(
        mpi.seen(mpi.job(workers=5, mpiImplementation=implementation), shared={})
    )
    assert [name for _, name in mpi.made(plan)] == [
        "foo",
        "foo-config",
        "foo-ssh",
        *(f"foo-worker-{i}" for i in range(5)),
        "foo-launcher",
    ]
    assert mpi.conditions(found) == [("Created", "True", "MPIJobCreated")]
    assert found.status["replicaStatuses"] == {"Launcher": {}, "Worker": {}}


def test_c25_everything_at_once():
    """Intel, other paths, host network, the user's own environment, volume and container."""
    other = {"name": "side", "image": "s"}
    volume = {"name": "foo-vol", "emptyDir": {}}
    main = {**mpi.PLAIN, "env": [{"name": "FOO", "value": "bar"}]}
    obj = mpi.job(
        "bar",
        13,
        mpiImplementation="Intel",
        slotsPerWorker=5,
        sshAuthMountPath="/home/mpiuser/.ssh",
        policy={"ttlSecondsAfterFinished": 1, "activeDeadlineSeconds": 2, "backoffLimit": 3},
        launcher={
            "template": mpi.template(
                main, other, metadata={"labels": {"foo": "bar"}}, hostNetwork=True, volumes=[volume]
            )
        },
        worker={
            "template": mpi.template({**main, "command": ["/entrypoint.sh"]}, hostNetwork=True)
        },
    )
    before = copy.deepcopy(obj)
    found = objects(obj)
    job = found["bar-launcher"]
    assert {k: job["spec"][k] for k in sorted(job["spec"]) if k != "template"} == {
        "activeDeadlineSeconds": 2,
        "backoffLimit": 3,
        "podReplacementPolicy": "Failed",
        "ttlSecondsAfterFinished": 1,
    }
    spec = pod_spec(job)
    assert spec["containers"][0]["env"] == [
        {"name": "FOO", "value": "bar"},
        {"name": "K_MPI_JOB_ROLE", "value": "launcher"},
        {"name": "I_MPI_HYDRA_HOST_FILE", "value": "/etc/mpi/hostfile"},
        {"name": "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "value": "-o ConnectionAttempts=10"},
        {"name": "I_MPI_PERHOST", "value": "5"},
        *NVIDIA,
    ]
    assert spec["containers"][1] == other
    assert [v["name"] for v in spec["volumes"]] == ["foo-vol", "ssh-auth", "mpi-job-config"]
    assert "defaultMode" not in spec["volumes"][1]["secret"]
    assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert job["spec"]["template"]["metadata"]["labels"]["foo"] == "bar"
    worker = found["bar-worker-12"]
    assert worker["spec"]["hostname"] == "bar-worker-12"
    assert worker["spec"]["containers"][0]["command"] == ["/entrypoint.sh"]
    assert names(worker["spec"]) == ["FOO", "K_MPI_JOB_ROLE"]
    assert worker["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert worker["spec"]["dnsConfig"]["searches"] == ["bar.bar.svc.cluster.local"]
    assert worker["metadata"]["labels"]["training.kubeflow.org/replica-index"] == "12"
    assert obj == before, "templates are shared by all passes"


def test_c26_arguments_alone_are_the_entry_points():
    worker = {"template": mpi.template({**mpi.PLAIN, "args": ["sshd"]})}
    main = objects(mpi.job(workers=1, worker=worker))["foo-worker-0"]["spec"]["containers"][0]
    assert "command" not in main and main["args"] == ["sshd"]


PRTE = [
    "PRTE_MCA_prte_default_hostfile",
    "PRTE_MCA_plm_ssh_args",
    "PRTE_MCA_prte_set_default_slots",
    "PRTE_MCA_prte_keep_fqdn_hostnames",
]


def test_c27_open_mpi_of_both_ages_reads_the_host_file():
    """mpijob:W-11: without strict parity release 5 is told, too; what the template says counts."""
    mine = {"name": "PRTE_MCA_plm_ssh_args", "value": "mine"}
    launcher = {"template": mpi.template({**mpi.PLAIN, "env": [mine]})}
    obj = mpi.job(workers=1, slotsPerWorker=3, launcher=launcher)
    found = pod_spec(launcher_of(obj))
    peers = [entry["name"] for entry in PEERS]
    nvidia = [entry["name"] for entry in NVIDIA]
    newer = [name for name in PRTE if name != mine["name"]]
    assert names(found) == [mine["name"], "K_MPI_JOB_ROLE", *peers, *newer, *nvidia]
    env = {e["name"]: e.get("value") for e in found["containers"][0]["env"]}
    assert env["OMPI_MCA_orte_set_default_slots"] == "3"
    assert env["PRTE_MCA_prte_set_default_slots"] == "3"
    assert env["PRTE_MCA_prte_keep_fqdn_hostnames"] == "false"
    assert env[mine["name"]] == "mine"
    strict = pod_spec(launcher_of(obj, STRICT))
    assert names(strict) == [mine["name"], "K_MPI_JOB_ROLE", *peers, *nvidia]


def test_c28_mpich_gets_the_name_that_its_launcher_reads():
    """mpijob:W-20"""
    obj = mpi.job(workers=1, slotsPerWorker=3, mpiImplementation="MPICH")
    strict = ["K_MPI_JOB_ROLE", "HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS"]
    nvidia = [entry["name"] for entry in NVIDIA]
    assert names(pod_spec(launcher_of(obj))) == [*strict, "HYDRA_LAUNCHER_EXTRA_ARGS", *nvidia]
    assert names(pod_spec(launcher_of(obj, STRICT))) == [*strict, *nvidia]


def test_c29_the_operators_entry_of_a_name_is_the_last():
    mine = {"name": "OMPI_MCA_plm_rsh_args", "value": "x"}
    launcher = {"template": mpi.template({**mpi.PLAIN, "env": [mine]})}
    env = pod_spec(launcher_of(mpi.job(launcher=launcher)))["containers"][0]["env"]
    found = [e["value"] for e in env if e["name"] == mine["name"]]
    assert found == ["x", "-o ConnectionAttempts=10"]


def test_c30_the_policy_of_the_replica_counts():
    template = {"template": mpi.template(restartPolicy="Always"), "restartPolicy": "Never"}
    plan, found = mpi.decided(
        mpi.seen(mpi.job(workers=2, launcher=template, worker=template), shared={})
    )
    pods = make.created(plan, PODS).values()
    assert {pod["spec"]["restartPolicy"] for pod in pods} == {"Never"}
    (job,) = make.created(plan, BATCH_JOBS).values()
    assert pod_spec(job)["restartPolicy"] == "Never"
    assert [text for text in mpi.told(found) if text[0] == "Warning"] == [
        (
            "Warning",
            "SetPodTemplateRestartPolicy",
            "Restart policy in pod template overridden by restart policy in replica spec",
        )
    ]


def test_c31_the_cluster_domain_ends_every_name():
    """field-reports:FR-040 mpijob:W-18: the search list, too, but for strict parity."""
    place = Place(domain="corp.example")
    obj = mpi.job(workers=1)
    assert hosts(obj, place) == "foo-worker-0.foo.bar.svc.corp.example slots=1\n"
    found = objects(obj, place, (mpi.pod(5),))
    worker = found["foo-worker-0"]["spec"]["dnsConfig"]["searches"]
    assert worker == ["foo.bar.svc.corp.example"]
    strict = objects(obj, Place("corp.example", strict=True))
    assert strict["foo-worker-0"]["spec"]["dnsConfig"]["searches"] == ["foo.bar.svc.cluster.local"]


def test_c32_a_launcher_that_works_is_the_first_host():
    """field-reports:FR-036"""
    obj = mpi.job("openmpi-without-slots", 2, runLauncherAsWorker=True)
    found = objects(obj)
    hosted = "openmpi-without-slots.bar.svc slots=1\n"
    assert found["openmpi-without-slots-config"]["data"]["hostfile"] == (
        f"openmpi-without-slots-launcher.{hosted}"
        f"openmpi-without-slots-worker-0.{hosted}"
        f"openmpi-without-slots-worker-1.{hosted}"
    )
    assert found["openmpi-without-slots"]["spec"]["publishNotReadyAddresses"] is True
    index = "training.kubeflow.org/replica-index"
    job = found["openmpi-without-slots-launcher"]
    assert job["spec"]["template"]["metadata"]["labels"][index] == "0"
    workers = [f"openmpi-without-slots-worker-{i}" for i in (0, 1)]
    assert [found[name]["metadata"]["labels"][index] for name in workers] == ["1", "2"]
    assert not {e["name"] for e in NVIDIA} & set(names(pod_spec(job)))


def test_c33_a_launcher_that_works_alone():
    assert hosts(mpi.job(runLauncherAsWorker=True)) == "foo-launcher.foo.bar.svc slots=1\n"


@pytest.mark.parametrize("implementation", ["Intel", "MPICH"])
def test_c34_host_lines_of_the_other_implementations(implementation):
    """field-reports:FR-040"""
    obj = mpi.job("mpi-with-slots", 1, mpiImplementation=implementation, slotsPerWorker=10)
    assert hosts(obj) == "mpi-with-slots-worker-0.mpi-with-slots.bar.svc:10\n"
    obj = mpi.job("mpi", 1, mpiImplementation=implementation)
    assert hosts(obj, Place("cluster.local")) == "mpi-worker-0.mpi.bar.svc.cluster.local:1\n"


def script(obj, *running, place=NOWHERE):
    (found,) = [
        shared.object
        for shared in mpi.KIND.launch.shared(mpi.seen(obj).job, place, Seen(tuple(running)))
        if shared.object["kind"] == "ConfigMap"
    ]
    return found["data"]["discover_hosts.sh"]


def test_the_script_can_say_slots_and_count_by_number():
    """field-reports:FR-054: as elastic Horovod reads it."""
    obj = mpi.job("j", 12, slotsPerWorker=2, runLauncherAsWorker=True)
    running = sorted(f"j-worker-{i}" for i in range(12) if i != 3)
    assert running[1:3] == ["j-worker-1", "j-worker-10"]  # as the original has them
    hosts = ["j-launcher", *(f"j-worker-{i}" for i in range(12) if i != 3)]
    want = "".join(f"echo {name}.j.bar.svc:2\n" for name in hosts)
    assert script(obj, *running, place=Place(discovers_slots=True)) == f"#!/bin/sh\n{want}"


def test_c35_the_script_names_who_runs():
    obj = mpi.job("test-job", 3)
    line = "echo test-job-{}.test-job.bar.svc\n".format
    running = [f"test-job-worker-{i}" for i in range(3)]
    assert script(obj, *running) == "#!/bin/sh\n" + "".join(line(f"worker-{i}") for i in range(3))
    obj = mpi.job("test-job", 3, runLauncherAsWorker=True)
    assert script(obj, running[0]) == "#!/bin/sh\n" + line("launcher") + line("worker-0")


def test_c36_the_script_is_in_order_of_names_and_the_host_file_in_order_of_numbers():
    obj = mpi.job(workers=12)
    plan, _ = mpi.decided(mpi.seen(obj, *(mpi.pod(i) for i in range(12)), shared={}))
    (config,) = [w.object for w in make.writes(plan) if w.name == "foo-config"]
    lines = config["data"]["discover_hosts.sh"].splitlines()[1:]
    numbers = [int(line.split(".")[0].rsplit("-", 1)[1]) for line in lines]
    assert numbers == [0, 1, 10, 11, *range(2, 10)]
    lines = config["data"]["hostfile"].splitlines()
    assert [int(line.split(".")[0].rsplit("-", 1)[1]) for line in lines] == list(range(12))


def test_w35_who_is_on_its_way_out_is_no_host():
    """field-reports:FR-054 mpijob:W-35"""
    gone = mpi.pod(1, deleting=True)
    plan, _ = mpi.decided(mpi.seen(mpi.job(workers=2), mpi.pod(0), gone, shared={}))
    (config,) = [w.object for w in make.writes(plan) if w.name == "foo-config"]
    assert config["data"]["discover_hosts.sh"] == "#!/bin/sh\necho foo-worker-0.foo.bar.svc\n"


def test_c63_pods_of_a_gang():
    found = objects(mpi.job(workers=1), Place(gang="volcano"))
    template = found["foo-launcher"]["spec"]["template"]
    for meta, spec in (
        (found["foo-worker-0"]["metadata"], found["foo-worker-0"]["spec"]),
        (template["metadata"], template["spec"]),
    ):
        assert meta["annotations"] == {"scheduling.k8s.io/group-name": "foo"}
        assert spec["schedulerName"] == "volcano"


def test_c74_labels_of_the_template_stay_but_for_ours():
    meta = {"labels": {"training.kubeflow.org/job-name": "other", "mine": "1"}}
    found = launcher_of(mpi.job(launcher={"template": mpi.template(metadata=meta)}))
    labels = found["spec"]["template"]["metadata"]["labels"]
    assert labels["training.kubeflow.org/job-name"] == "foo" and labels["mine"] == "1"


def test_c75_a_name_in_the_template_means_nothing():
    meta = {"name": "x", "namespace": "y", "finalizers": ["z/z"], "annotations": {"a": "b"}}
    found = objects(mpi.job(workers=1, worker={"template": mpi.template(metadata=meta)}))
    meta = found["foo-worker-0"]["metadata"]
    assert (meta["name"], meta["namespace"]) == ("foo-worker-0", "bar")
    assert "finalizers" not in meta and meta["annotations"] == {"a": "b"}


def test_c76_the_search_list_is_added_to():
    worker = {"template": mpi.template(dnsConfig={"searches": ["a.b"], "options": []})}
    found = objects(mpi.job(workers=1, worker=worker))
    searches = found["foo-worker-0"]["spec"]["dnsConfig"]["searches"]
    assert searches == ["a.b", "foo.bar.svc.cluster.local"]
    assert "dnsConfig" not in pod_spec(found["foo-launcher"])


def test_c77_nothing_of_the_job_itself_is_copied():
    obj = mpi.job(workers=1)
    obj["metadata"] |= {"labels": {"mine": "1"}, "annotations": {"theirs": "2"}}
    assert "mine" not in repr(objects(obj)) and "theirs" not in repr(objects(obj))


ROOT = {"runAsUser": 0}
USER = {"runAsUser": 1000}
MODES = [
    pytest.param("/root/.ssh", {}, 0o600, 0o600, id="nobody said who"),
    pytest.param("/srv/keys", {}, None, None, id="elsewhere and nobody said who"),
    pytest.param("/root/.ssh", ROOT, 0o600, 0o600, id="root"),
    pytest.param("/srv/keys", ROOT, None, 0o600, id="root elsewhere"),
    pytest.param("/srv/keys", USER, None, None, id="a user elsewhere"),
    pytest.param("/root/.ssh", USER, 0o600, None, id="a user at root's path"),
    pytest.param("/root/.ssh", USER | {"fsGroup": 5}, 0o600, 0o440, id="with a group of files"),
    pytest.param("/root/.ssh", {"runAsNonRoot": True}, 0o600, None, id="not root"),
]


@pytest.mark.parametrize(("path", "context", "peers", "ours"), MODES)
def test_w13_the_mode_of_the_key_is_one_that_ssh_takes(path, context, peers, ours):
    """field-reports:FR-038 mpijob:W-13: by who reads it, and not only by where it lies."""
    worker = {"template": mpi.template(securityContext=context)}
    obj = mpi.job(workers=1, worker=worker, sshAuthMountPath=path)
    for place, mode in ((STRICT, peers), (NOWHERE, ours)):
        (volume,) = objects(obj, place)["foo-worker-0"]["spec"]["volumes"]
        assert volume["secret"].get("defaultMode") == mode
