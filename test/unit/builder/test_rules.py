# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Mistakes that every kind knows."""

import pytest

from ascendop.builder.rules import name_problems


@pytest.mark.parametrize("name", ["a", "a-1", "x" * 63])
def test_a_name_that_a_service_can_have_is_let_through(name):
    assert list(name_problems(name)) == []


@pytest.mark.parametrize("name", ["1st", "a.b", "-a", "a-", "a_b"])
def test_a_name_that_no_service_can_have_is_told_as_kubernetes_does(name):
    (found,) = name_problems(name)
    assert found.path == "metadata.name"
    assert found.what.startswith(f'Invalid value: "{name}": should match: a DNS-1035 label')


def test_a_name_that_is_too_long_is_told_its_limit():
    """field-reports:FR-022"""
    (found,) = name_problems("x" * 64)
    assert "must be no more than 63 characters" in found.what
