# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The real control plane is what the other tests take it for."""

import subprocess
import sys
from pathlib import Path

import pytest

from hack import tools
from hack.admin import RefusedError, path_of, wait_for
from hack.process import Process

NPU = "huawei.com/Ascend910"


def pod(namespace, name, group, npus=8, **annotations):
    meta = {
        "name": name,
        "namespace": namespace,
        "annotations": {"scheduling.k8s.io/group-name": group, **annotations},
    }
    resources = {"limits": {NPU: str(npus)}, "requests": {NPU: str(npus)}}
    container = {"name": "ascend", "image": "none", "resources": resources}
    spec = {"schedulerName": "volcano", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def gang(namespace, name, members):
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": members, "minResources": {NPU: str(8 * members)}},
    }


def test_a_service_account_has_no_right_that_nobody_gave_it(plain, namespace):
    where = namespace(plain)
    with plain.admin() as admin:
        admin.token = admin.token_of(where, "nobody")
        with pytest.raises(RefusedError) as refused:
            admin.request("GET", f"/api/v1/namespaces/{where}/pods")
    assert refused.value.status == 403


def test_kubectl_reads_the_kubeconfig_and_finds_the_pinned_version(plain):
    kubectl = [tools.path("kubectl"), f"--kubeconfig={plain.kubeconfig}"]
    done = subprocess.run([*kubectl, "version"], capture_output=True, text=True, check=True)
    assert f"Server Version: {tools.KUBERNETES}" in done.stdout
    assert done.stderr == ""


def phase(admin, made):
    return admin.request("GET", path_of(made))["status"].get("phase")


def test_a_gang_that_does_not_fit_gets_nothing(full, namespace):
    where = namespace(full)
    with full.admin() as admin:
        group = admin.create(gang(where, "large", 4))
        pods = [admin.create(pod(where, f"large-{i}", "large")) for i in range(4)]
        wait_for(
            "Volcano says why",
            lambda: admin.request("GET", path_of(group)).get("status", {}).get("conditions"),
        )
        assert [phase(admin, each) for each in pods] == ["Pending"] * 4
        for made in (*pods, group):  # what is left of it would starve the next test
            admin.request("DELETE", path_of(made))


def test_a_gang_that_fits_runs_and_ends_as_its_pods_are_told(full, namespace):
    where = namespace(full)
    with full.admin() as admin:
        admin.create(gang(where, "small", 2))
        ends = {"ascendop.io/outcome": "succeed"}, {"ascendop.io/outcome": "fail"}
        pods = [admin.create(pod(where, f"s-{i}", "small", **end)) for i, end in enumerate(ends)]
        wait_for(
            "both pods have ended",
            lambda: [phase(admin, each) for each in pods] == ["Succeeded", "Failed"],
            timeout_s=60,
        )


def test_a_tethered_process_dies_with_whoever_started_it(tmp_path):
    """Also by signal 9, which no clean-up code survives."""
    program = (
        "import sys; from pathlib import Path; from hack.process import Process\n"
        f"child = Process('child', ['sleep', '60'], Path({str(tmp_path / 'child.log')!r}))\n"
        "child.start(); print(child.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    wait_for("the child is gone", lambda: not alive(pid), 5)


def alive(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def test_a_process_that_ended_is_reported_with_the_end_of_its_log(tmp_path):
    process = Process("sad", [sys.executable, "-c", "print('why'); exit(3)"], tmp_path / "log")
    process.start()
    process.wait()
    with pytest.raises(Exception, match="sad ended with code 3:\nwhy"):
        process.check()
