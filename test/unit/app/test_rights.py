# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which rights are asked for at the start."""

from ascendop.app.operator import job_resources
from ascendop.app.rights import _needed
from ascendop.schema.rbac import LAUNCH_CALLS
from ascendop.settings import Settings


def needed(*kinds, **settings):
    found = Settings(kinds=kinds, **settings)
    return {str(right) for right in _needed(found, list(job_resources(found)), "ascendop")}


def test_what_a_launcher_needs_is_asked_for_where_there_may_be_one():
    """mpijob:W-17: or jobs would wait for caches that never fill, and nobody would know why."""
    plain, launching = needed("AscendJob"), needed("MPIJob")
    beside = {"patch jobs.batch/status", "create jobs.batch", "watch secrets", "create configmaps"}
    assert beside <= launching and not beside & plain
    told = {call.resource.plural for call in LAUNCH_CALLS} - {"podgroups"}
    asked = {right.split()[1].replace(".batch", "") for right in launching}
    assert told <= asked


def test_who_is_to_delete_keys_is_asked_whether_it_may():
    """mpijob:W-15"""
    assert "delete secrets" not in needed("MPIJob")
    assert "delete secrets" in needed("MPIJob", mpi_delete_keys=True)


def test_in_one_namespace_it_is_asked_for_there():
    assert "list secrets in team" in needed("MPIJob", namespaces=("team",))
