# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What holds for every snapshot, every list of conditions, every order of losses."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ascendop.api.job import Condition
from ascendop.apply.plan import Create, Plan
from ascendop.reconciler.attempts import Attempts, next_attempts, read_attempts
from ascendop.reconciler.decide import decide
from ascendop.reconciler.status import merge_patch, put_condition

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import admitted, after, changed, gone, is_quiet  # noqa: TID252  likewise

SOME = settings(max_examples=50)
FEW = settings(max_examples=30)  # a snapshot has many parts, and is slow to draw

# ── snapshots ──

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown", "")
POLICIES = (None, "Always", "OnFailure", "Never", "ExitCode")


@st.composite
def jobs(draw):
    """A job of any kind that can run, small."""
    workers = draw(st.integers(0, 3))
    restart = draw(st.sampled_from(POLICIES))
    policy = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "cleanPodPolicy": st.sampled_from(["None", "Running", "All"]),
                "backoffLimit": st.integers(-1, 3),
                "ttlSecondsAfterFinished": st.integers(0, 100),
                "activeDeadlineSeconds": st.integers(0, 100),
                "suspend": st.booleans(),
            },
        )
    )
    if draw(st.booleans()):
        labels = draw(st.sampled_from([{}, {"fault-retry-times": "2"}]))
        roles = {
            "Master": make.replica(1, policy=restart),
            "Worker": make.replica(workers, policy=restart),
        }
        return make.job(labels=labels, policy=policy, roles=roles)
    main = make.container("pytorch", npus=0)
    return make.torch_job(
        policy=policy,
        Master=make.replica(1, main, policy=restart),
        Worker=make.replica(workers + 1, main, policy=restart),
    )


@st.composite
def pods(draw, obj):
    """Pods of a job: some of its slots, some beyond them, in any state."""
    found = []
    main = "ascend" if obj["kind"] == "AscendJob" else "pytorch"
    for role, most in (("master", 1), ("worker", 4)):
        for index in range(most):
            if draw(st.booleans()):
                continue
            pod = make.pod(
                role,
                index,
                draw(st.sampled_from(PHASES)),
                exit_code=draw(st.sampled_from([None, 0, 1, 127, 128, 137])),
                main=main,
                attempt=draw(st.integers(-1, 3)),
                deleting=draw(st.booleans()),
            )
            found.append(pod)
    return found


@st.composite
def snapshots(draw):
    """A job in the middle of whatever life."""
    obj = draw(jobs())
    before = make.snapshot(obj, group=draw(st.sampled_from(["", "Pending", "Inqueue", "Running"])))
    status = draw(st.sampled_from([{}, make.concluded(decide(before)).status]))
    return make.snapshot(
        obj,
        pods=draw(pods(obj)),
        group=draw(st.sampled_from(["", "Pending", "Inqueue", "Running", "Unknown"])),
        services=draw(st.sampled_from([None, ()])),
        status=status,
        now=make.later(draw(st.integers(0, 200))),
        gang=draw(st.booleans()),
        groups_served=draw(st.booleans()),
        retries_left=draw(st.sampled_from([None, 0, 1])),
        retry_grace_s=draw(st.sampled_from([0.0, 30.0])),
        stop_survivors=draw(st.booleans()),
    )


def ended(seen):
    return [c["type"] for c in seen.status.get("conditions", ()) if c["type"] in ENDS]


ENDS = {"Succeeded", "Failed"}


@FEW
@given(snapshots())
def test_there_is_always_a_plan(seen):
    plan = decide(seen)
    assert isinstance(plan, Plan)
    make.concluded(plan)


@FEW
@given(snapshots())
def test_the_same_snapshot_gives_the_same_plan(seen):
    first, second = decide(seen), decide(seen)
    assert first.steps == second.steps
    assert make.concluded(first) == make.concluded(second)


@FEW
@given(snapshots())
def test_a_plan_writes_no_object_twice(seen):
    made = [(w.resource, w.name) for w in make.writes(decide(seen), Create)]
    assert len(made) == len(set(made))


@FEW
@given(snapshots())
def test_after_a_few_passes_nothing_more_is_wanted(seen):
    # Group, Services, pods, deletions with their replacements, the end, and its cleaning.
    seen = replace(admitted(seen), pods=tuple(p for p in seen.pods if not p.deleting))
    for _ in range(10):
        seen = admitted(after(seen, decide(seen)))
    assert is_quiet(seen, decide(seen))


@FEW
@given(snapshots(), st.data())
def test_a_finished_job_stays_finished(seen, data):
    status = {"conditions": [{"type": data.draw(st.sampled_from(sorted(ENDS))), "status": "True"}]}
    seen = replace(seen, status=status)
    end = ended(seen)
    for _ in range(3):
        plan = decide(seen)
        assert make.writes(plan, Create) == []
        seen = after(seen, plan)
        assert ended(seen) == end


@FEW
@given(snapshots())
def test_only_what_stands_in_the_snapshot_is_deleted(seen):
    names = {p.name for p in seen.pods}
    assert set(make.deleted(decide(seen))) <= names


@FEW
@given(snapshots())
def test_no_pod_is_both_made_and_kept(seen):
    names = {p.name for p in seen.pods}
    assert not names & set(make.created(decide(seen)))


# ── conditions ──

TYPES = ("Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed")
PUTS = st.lists(
    st.tuples(
        st.sampled_from(TYPES),
        st.sampled_from(["A", "B"]),
        st.sampled_from(["True", "False"]),
        st.integers(0, 9),
    )
)


def put_all(puts):
    found = ()
    for type_, reason, status, at in puts:
        found = put_condition(found, type_, reason, "m", make.later(at), status)
    return found


