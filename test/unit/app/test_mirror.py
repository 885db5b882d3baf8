# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which changes wake a job at once, in a moment, or not at all."""

import msgspec
import pytest

from ascendop.api.observed import GroupView, PodView
from ascendop.app.mirror import is_calm, says_the_same

POD = PodView(namespace="ml", name="job-worker-0", uid="1", version="10", phase="Pending")
GROUP = GroupView(namespace="ml", name="job", uid="2", version="10", phase="Pending")


def changed(row, **fields):
    return msgspec.structs.replace(row, **{"version": "11", **fields})


def test_a_write_of_what_we_do_not_read_says_the_same():
    assert says_the_same(POD, changed(POD))


@pytest.mark.parametrize("fields", [{"phase": "Running"}, {"ip": "10.0.0.1"}, {"deleting": True}])
def test_a_write_of_what_we_read_says_something_new(fields):
    assert not says_the_same(POD, changed(POD, **fields))


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, POD, True, id="a pod that we have made is no news"),
        pytest.param(POD, changed(POD, phase="Running"), True, id="pods of a gang start together"),
        pytest.param(POD, changed(POD, phase="Failed"), False, id="a failed pod is replaced now"),
        pytest.param(POD, changed(POD, deleting=True), False, id="so is one that is going"),
        pytest.param(GROUP, changed(GROUP, trouble="full"), True, id="why a gang waits can wait"),
        pytest.param(GROUP, changed(GROUP, phase="Inqueue"), False, id="a gang that is let in"),
    ],
)
def test_only_what_somebody_waits_for_is_urgent(old, new, want):
    assert is_calm(old, new) is want
