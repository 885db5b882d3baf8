# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Back-off: first, doubling, limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "want"), [(0, 1.0), (1, 2.0), (3, 8.0), (5, 30.0), (10_000, 30.0)]
)
def test_a_delay_doubles_until_its_limit(failures, want):
    assert Backoff(1.0, 30.0).after(failures) == want


@given(st.integers(0, 10_000))
def test_one_more_failure_never_shortens_the_delay_and_never_passes_the_limit_45(n):
    backoff = Backoff(0.005, 1000.0)
    assert backoff.after(n) <= backoff.after(n + 1) <= 1000.0
