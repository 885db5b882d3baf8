# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How long a job rests between two looks at it."""

import pytest

from ascendop.reconciler.pace import ECHO_S, GATHER_S, SHARE, Haste, Pace

TOOK_S = 0.1


@pytest.fixture
def pace():
    made = Pace()
    made.decided("job", 10.0, TOOK_S)
    return made


def test_a_job_rests_longer_the_more_a_look_costs(pace):
    assert pace.rest_s("job", Haste.CALM, 99.0) == pytest.approx(SHARE * TOOK_S)
    assert pace.rest_s("unknown", Haste.CALM, 99.0) == GATHER_S
    assert pace.rest_s("unknown", Haste.ECHO, 99.0) == ECHO_S


def test_what_is_urgent_does_not_rest(pace):
    assert pace.rest_s("job", Haste.NOW, 10.0) == 0


@pytest.mark.parametrize(("now", "want"), [(10.0, 0.3), (10.1, 0.2), (10.3, 0.0), (99.0, 0.0)])
def test_what_somebody_may_wait_for_rests_only_since_the_last_look(pace, now, want):
    assert pace.rest_s("job", Haste.LIKELY, now) == pytest.approx(want)


def test_a_job_that_was_never_looked_at_need_not_rest(pace):
    assert pace.rest_s("unknown", Haste.LIKELY, 10.0) == 0
