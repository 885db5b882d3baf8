# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Selectors of stages find what kwok would find."""

import pytest

from ascendop.sim.jq import Query, UnknownExpressionError

POD = {
    "metadata": {"annotations": {"a/b": "1", "none": None}, "finalizers": ["f", "g"]},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}],
    },
}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".status.phase", ["Running"]),
        (".", [POD]),
        ('.metadata.annotations["a/b"]', ["1"]),
        ('.metadata.annotations["none"]', []),
        ('.metadata["annotations"]["a/b"]', ["1"]),
        (".metadata.finalizers.[]", ["f", "g"]),
        (".metadata.finalizers[]", ["f", "g"]),
        (".metadata.finalizers[-1]", ["g"]),
        (".metadata.finalizers[7]", []),
        ('.status.conditions.[] | select( .type == "Ready" ) | .status', ["True"]),
        ('.status.conditions[].status | select(.x == "y")', []),
        (".spec.nothing.at.all", []),
        (".spec.containers.[].name", []),
        (".status.phase.more", []),
    ],
)
def test_a_path_leads_where_jq_leads(path, want):
    assert Query(path).values(POD) == want


@pytest.mark.parametrize("path", ["", "status", ".a // 1", ".a | length", ".a = 1", ".a[1:2]"])
def test_other_jq_is_refused(path):
    with pytest.raises(UnknownExpressionError):
        Query(path)
