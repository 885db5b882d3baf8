# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Names follow from the job, so that a second create meets the first."""

import re

from hypothesis import given
from hypothesis import strategies as st

from ascendop.builder.names import MAX_NAME, fit, pod_group_name, pod_name, rank_table_config_map
from ascendop.kinds import load_kinds
from ascendop.reconciler.pods import slots
from ascendop.reconciler.validate import parse_job

from .. import make  # noqa: TID252  the standard library has a package called test

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
JOBS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,70}[a-z0-9])?", fullmatch=True)
ROLES = st.sampled_from(["Master", "Worker", "Chief", "Scheduler"])


def test_a_short_name_is_the_contract_s():
    """runtime:W-10"""
    assert pod_name("resnet", "Worker", 3) == "resnet-worker-3"
    assert pod_group_name("resnet", "U") == "resnet-U"
    assert rank_table_config_map("resnet") == "rings-config-resnet"


def test_a_long_name_is_cut_and_eight_hex_digits_tell_it_from_its_siblings():
    """runtime:W-10"""
    job = "a" * 60
    found = [pod_name(job, "Worker", index) for index in range(1000)]
    assert all(re.fullmatch(r"a{54}-[0-9a-f]{8}", name) for name in found)
    assert len(set(found)) == 1000 and {len(name) for name in found} == {MAX_NAME}


@given(JOBS, ROLES, st.integers(0, 100_000))
def test_every_name_fits_a_host_name_and_is_the_same_again(job, role, index):
    """field-reports:FR-022 runtime:W-10 runtime:W-1"""
    name = pod_name(job, role, index)
    assert LABEL.fullmatch(name) and len(name) <= MAX_NAME
    assert name == pod_name(job, role, index)


@given(st.text("ab-.", min_size=64, max_size=80), st.text("ab-.", min_size=64, max_size=80))
def test_two_long_names_are_two_short_names(one, other):
    """runtime:W-10"""
    assert (fit(one) == fit(other)) == (one == other)


def test_no_child_of_any_kind_asks_the_server_for_a_name():
    """runtime:W-10 runtime:W-1"""
    for kind in load_kinds().values():
        obj = make.job() if kind.kind == "AscendJob" else make.torch_job()
        if obj["kind"] != kind.kind:
            continue
        job = parse_job(kind, make.row(obj))
        names = [slot.name for slot in slots(kind, job)]
        assert len(names) == len(set(names)) == job.total
        assert all(service["metadata"].get("name") for service in kind.services(job))
