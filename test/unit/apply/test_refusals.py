# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Refusals of a write, and whether the job's owner hears of them."""

from ascendop.apply.plan import Apply
from ascendop.apply.refusals import failure_of
from ascendop.kube.errors import error_of
from ascendop.kube.resource import POD_GROUPS

GROUP = Apply(POD_GROUPS, {"metadata": {"name": "j-U", "namespace": "ml"}})


def test_a_kind_that_is_being_removed_is_waited_for_without_a_word():
    body = b"""{"reason": "Forbidden", "message": "podgroups \\"j-U\\" is forbidden: create not
        allowed while custom resource definition is terminating"}"""
    failure = failure_of("group", GROUP, error_of(403, b" ".join(body.split())))
    assert failure is not None
    assert failure.waits
    assert failure.retry_s == 5.0
