# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A town for each test, with Volcano's kinds: whether a job is a gang, its operator says."""

import pytest

from ..town import Town  # noqa: TID252  the standard library has a package called test


@pytest.fixture
async def town():
    town = Town()
    await town.install(volcano=True)
    yield town
    town.server.close()
