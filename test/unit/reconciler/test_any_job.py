# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""No job, however odd, is a bug of ours: it is decided about, and its owner is told.

The schema leaves templates open, and an older one in the cluster leaves more; so any value may
stand anywhere. The jobs are those that were recorded, with one to three places spoiled.
"""

import copy
import json
from pathlib import Path
from random import Random  # noqa: TID251  seeded

import pytest
import yaml

from ascendop.builder import labels as keys
from ascendop.builder.ascend_rules import MAX_CHIPS
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test

RECORDED = Path(__file__).parents[2] / "e2e" / "recorded"
FILES = sorted(f for kind in ("ascendjob", "pytorchjob") for f in RECORDED.glob(f"{kind}/*.job.y*"))
HUGE = "9" * 5000
ODD = (
    None, [], {}, "", -1, 0, 5000, 2**31, 2**63, 1.5, True, "8", "-1", "1Ki", "0x10", "many",
    "1e999999999", HUGE, "x" * 300, "\u0000", "é", [None], [[]], [{}], [1],
    {"a": None}, {"name": None},
)  # fmt: skip
"""Values that somebody may write anywhere in a spec."""
WORDS = (
    "", "0", "1", "2", "-1", "on", "soft", "x", "x" * 300, HUGE, "²", "NaN", "null", "[]", "{}",
    "hotSwitch", "multilevel", "level1=2,level2=", "recover,, dump,retry", '{"devices":[null]}',
    '{"attempt":-5}', '{"attempt":1e99}', '{"attempt":1,"slots":[],"known":{"master":-4}}',
    '{"server_id":1,"devices":[{"device_id":"²","device_ip":"1"}]}',
)  # fmt: skip
"""Values of labels and annotations."""
KEYS = tuple(v for k, v in sorted(vars(keys).items()) if k.isupper() and isinstance(v, str))
DEVICES = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
RIGHT = json.dumps({
    "pod_name": "p",
    "server_id": "s",
    "host_ip": "10.0.0.1",
    "devices": [{"device_id": "0", "device_ip": "10.0.0.2"}],
})  # fmt: skip


@pytest.fixture(scope="module")
def recorded():
    return [job for file in FILES for job in yaml.safe_load_all(file.read_text()) if job]


def places(value, path=()):
    """Paths of everything in a manifest."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, found in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(found, (*path, key))


def spoil(job, rng):
    """Put something odd somewhere."""
    meta, paths = job["metadata"], list(places(job["spec"]))
    if not paths or rng.random() < 0.4:
        of = rng.choice(("labels", "annotations"))
        meta[of] = {**(meta.get(of) or {}), rng.choice(KEYS): rng.choice(WORDS)}
        return
    *way, last = rng.choice(paths)
    inner = job["spec"]
    for key in way:
        inner = inner[key]
    inner[last] = copy.deepcopy(rng.choice(ODD))


def pod_of(made, rng):
    """The pod after a while, with what others wrote on it."""
    labels = made["metadata"]["labels"]
    annotations = {DEVICES: rng.choice((RIGHT, *WORDS)), keys.RANK_INDEX: rng.choice(WORDS)}
    return make.pod(
        labels[keys.REPLICA_TYPE],
        int(labels[keys.REPLICA_INDEX]),
        rng.choice(("", "Pending", "Running", "Succeeded", "Failed", "Odd")),
        name=made["metadata"]["name"],
        annotations=tuple((annotations | {rng.choice(KEYS): rng.choice(WORDS)}).items()),
        ip=rng.choice(("", "10.1.0.1")),
        npus=rng.choice((0, 1, 8)),
    )


def seeds():
    yield from range(20)
    for seed in range(20, 400):
        yield pytest.param(seed, marks=pytest.mark.long)


@pytest.mark.parametrize("seed", list(seeds()))
def test_no_job_is_a_bug(seed, recorded):
    """Fifty jobs a seed."""
    rng = Random(seed)
    for _ in range(50):
        job = copy.deepcopy(rng.choice(recorded))
        for _ in range(rng.randint(1, 3)):
            spoil(job, rng)
        plan = decide(make.snapshot(job))
        first = make.concluded(plan)
        pods = [pod_of(made, rng) for made in make.created(plan).values()]
        status = {"startTime": "2026-01-01T00:00:00Z"}
        make.concluded(decide(make.snapshot(job, pods=pods, status=status)))
        assert first is None or first.status["conditions"], "its owner is told"


@pytest.mark.parametrize("chips", [MAX_CHIPS + 1, 2**31, "1Ti", "1e18"])
def test_no_slip_of_the_pen_fills_our_memory(chips):
    """LOCAL_RANK has a number for each of a pod's chips."""
    job = make.job(Master=1, Worker=make.replica(1, make.container(npus=chips)))
    conclusion = make.concluded(decide(make.snapshot(job)))
    last = conclusion.status["conditions"][-1]
    assert (last["type"], last["reason"]) == ("Failed", "JobValidFailed")
    assert "ascend asks for" in last["message"]
    assert last["message"].endswith(f"no node has more than {MAX_CHIPS}; ask for those of one pod")


def test_as_many_chips_as_a_pod_may_have_are_all_named():
    job = make.job(Master=make.replica(1, make.container(npus=MAX_CHIPS)))
    (pod,) = make.created(decide(make.snapshot(job))).values()
    assert make.env_of(pod)["LOCAL_RANK"].endswith(f",{MAX_CHIPS - 1}")


def test_a_job_without_a_role_waits():
    """PyTorchJob accepts an empty map, and so did the original."""
    job = make.torch_job(spec={"pytorchReplicaSpecs": {}})
    conclusion = make.concluded(decide(make.snapshot(job)))
    assert make.conditions(conclusion) == [("Created", "True", "PyTorchJobCreated")]
