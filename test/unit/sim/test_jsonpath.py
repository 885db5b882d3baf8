# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Paths of printer columns, as CRDs write them."""

import pytest
import yaml

from ascendop.kinds import load_kinds
from ascendop.schema.crd import crd
from ascendop.sim.jsonpath import find, parse_path

CONDITIONS = [{"type": "Created", "status": "True"}, {"type": "Running", "status": "False"}]
JOB = {"metadata": {"labels": {"a.b/c": "d"}}, "status": {"conditions": CONDITIONS}}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".status.conditions[0].type", ["Created"]),
        (".status.conditions[-1].type", ["Running"]),
        (".status.conditions[-1:].type", ["Running"]),
        (".status.conditions[:1].type", ["Created"]),
        (".status.conditions[0:2].type", ["Created", "Running"]),
        (".status.conditions[*].type", ["Created", "Running"]),
        ('.status.conditions[?(@.status=="True")].type', ["Created"]),
        (r".metadata.labels.a\.b/c", ["d"]),
        (".status.nothing[-1:].type", []),
    ],
)
def test_a_path_finds(path, want):
    assert find(JOB, path) == want


@pytest.mark.parametrize("kind", load_kinds().values(), ids=lambda kind: kind.kind)
def test_every_column_of_our_own_kinds_is_understood(kind):
    (version,) = yaml.safe_load(yaml.safe_dump(crd(kind)))["spec"]["versions"]
    for column in version["additionalPrinterColumns"]:
        assert parse_path(column["jsonPath"])
