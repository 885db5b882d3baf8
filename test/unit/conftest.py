# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every async test runs on a loop whose time jumps, unless it is marked real_time."""

import asyncio

from ascendop.sim.loop import JumpingLoop


def pytest_asyncio_loop_factories(config, item):
    if item.get_closest_marker("real_time"):
        return {"real": asyncio.new_event_loop}
    return {"jumping": JumpingLoop}
