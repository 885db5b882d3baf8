# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A yard for each test."""

import pytest

from .yard import Yard  # noqa: TID252  the standard library has a package called test


@pytest.fixture
async def yard():
    yard = Yard()
    await yard.install()
    yield yard
    yard.server.close()
