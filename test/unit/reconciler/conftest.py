# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A town for each test."""

import pytest

from ..town import Town  # noqa: TID252  the standard library has a package called test


@pytest.fixture
async def town():
    town = Town()
    await town.install()
    yield town
    town.server.close()
