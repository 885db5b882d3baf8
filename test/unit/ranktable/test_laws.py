# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What holds for every job and any pods."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ascendop.ranktable.build import rank_table
from ascendop.ranktable.choose import Version
from ascendop.ranktable.table import NotReady, Table

from . import make  # noqa: TID252  the standard library has a package called test


@st.composite
def gangs(draw):
    """A job that can be built, and its pods in rank order: some share a node, some lack NPUs."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    shift = draw(st.integers(0, 3))
    crowd = draw(st.integers(1, 12))
    pods = [
        make.pod(
            rank + shift,
            node=f"node-{rank % crowd}",
            config=make.config(rank, _own(rank, count)),
            annotations={"super-pod-rank": str(rank % 2), "super-pod-id": str(rank % 3)},
        )
        for rank, count in enumerate(sizes)
    ]
    job = make.job(
        version=draw(st.sampled_from(Version)),
        pods=len(pods),
        block=draw(st.sampled_from([0, 1, 4, 8])),
        soft_affinity=draw(st.booleans()) and len(pods) > 1,
        inference=draw(st.booleans()),
    )
    leaders = [
        make.pod(0, name=f"m-{i}", npus=0, config=None) for i in range(draw(st.integers(0, 2)))
    ]
    return job, pods, leaders


def _own(rank, count):
    """Devices that no other pod has, on whichever node."""
    level = make.levels((0, "UB"))
    return [
        make.devices(rank, 1, device_id=str(4 * rank + i), levelList=level)[0] for i in range(count)
    ]


def ids(content):
    found = json.loads(content)
    if found["version"] == Version.V2_0:
        return [rank["rank_id"] for rank in found["rank_list"]]
    return [int(d["rank_id"]) for server in found["server_list"] for d in server["device"]]


@given(gangs(), st.randoms(use_true_random=False))
def test_the_order_in_which_pods_arrive_never_changes_the_table(gang, rng):
    job, pods, leaders = gang
    want = rank_table(job, pods)
    shuffled = [*pods, *leaders]
    rng.shuffle(shuffled)
    assert isinstance(want, Table)
    assert rank_table(job, shuffled) == want


@given(gangs())
def test_ranks_are_counted_from_zero_without_a_gap(gang):
    job, pods, _ = gang
    got = ids(rank_table(job, pods).content)
    assert got == list(range(len(got)))


@given(gangs())
def test_with_equal_pods_a_rank_is_rank_index_times_devices_plus_position(gang):
    job, pods, _ = gang
    equal = [make.pod(r, config=make.config(r, make.devices(r, 3))) for r in range(len(pods))]
    got = rank_table(make.job(version=job.version, pods=len(pods)), equal)
    assert ids(got.content) == [r * 3 + i for r in range(len(pods)) for i in range(3)]


@given(gangs(), st.data())
def test_a_missing_pod_gives_a_reason_and_no_table(gang, data):
    job, pods, leaders = gang
    gone = data.draw(st.integers(0, len(pods) - 1))
    got = rank_table(job, [*pods[:gone], *pods[gone + 1 :], *leaders])
    assert isinstance(got, NotReady)
    assert got.withdraw
    assert got.message == f"{len(pods) - 1} of {len(pods)} pods have devices; 1 do not exist"


@given(gangs())
def test_every_server_is_in_one_super_pod(gang):
    job, pods, _ = gang
    found = json.loads(rank_table(job, pods).content)
    if job.version is Version.V1_2:
        members = [s["server_id"] for g in found["super_pod_list"] for s in g["server_list"]]
        assert sorted(members) == sorted(s["server_id"] for s in found["server_list"])
        assert None not in found["super_pod_list"]