@SOME
@given(PUTS)
def test_no_type_stands_twice_among_conditions(puts):
    types = [c.type for c in put_all(puts)]
    assert len(types) == len(set(types))


@SOME
@given(PUTS)
def test_running_and_restarting_never_stand_together(puts):
    assert not {"Running", "Restarting"} <= {c.type for c in put_all(puts)}


@SOME
@given(PUTS, PUTS)
def test_failed_is_the_last_word(before, more):
    failed = put_condition(put_all(before), "Failed", "F", "m", make.NOW)
    found = failed
    for type_, reason, status, at in more:
        found = put_condition(found, type_, reason, "m", make.later(at), status)
    assert found == failed


@SOME
@given(PUTS)
def test_putting_a_condition_again_changes_nothing(puts):
    found = put_all(puts)
    for c in found:
        again = put_condition(found, c.type, c.reason, "other", make.later(99), c.status)
        assert again == found


@SOME
@given(PUTS, st.sampled_from(TYPES), st.integers(10, 20))
def test_what_is_put_comes_last_and_is_as_old_as_its_status(puts, type_, at):
    before = put_all(puts)
    found = put_condition(before, type_, "C", "m", make.later(at))
    if any(c.type == "Failed" and c.status == "True" for c in before):
        return
    old = next((c for c in before if c.type == type_), None)
    kept = old is not None and old.status == "True"
    assert found[-1].type == type_
    assert (found[-1].last_transition_time == old.last_transition_time) if kept else True


@SOME
@given(PUTS)
def test_a_condition_survives_its_way_through_the_server(puts):
    for c in put_all(puts):
        assert Condition.parse(json.loads(json.dumps(c.as_object()))) == c


# ── patches ──

VALUES = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.text(max_size=2) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def applied(before, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = applied(found.get(key), value)
    return found


@SOME
@given(OBJECTS, OBJECTS)
def test_a_patch_makes_one_object_of_the_other(before, wanted):
    assert applied(before, merge_patch(before, wanted)) == wanted


@SOME
@given(OBJECTS)
def test_what_is_equal_needs_no_patch(found):
    assert merge_patch(found, json.loads(json.dumps(found))) == {}


# ── generations ──

ALL = ("m-0", "w-0", "w-1", "w-2")
LOSSES = st.lists(st.sets(st.sampled_from(ALL), min_size=1), max_size=6)


@SOME
@given(LOSSES)
def test_the_generation_never_sinks_and_never_jumps(losses):
    found = Attempts()
    for lost in losses:
        before = found
        found = next_attempts(found, ALL, set(ALL) - lost, started=True)
        assert found.current - before.current in {0, 1}
        found = next_attempts(found, ALL, ALL, started=True)


@SOME
@given(LOSSES)
def test_a_loss_is_counted_if_and_only_if_it_hits_the_newest_generation(losses):
    found, newest = Attempts(), set(ALL)
    for lost in losses:
        before = found.current
        found = next_attempts(found, ALL, set(ALL) - lost, started=True)
        assert (found.current > before) == bool(lost & newest)
        newest = set(lost) if lost & newest else newest | lost
        found = next_attempts(found, ALL, ALL, started=True)


@SOME
@given(LOSSES, st.integers(1, 4))
def test_looking_again_counts_nothing(losses, times):
    found = Attempts()
    for lost in losses:
        there = set(ALL) - lost
        found = next_attempts(found, ALL, there, started=True)
        for _ in range(times):
            assert next_attempts(found, ALL, there, started=True) == found
        found = next_attempts(found, ALL, ALL, started=True)


@SOME
@given(LOSSES)
def test_what_is_stored_is_read_as_it_was(losses):
    found = Attempts()
    for lost in losses:
        found = next_attempts(found, ALL, set(ALL) - lost, started=True)
        assert read_attempts(found.text(), ()) == found


@FEW
@given(st.lists(st.sampled_from(["j-master-0", "j-worker-0", "j-worker-1"]), max_size=5))
def test_losses_one_by_one_never_leave_the_labels_ahead_of_the_count(names):
    seen = make.snapshot(make.job(Master=1, Worker=2))
    seen = after(seen, decide(seen), phase="Running")
    for name in names:
        seen = gone(seen, name)
        for _ in range(3):
            seen = after(seen, decide(seen), phase="Running")
        stored = read_attempts(dict(seen.row.annotations).get("ascendop.io/attempt", ""), ())
        assert max(p.attempt for p in seen.pods) == stored.current
        assert len(seen.pods) == 3


def test_pods_are_remembered_by_their_labels_where_nothing_is_stored():
    """After a take-over from the original operator: the labels are what it left."""
    pods = [make.pod("master", attempt=1), changed(make.pod("worker"), attempt=2)]
    assert read_attempts("", pods) == Attempts(2, frozenset({"j-worker-0"}))


# ── whatever a user writes ──

FIELDS = st.sampled_from((
    "name", "image", "env", "ports", "resources", "limits", "requests", "cpu", "containerPort",
    "volumes", "initContainers", "nodeSelector", "labels", "annotations", "restartPolicy",
    "schedulerName", "hostNetwork", "huawei.com/Ascend910", "accelerator-type", "overhead",
))  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.text("a:/-1", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(
    st.dictionaries(FIELDS, JSON, max_size=4),
    st.dictionaries(FIELDS, JSON, max_size=4),
    st.dictionaries(FIELDS, JSON, max_size=3),
)
def test_any_template_is_run_or_refused_and_never_breaks_us(container, spec, metadata):
    main = {"name": "ascend", "image": "i"} | {
        k: v for k, v in container.items() if k not in {"name", "image"}
    }
    template = {"metadata": metadata, "spec": spec | {"containers": [main]}}
    obj = make.job(Master={"template": template}, Worker=1)
    plan = decide(make.snapshot(obj))
    make.concluded(plan)
