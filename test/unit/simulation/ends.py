# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How a world ended, without what chance decides: names instead of uids, no times, no addresses."""

import json
import re
from pathlib import Path

from ascendop.builder import labels as keys
from ascendop.reconciler.attempts import Attempts

from .oracles import STRANGER  # noqa: TID252  the standard library has a package called test

TABLES = (
    "ascendjobs.mindxdl.gitee.com",
    "pytorchjobs.kubeflow.org",
    "mpijobs.kubeflow.org",
    "jobs.batch",
    "secrets",
    "podgroups.scheduling.volcano.sh",
    "pods",
    "services",
    "configmaps",
)
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ADDRESS = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b")
BACKUP = re.compile(r"-hot-\d{4}\b")
LAUNCHER = re.compile(r"-launcher-[a-z0-9]{5}\b")
NODE = re.compile(r"\bnode-\d+\b")
CHANCE = ("resourceVersion", "managedFields", "uid", "generation")
HARDWARE = ("ascend.kubectl.kubernetes.io/", "huawei.com/")
"""Annotations of the device plugin: which devices a pod got is the scheduler's doing."""
NOTHING_LOST = keys.ATTEMPT_ANNOTATION, Attempts().text()
"""Stands there after a scale-up that was seen to begin; it says no more than no annotation."""
CHANCES = (*HARDWARE, f"{STRANGER}/")


def end_of(world):
    """Every object that the operator has a say in, by table and name."""
    uids = {
        obj["metadata"]["uid"]: f"uid-of-{obj['kind']}-{obj['metadata']['name']}"
        for table in TABLES
        for obj in world.objects(table)
    }
    found = {f"{table} {name}": obj for table in TABLES for name, obj in _plain(world, table, uids)}
    return found | _shelf(world)


def _shelf(world):
    """The files of the shared directory, if there is one."""
    root = world.settings.rank_table_dir
    if not root:
        return {}
    files = (path for path in sorted(Path(root).rglob("*")) if path.is_file())
    return {
        f"file {path.relative_to(root)}": ADDRESS.sub("ADDRESS", path.read_text())
        for path in files
        if path.name != "version"
    }


def _plain(world, table, uids):
    for obj in world.objects(table):
        meta = {key: v for key, v in obj["metadata"].items() if key not in CHANCE}
        for field in ("labels", "annotations"):
            if field in meta:
                meta[field] = {
                    k: v
                    for k, v in meta[field].items()
                    if not k.startswith(CHANCES) and (k, v) != NOTHING_LOST
                }
            if not meta.get(field):
                meta.pop(field, None)
        text = json.dumps({**obj, "metadata": meta, **_status(obj)}, sort_keys=True)
        for uid, name in uids.items():
            text = text.replace(uid, name)
        for pattern, word in (
            (TIME, "TIME"),
            (ADDRESS, "ADDRESS"),
            (NODE, "NODE"),
            (BACKUP, "-hot-DIGITS"),
            (LAUNCHER, "-launcher-LETTERS"),
        ):
            text = pattern.sub(word, text)
        plain = json.loads(text)
        yield plain["metadata"]["name"], {**plain, **_data(table, plain)}


def _data(table, obj):
    """Without the time in a table's version, and without keys that are made by chance."""
    found = obj.get("data") or {}
    if table == "secrets":
        return {"data": sorted(found)}
    return {"data": {k: v for k, v in found.items() if k != "version"}} if found else {}


def _status(obj):
    """What of it the operator decides: of pods only the phase, the rest is their node's."""
    status = obj.get("status") or {}
    if obj["kind"] in {"Pod", "PodGroup"}:
        return {"status": {"phase": status.get("phase")}}
    if obj["kind"] == "Job":
        ends = [c["type"] for c in status.get("conditions") or () if c["status"] == "True"]
        return {"status": {"is": ends}}
    if "conditions" not in status or obj["kind"] not in {"AscendJob", "PyTorchJob", "MPIJob"}:
        return {}
    # What Created says, and where it stands, depends on who saw the job wait, and how often.
    conditions = sorted(
        (
            {"type": "Created", "status": c["status"]} if c["type"] == "Created" else c
            for c in status["conditions"]
            if not _is_weather(c)
        ),
        key=lambda c: c["type"] != "Created",
    )
    rest = {key: value for key, value in status.items() if key != "lastReconcileTime"}
    return {"status": {**rest, "conditions": conditions}}


def _is_weather(condition):
    """That a rank table was late, and stands: on a calm day it is not said."""
    return condition["type"] == "RankTableReady" and condition["status"] == "True"


def difference(one, other):
    """What differs, one line for each field."""
    return "\n".join(_lines(one, other, ""))


def _lines(one, other, path):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _lines(one.get(key), other.get(key), f"{path}/{key}")
    elif one != other:
        yield f"{path}: {_short(one)} != {_short(other)}"


def _short(value):
    text = json.dumps(value, sort_keys=True)
    return text if len(text) < 600 else f"{text[:600]} …"
