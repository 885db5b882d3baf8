# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is kept of each cached object, whatever the server, a user or a later release wrote."""

import gc

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.api.observed import ContainerView, Failed
from ascendop.informer import rows

META = {"name": "j-worker-2", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
OWNER = {
    "apiVersion": "mindxdl.gitee.com/v1",
    "kind": "AscendJob",
    "name": "j",
    "uid": "U",
    "controller": True,
}
FORMS = {
    "Pod": rows.pods_form,
    "Service": rows.services_form,
    "PodGroup": rows.groups_form,
    "Queue": rows.queues_form,
    "PriorityClass": rows.priorities_form,
    "Node": rows.nodes_form,
    "AscendJob": rows.jobs_form,
}


def decoded(form, obj, **meta):
    return form().decode_object(orjson.dumps({"metadata": META | meta} | obj))


def pod(obj=None, **meta):
    return decoded(rows.pods_form, obj or {}, **meta)


def running(**fields):
    status = {"name": "ascend", "ready": True, "restartCount": 0, "state": {"running": {}}}
    return {"status": {"phase": "Running", "containerStatuses": [status | fields]}}


@pytest.mark.parametrize("kind", FORMS)
def test_an_object_that_has_nothing_but_a_name_is_a_row(kind):
    """runtime:I-34"""
    row = decoded(FORMS[kind], {})
    assert (row.name, row.uid, row.version) == ("j-worker-2", "u", "7")
    assert row.namespace == ("" if kind in {"Queue", "PriorityClass", "Node"} else "ns")


@pytest.mark.parametrize("kind", FORMS)
def test_parts_that_are_null_are_parts_that_are_absent(kind):
    """A client written in another language sends null for nothing."""
    nothing = {"labels": None, "annotations": None, "ownerReferences": None}
    assert decoded(FORMS[kind], {"status": None} if kind != "AscendJob" else {}, **nothing) == (
        decoded(FORMS[kind], {})
    )


@pytest.mark.parametrize("phase", ["Running", "Evaporated", "", "运行中"])
def test_a_phase_that_nobody_knows_is_a_phase(phase):
    """runtime:P-22"""
    assert pod({"status": {"phase": phase}}).phase == phase
    assert decoded(rows.groups_form, {"status": {"phase": phase}}).phase == phase
    assert decoded(rows.queues_form, {"status": {"state": phase}}).state == phase


@pytest.mark.parametrize(
    "field",
    [
        {"spec": {"schedulingGates": [{"name": "later"}], "nodeName": "n"}},
        {"status": {"phase": "Running", "resize": {"deep": [1, {"x": None}]}}},
        {"status": {"conditions": [{"type": "FromTheFuture", "status": "Perhaps"}]}},
        {"status": {"containerStatuses": [{"name": "c", "state": {"frozen": {"since": 1}}}]}},
    ],
)
def test_fields_and_values_of_a_later_release_are_skipped(field):
    """runtime:P-22"""
    assert pod(field).uid == "u"


@pytest.mark.parametrize(
    ("ready", "spec", "usable"),
    [
        ("True", {}, True),
        ("True", {"unschedulable": True}, False),
        ("False", {}, False),
        ("Unknown", {}, False),
    ],
)
def test_a_node_that_is_not_ready_or_cordoned_has_no_room(ready, spec, usable):
    conditions = [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    status = {"conditions": conditions, "allocatable": {"huawei.com/Ascend910": "8", "cpu": 4}}
    row = decoded(rows.nodes_form, {"spec": spec, "status": status})
    assert row.usable is usable
    assert row.allocatable == (("huawei.com/Ascend910", "8"), ("cpu", "4"))


def test_a_queue_says_what_it_may_hold_and_what_it_holds():
    spec = {"parent": "root", "capability": {"huawei.com/Ascend910": 16}}
    row = decoded(rows.queues_form, {"spec": spec, "status": {"allocated": {"cpu": "1500m"}}})
    assert row.parent == "root"
    assert (row.capability, row.allocated) == (
        (("huawei.com/Ascend910", "16"),),
        (("cpu", "1500m"),),
    )


def test_the_slot_of_a_pod_is_read_from_its_labels():
    labels = {
        "training.kubeflow.org/job-name": "j",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "2",
        "version": "3",
    }
    row = pod(labels=labels, ownerReferences=[OWNER])
    assert (row.job, row.role, row.index, row.attempt) == ("j", "worker", 2, 3)
    assert (row.owner_kind, row.owner_name, row.owner_uid) == ("AscendJob", "j", "U")


@pytest.mark.parametrize("text", ["", "two", "1.5", "\uff19", "-3", "99999999999999999999"])
def test_an_index_that_somebody_made_up_is_no_index_of_ours(text):
    row = pod(labels={"training.kubeflow.org/replica-index": text, "version": text})
    assert row.index < 0 or row.index > 10**9


def test_an_owner_that_is_no_controller_is_no_owner():
    """runtime:W-16"""
    assert pod(ownerReferences=[OWNER | {"controller": False}]).owner_uid == ""
    first = OWNER | {"controller": False, "uid": "X"}
    assert pod(ownerReferences=[first, OWNER]).owner_uid == "U"


@pytest.mark.parametrize(
    ("requests", "npus"),
    [
        ({"huawei.com/Ascend910": "8"}, 8),
        ({"huawei.com/Ascend910": 8, "cpu": "96", "memory": "700Gi"}, 8),
        ({"huawei.com/npu": "2", "huawei.com/npu-core": "1"}, 3),
        ({"huawei.com/Ascend910": "1e1"}, 10),
        ({"huawei.com/Ascend910": "many"}, 0),
        ({"nvidia.com/gpu": "8"}, 0),
        (None, 0),
    ],
)
def test_npus_are_counted_as_quantities(requests, npus):
    """runtime:P-23"""
    spec = {"spec": {"containers": [{"resources": {"requests": requests}}, {}]}}
    assert pod(spec).npus == npus


@pytest.mark.parametrize(
    ("state", "want"),
    [
        ({"running": {"startedAt": "x"}}, ("running", 0, "")),
        ({"waiting": {"reason": "ImagePullBackOff"}}, ("waiting", 0, "ImagePullBackOff")),
        (
            {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            ("terminated", 137, "OOMKilled"),
        ),
        ({}, ("", 0, "")),
        (None, ("", 0, "")),
    ],
)
def test_a_container_is_in_one_state(state, want):
    (found,) = pod(running(state=state)).containers
    assert (found.state, found.exit_code, found.reason) == want


def test_only_annotations_that_are_read_are_kept():
    """runtime:I-33"""
    key = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
    row = pod(annotations={key: "{}", "kubectl.kubernetes.io/last-applied-configuration": "x" * 99})
    assert row.annotations == ((key, "{}"),)


def test_a_disruption_is_read_only_when_it_is_true():
    def of(status):
        found = {"type": "DisruptionTarget", "status": status, "reason": "Preemption"}
        return pod({"status": {"conditions": [found]}}).disrupted

    assert (of("True"), of("False")) == ("Preemption", "")


def test_why_a_gang_waits_is_the_last_that_the_scheduler_said():
    def said(status, message):
        return {"type": "Unschedulable", "status": status, "message": message}

    conditions = [said("True", "old"), said("True", "2/9 fit"), said("False", "fits")]
    row = decoded(rows.groups_form, {"status": {"phase": "Pending", "conditions": conditions}})
    assert row.trouble == "2/9 fit"


def test_a_job_keeps_what_it_does_not_understand():
    """runtime:I-33"""
    spec, status = {"replicaSpecs": {}, "futureField": [1]}, {"conditions": [], "x": {"y": None}}
    row = decoded(rows.jobs_form, {"spec": spec, "status": status})
    assert orjson.loads(row.spec) == spec and orjson.loads(row.status) == status


@pytest.mark.parametrize("form", [rows.pods_form, rows.services_form])
def test_rows_of_hot_kinds_cannot_be_changed_and_cost_the_collector_nothing(form):
    """ascendjob:W-25 runtime:P-14 runtime:I-32"""
    row = decoded(form, running() if form is rows.pods_form else {}, labels={"a": "b"})
    assert not gc.is_tracked(row)
    with pytest.raises(AttributeError):
        row.name = "other"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.sampled_from(sorted(FORMS)), st.dictionaries(st.sampled_from(["spec", "status"]), JSON))
def test_whatever_a_spec_holds_a_list_of_it_has_a_row_for_it(kind, parts):
    """runtime:P-22 runtime:I-34: what cannot be read leaves the metadata."""
    form = FORMS[kind]()
    body = orjson.dumps(
        {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": META} | parts]}
    )
    (row,) = form.decode_list(body).rows
    assert (row.name, row.uid) == ("j-worker-2", "u")


def test_the_state_of_a_container_is_flat():
    assert pod(running()).containers == (ContainerView("ascend", "running", True, 0, 0, ""),)


@pytest.mark.parametrize("code", [7, 0])
def test_how_a_container_failed_that_was_restarted_is_kept(code):
    last = {"terminated": {"exitCode": code, "reason": "Error", "message": "x" * 2000}}
    container = {"name": "ascend", "state": {"running": {}}, "lastState": last}
    (found,) = pod({"status": {"containerStatuses": [container]}}).containers
    assert found.before == (Failed(7, "Error", "x" * 1024) if code else None)


@pytest.mark.parametrize(("code", "kept"), [(7, "." * 1023 + "!"), (0, "")])
def test_the_last_words_of_a_container_are_kept_when_it_failed(code, kept):
    ended = {"exitCode": code, "message": "." * 4095 + "!"}
    container = {"name": "ascend", "state": {"terminated": ended}}
    (found,) = pod({"status": {"containerStatuses": [container]}}).containers
    assert (found.exit_code, found.said) == (code, kept)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param('{"ns/j-U":{"UUID":"U","Times":3}}', 3, id="as the plug-in writes it"),
        pytest.param('{"ns/x-V":{"Times":"many"},"ns/j-U":{"Times":0}}', 0, id="beside a bad one"),
        pytest.param('{"ns/j-U":{"UUID":"U"}}', None, id="without a number"),
        pytest.param('{"ns/x-V":{"Times":3}}', None, id="of another job"),
        pytest.param("[1]", None, id="of another shape"),
        pytest.param("{", None, id="no JSON"),
    ],
)
def test_what_the_plug_in_has_left_of_the_retries_of_a_job(text, found):
    """ascendjob:F6: an entry that cannot be read says nothing, and spoils no other job's."""
    row = decoded(rows.retries_form, {"data": {"remain-retry-times": text}})
    assert row.of("ns/j-U") == found
