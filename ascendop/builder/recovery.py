# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Recovery variables of an AscendJob: what process-level recovery reads in the container.

Source: ascendjob.md section 5.8. The original appends them in random order; here sorted by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ascendop.api.model import Object
from ascendop.builder import labels as keys
from ascendop.builder.env import value

_PYTORCH_WORDS: Final = {
    "recover": "recover",
    "exit": "recover",
    "retry": "retry",
    "dump": "dump",
    "recover-in-place": "recover",
    "elastic-training": "elastic-training",
}
_MINDSPORE_WORDS: Final = {
    "recover": ("ARF:1",),
    "exit": ("ARF:1",),
    "retry": ("UCE:1", "HCCE:1"),
    "dump": ("TTP:1",),
    "recover-in-place": ("ARF:1",),
}


def recovery_env(
    framework: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    user: Iterable[Object],
) -> list[Object]:
    """Variables for one container; `user` is what the template itself sets."""
    found: dict[str, str] = {}
    theirs = {str(entry.get("name")): str(entry.get("value", "")) for entry in user}
    _process_recovery(found, framework, labels, annotations)
    _pod_rescheduling(found, framework, labels, theirs)
    _hot_switch(found, framework, labels, theirs)
    return [value(name, found[name]) for name in sorted(found)]


def _strategies(annotations: Mapping[str, str]) -> list[str]:
    """Words of the annotation, trimmed: clusterd trims them too, the original did not (E11)."""
    words = (word.strip() for word in annotations.get(keys.RECOVER_STRATEGY, "").split(","))
    return [word for word in words if word in _PYTORCH_WORDS]


def _process_recovery(
    found: dict[str, str], framework: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> None:
    if not annotations.get(keys.RECOVER_STRATEGY):
        return
    words = _strategies(annotations)
    if framework == "pytorch":
        found["HCCL_ASYNC_ERROR_HANDLING"] = "0"
        found["HIGH_AVAILABILITY"] = ",".join(sorted({_PYTORCH_WORDS[word] for word in words}))
    elif framework == "mindspore":
        words = [word for word in words if word in _MINDSPORE_WORDS]
        marks = {mark for word in words for mark in _MINDSPORE_WORDS[word]}
        if labels.get(keys.POD_RESCHEDULING) == "on":
            marks.add("RSC:1")
        found["MS_ENABLE_TFT"] = _braced(marks)
        found["MINDIO_FOR_MINDSPORE"] = "1"
        found["MS_ENABLE_THM"] = "{HCCL_WATCHDOG:0}"
    else:
        return
    if words:
        found["PROCESS_RECOVER"] = "on"
    if any(word != "elastic-training" for word in words):
        found["ELASTIC_PROCESS_RECOVER_ENABLE"] = "1"
    if "recover-in-place" in words:
        found["ENABLE_RESTART_FAULT_PROCESS"] = "on"


def _pod_rescheduling(
    found: dict[str, str], framework: str, labels: Mapping[str, str], theirs: Mapping[str, str]
) -> None:
    on = framework == "mindspore" and labels.get(keys.POD_RESCHEDULING) == "on"
    if on and "MS_ENABLE_TFT" not in found and "MS_ENABLE_TFT" not in theirs:
        found["MS_ENABLE_TFT"] = "{RSC:1}"


def _hot_switch(
    found: dict[str, str], framework: str, labels: Mapping[str, str], theirs: Mapping[str, str]
) -> None:
    if labels.get(keys.SUB_HEALTHY_STRATEGY) != "hotSwitch":
        return
    if framework == "pytorch":
        before = found.get("HIGH_AVAILABILITY", theirs.get("HIGH_AVAILABILITY", ""))
        words = {word.strip() for word in before.split(",") if word.strip()} | {"recover"}
        found["HIGH_AVAILABILITY"] = ",".join(sorted(words))
    elif framework == "mindspore":
        before = found.get("MS_ENABLE_TFT", theirs.get("MS_ENABLE_TFT", ""))
        marks = {mark.strip() for mark in before.strip("{} ").split(",") if mark.strip()}
        found["MS_ENABLE_TFT"] = _braced(marks | {"ARF:1"})
        found["MINDIO_FOR_MINDSPORE"] = "1"
    else:
        return
    found["PROCESS_RECOVER"] = "on"
    found["ELASTIC_PROCESS_RECOVER_ENABLE"] = "1"


def _braced(marks: Iterable[str]) -> str:
    return "{" + ",".join(sorted(marks)) + "}"
