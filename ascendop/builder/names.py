# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every name that we give."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Final

MAX_NAME: Final = 63
"""Pod names double as host names and label values."""
HOST_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""A DNS-1035 label, which a Service's name has to be; a job's name may be more."""
VOLCANO_NAMESPACE: Final = "volcano-system"
RETRIES_CONFIG_MAP: Final = "vcjob-fault-npu-cm"
"""In Volcano's namespace: what its NPU plug-in has left of the retries of every job."""

_SWITCHED: Final = re.compile(r"-hot-\d{4}$")


def pod_name(job: str, role: str, index: int) -> str:
    """<job>-<role in lower case>-<index>; too long, it is cut and a hash of the whole is put on.

    Injective: two slots never share a name. Source: the training operators' contract for the
    short form; the long form would be refused by the API server as a host name.
    """
    return fit(f"{job}-{role.lower().replace('/', '-')}-{index}")


def backup_name(old: str, uid: str, taken: Collection[str]) -> str:
    """<old pod>-hot-<4 digits>, for the pod that is to take the place of the one of this uid.

    The digits come from the uid: whoever starts again after a crash comes to the same name, where
    the original took them from the clock and made a second pod. A name that is taken, by a backup
    that is still going, is counted on from. A pod that was such a backup itself keeps one ending:
    names do not grow with every switch.
    """
    base = _SWITCHED.sub("", old)[: MAX_NAME - len("-hot-0000")].rstrip("-.")
    first = int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=4).digest())
    names = (f"{base}-hot-{(first + tried) % 10_000:04}" for tried in range(10_000))
    return next(name for name in names if name not in taken)


def fit(name: str, limit: int = MAX_NAME) -> str:
    """The name itself, or its beginning and 8 hex digits of a hash where it is too long."""
    if len(name) <= limit:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{name[: limit - 9].rstrip('-.')}-{digest}"


def pod_group_name(job: str, uid: str) -> str:
    """<job>-<uid>: as ascend-operator calls them, and as the NPU plug-in keys its budgets."""
    return f"{job}-{uid}"


def rank_table_config_map(job: str) -> str:
    """The user's ConfigMap that takes the rank table."""
    return f"rings-config-{job}"
