# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Refusals of a write, and whether the job's owner hears of them."""

import json

import pytest

from ascendop.apply.plan import Apply, Create
from ascendop.apply.refusals import DENIED_S, failure_of
from ascendop.kube.errors import error_of
from ascendop.kube.resource import POD_GROUPS, PODS

POD = Create(PODS, {"metadata": {"name": "j-master-0", "namespace": "ml"}})
GROUP = Apply(POD_GROUPS, {"metadata": {"name": "j-U", "namespace": "ml"}})


def test_a_kind_that_is_being_removed_is_waited_for_without_a_word():
    body = b"""{"reason": "Forbidden", "message": "podgroups \\"j-U\\" is forbidden: create not
        allowed while custom resource definition is terminating"}"""
    failure = failure_of("group", GROUP, error_of(403, b" ".join(body.split())))
    assert failure is not None
    assert failure.waits
    assert failure.retry_s == 5.0


@pytest.mark.parametrize(
    ("code", "answer", "again_s"),
    [
        pytest.param(
            422,
            {
                "reason": "Invalid",
                "message": 'Pod "j-master-0" is invalid: spec.containers[0].image: Required value',
                "details": {"causes": [{"field": "spec.containers[0].image"}]},
            },
            None,
            id="a field is wrong",
        ),
        pytest.param(
            422,
            {
                "reason": "Invalid",
                "message": "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no",
                "details": {"causes": [{"message": "no"}]},
            },
            DENIED_S,
            id="a policy denies it",
        ),
        pytest.param(
            400,
            {"message": 'admission webhook "w" denied the request: no'},
            DENIED_S,
            id="a webhook denies it",
        ),
    ],
)
def test_what_others_deny_is_tried_again_and_what_is_wrong_is_not(code, answer, again_s):
    """fault-tolerance:35, scheduling:SCH-11"""
    failure = failure_of("pods", POD, error_of(code, json.dumps(answer).encode()))
    assert failure is not None
    assert failure.message == answer["message"]
    assert failure.retry_s == again_s
