# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""mpirun over ssh in real containers, of pods made by hand: each rank is where it belongs."""

import os

import pytest

from hack.admin import MERGE, path_of, wait_for
from hack.mpirun import IMPLEMENTATIONS, MPIUSER, ROOT, ByHand, Rank, ranks
from hack.node.images import IMAGES
from hack.node.machine import why_not

REASON = why_not()
pytestmark = [
    pytest.mark.skipif(bool(REASON), reason=REASON),
    pytest.mark.timeout(900),  # the first time, images are made and unpacked
]
OPEN_MPI_4 = "Open MPI 4"
MADE = IMAGES[IMPLEMENTATIONS[OPEN_MPI_4].image].archive.exists() or "NODES" in os.environ
OTHERS = sorted(IMPLEMENTATIONS.keys() - {OPEN_MPI_4})
USERS = pytest.mark.parametrize("user", [ROOT, MPIUSER], ids=["root", "uid-1000"])
RESTRICTED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
READY_S = 60.0
ENDS_S = 90.0


def is_ready(pod):
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def run(real, job):
    """What its ranks have said, and on which nodes its pods were."""
    with real.admin() as admin:
        if job.user is MPIUSER:
            where = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": job.namespace}}
            admin.request("PATCH", path_of(where), RESTRICTED, MERGE)
        workers, launcher = job.worker_pods(), job.launcher_pod()
        for obj in (*job.beside(), *workers):
            admin.create(obj)

        def now(pod):
            return admin.request("GET", path_of(pod))

        def all_ready():
            return all(is_ready(now(pod)) for pod in workers)

        wait_for("its workers are ready", all_ready, READY_S)
        admin.create(launcher)

        def ended():
            return now(launcher)["status"].get("phase") in {"Succeeded", "Failed"}

        wait_for("its launcher has ended", ended, ENDS_S)
        log = real.logs(job.namespace, job.launcher_name)
        assert now(launcher)["status"]["phase"] == "Succeeded", log
        return ranks(log), [now(pod)["spec"]["nodeName"] for pod in workers]


def expected(job):
    """Slots are filled host by host, and everybody has heard everybody."""
    count = job.workers * job.slots
    total = sum(10**number for number in range(count))
    return [
        Rank(number, count, job.worker_names[number // job.slots], total, job.user.uid)
        for number in range(count)
    ]


@USERS
@pytest.mark.skipif(not MADE, reason="its image is not made yet: make test-long does")
def test_open_mpi_has_each_rank_on_its_host(real, namespace, user):
    job = ByHand("pi", namespace(real), IMPLEMENTATIONS[OPEN_MPI_4], user)
    real.node.have(job.mpi.image)
    said, _ = run(real, job)
    assert said == expected(job)


@USERS
@pytest.mark.long
@pytest.mark.parametrize("mpi", OTHERS)
def test_every_other_mpi_has_each_rank_on_its_host(real, namespace, mpi, user):
    job = ByHand("pi", namespace(real), IMPLEMENTATIONS[mpi], user)
    real.node.have(job.mpi.image)
    said, _ = run(real, job)
    assert said == expected(job)


@pytest.mark.long
def test_mpirun_goes_across_two_nodes(real, namespace):
    mpi = IMPLEMENTATIONS[OPEN_MPI_4]
    with real.joined() as second:
        nodes = [real.node.layout.name, second.layout.name]
        for node in (real.node, second):
            node.have(mpi.image)
        for user in (ROOT, MPIUSER):
            job = ByHand("pi", namespace(real), mpi, user, nodes=nodes)
            said, where = run(real, job)
            assert said == expected(job)
            assert where == nodes
