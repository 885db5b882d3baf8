# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods wait for the scheduler's word, replacements do not, and somebody says why."""

import pytest

from ascendop.gang.admission import Admitted, Waiting, admission

from . import make  # noqa: TID252  the standard library has a package called test


def ask(group=None, *, gang=True, served=True, pods_alive=0, **of_queue):
    return admission(gang=gang, served=served, group=group, pods_alive=pods_alive, **of_queue)


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_p10_every_phase_after_pending_lets_pods_in(phase):
    """ascendjob:P10, scheduling:SCH-1, scheduling:SCH-3."""
    assert ask(make.group(phase)) == Admitted()


def test_p8_a_phase_that_is_empty_waits_for_the_scheduler():
    """ascendjob:P8, scheduling:SCH-2, scheduling:SCH-4."""
    got = ask(make.group(""))
    assert isinstance(got, Waiting)
    assert got.reason == "PodGroupNotInitialized"
    assert got.message == (
        "volcano-scheduler is maybe not running, execute command to check the status: "
        "kubectl get pod -n volcano-system -l app=volcano-scheduler"
    )


def test_p9_a_pending_gang_waits_for_room():
    """ascendjob:P9, scheduling:SCH-2, scheduling:SCH-4."""
    got = ask(make.group("Pending"))
    assert got == Waiting("PodGroupPending", "the cluster resource is not enough")


@pytest.mark.parametrize("phase", ["", "Pending"])
@pytest.mark.parametrize(
    ("state", "detail"),
    [
        ("Open", ""),
        ("Closed", "queue q is Closed"),
        ("Closing", "queue q is Closing"),
        ("", "queue q is not open yet: is vc-controller-manager running?"),
    ],
)
def test_a_queue_that_is_not_open_is_named(phase, state, detail):
    """scheduling:SCH-12, scheduling:P9."""
    got = ask(make.group(phase), queue=make.queue(state), queues_known=True)
    assert isinstance(got, Waiting) and got.detail == detail


@pytest.mark.parametrize("phase", ["", "Pending"])
@pytest.mark.parametrize(
    ("spec", "known", "detail"),
    [
        pytest.param(b'{"queue":"q"}', True, "there is no queue q; create it", id="missing"),
        pytest.param(b'{"queue":"q"}', False, "", id="who cannot read queues calls none missing"),
        pytest.param(b"{}", True, "", id="no queue at all"),
    ],
)
def test_a_queue_that_is_not_there_is_named(phase, spec, known, detail):
    """scheduling:SCH-12, scheduling:P10: nobody but the scheduler's log says so otherwise."""
    got = ask(make.group(phase, spec=spec), queues_known=known)
    assert isinstance(got, Waiting)
    assert got.detail.startswith(detail) if detail else got.detail == ""


def test_without_a_pod_group_there_is_nothing_to_be_admitted():
    got = ask(None)
    assert isinstance(got, Waiting) and got.reason == "PodGroupNotInitialized"


def test_a_pod_group_that_is_going_admits_nobody():
    got = ask(make.group("Running", deleting=True))
    assert isinstance(got, Waiting) and "is being deleted" in got.detail


def test_without_the_kind_on_the_server_the_message_says_what_to_do():
    got = ask(None, served=False)
    assert isinstance(got, Waiting) and got.reason == "SyncPodGroupFailed"
    assert "podgroups.scheduling.volcano.sh" in got.message and "install Volcano" in got.message


@pytest.mark.parametrize("group", [None, make.group(""), make.group("Pending")])
def test_a_replacement_never_waits_while_one_pod_is_alive(group):
    """scheduling:SCH-2, scheduling:SCH-24."""
    assert ask(group, pods_alive=1) == Admitted()


def test_p12_a_job_without_a_gang_never_waits():
    """ascendjob:P12."""
    assert ask(None, gang=False, served=False) == Admitted()
