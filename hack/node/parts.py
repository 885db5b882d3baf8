# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The programs of a node: their command lines and their configuration.

The settings that look odd were each found by a failure on a machine without cgroup v2, AppArmor,
CAP_SYS_RESOURCE or an image registry.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hack import tools
from hack.node.layout import DNS, SERVICES, Layout

ETCD = "http://127.0.0.1:2379"
PEER = "http://127.0.0.1:2380"
CONTROL_PLANE = ("etcd", "apiserver", "kcm", "scheduler", "coredns")
QUICK = ("--kube-api-qps=200", "--kube-api-burst=400", "--leader-elect=false")
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What kubelet wants of the whole machine; it is shown files with these values instead."""


def command(node: Layout, part: str, *, toleration_s: int = 300) -> list[str]:
    """How to start a part.

    toleration_s:  how long pods tolerate a node that is not ready, unless they say otherwise.
    """
    tolerations = (
        f"--default-not-ready-toleration-seconds={toleration_s}",
        f"--default-unreachable-toleration-seconds={toleration_s}",
    )
    found = _FLAGS[part](node)
    return [*found, *tolerations] if part == "apiserver" else found


def _etcd(node: Layout) -> list[str]:
    return [
        str(tools.path("etcd")),
        f"--data-dir={node.run / 'etcd'}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        f"--listen-peer-urls={PEER}",
        f"--initial-advertise-peer-urls={PEER}",
        f"--initial-cluster=default={PEER}",
    ]


def _apiserver(node: Layout) -> list[str]:
    pki = node.run / "pki"
    return [
        str(tools.path("kube-apiserver")),
        f"--etcd-servers={ETCD}",
        "--bind-address=0.0.0.0",
        "--secure-port=443",
        f"--advertise-address={node.ip}",
        f"--service-cluster-ip-range={SERVICES}",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--shutdown-delay-duration=0s",
    ]


def _controllers(node: Layout) -> list[str]:
    pki = node.run / "pki"
    return [
        str(tools.path("kube-controller-manager")),
        f"--kubeconfig={node.run / 'kcm.kubeconfig'}",
        "--bind-address=127.0.0.1",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        # The bootstrap roles belong to the controllers' own accounts.
        "--use-service-account-credentials=true",
        f"--flex-volume-plugin-dir={node.run / 'kubelet' / 'volume-plugins'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=12s",
        *QUICK,
    ]


def _scheduler(node: Layout) -> list[str]:
    kubeconfig = f"--kubeconfig={node.run / 'scheduler.kubeconfig'}"
    return [str(tools.path("kube-scheduler")), kubeconfig, "--bind-address=127.0.0.1", *QUICK]


def _coredns(node: Layout) -> list[str]:
    return [str(tools.path("coredns")), "-conf", str(node.run / "conf" / "Corefile")]


def _runtime(node: Layout) -> list[str]:
    return ["containerd", "-c", str(node.run / "conf" / "containerd.toml")]


def _node_agent(node: Layout) -> list[str]:
    return [
        str(tools.path("kubelet")),
        f"--config={node.run / 'conf' / 'kubelet.yaml'}",
        f"--kubeconfig={node.run / 'kubelet.kubeconfig'}",
        f"--root-dir={node.run / 'kubelet'}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.ip}",
    ]


def _proxy(node: Layout) -> list[str]:
    return [
        str(tools.path("kube-proxy")),
        f"--kubeconfig={node.run / 'proxy.kubeconfig'}",
        "--proxy-mode=iptables",
        f"--hostname-override={node.name}",
        # A pod answers its neighbour over the bridge, past the rules that changed the way.
        "--masquerade-all",
        # These would be settings of the whole machine.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
        "--iptables-sync-period=5s",
        "--iptables-min-sync-period=100ms",
    ]


_FLAGS: dict[str, Callable[[Layout], list[str]]] = {
    "etcd": _etcd,
    "apiserver": _apiserver,
    "kcm": _controllers,
    "scheduler": _scheduler,
    "coredns": _coredns,
    "containerd": _runtime,
    "kubelet": _node_agent,
    "proxy": _proxy,
}


def configure(node: Layout) -> None:
    """Write the files that the parts read."""
    conf = node.run / "conf"
    made = [node.run / name for name in ("cni", "manifests", "logs", "ended")]
    for folder in (conf, *made, node.store):
        folder.mkdir(parents=True, exist_ok=True)
    (conf / "containerd.toml").write_text(_containerd(node))
    (node.run / "cni" / "10-pods.conflist").write_text(json.dumps(_network(node)))
    (conf / "resolv.conf").write_text("")
    (conf / "kubelet.yaml").write_text(json.dumps(_kubelet(node)))
    (conf / "Corefile").write_text(_corefile(node))


def _containerd(node: Layout) -> str:
    absent = ("snapshotter.v1.btrfs", "snapshotter.v1.zfs", "snapshotter.v1.devmapper",
              "snapshotter.v1.aufs", "internal.v1.tracing")  # fmt: skip
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""
version = 2
root = "{node.store / "containerd"}"
state = "/run/containerd"
oom_score = 0
disabled_plugins = {json.dumps([f"io.containerd.{name}" for name in absent])}
[grpc]
address = "{node.containerd}"
[plugins."io.containerd.internal.v1.opt"]
path = "{node.store / "opt"}"
[{cri}]
sandbox_image = "localhost/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true
disable_tcp_service = true
netns_mounts_under_state_dir = true
[{cri}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
SystemdCgroup = false
[{cri}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{node.run / "cni"}"
max_conf_num = 1
"""


def _network(node: Layout) -> dict[str, Any]:
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam",
        "ranges": [[{"subnet": node.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{**bridge, "ipam": ipam}]}


def _kubelet(node: Layout) -> dict[str, Any]:
    pki = node.run / "pki"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet-serving.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet-serving.key"),
        "containerRuntimeEndpoint": f"unix://{node.containerd}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.name}",
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": False,
        "failCgroupV1": False,
        "protectKernelDefaults": True,
        "clusterDomain": "cluster.local",
        "clusterDNS": [DNS],
        "resolvConf": str(node.run / "conf" / "resolv.conf"),
        "podLogsDir": str(node.run / "podlogs"),
        "volumePluginDir": str(node.run / "kubelet" / "volume-plugins"),
        "staticPodPath": str(node.run / "manifests"),
        "maxPods": 200,
        "registryPullQPS": 0,
        "serializeImagePulls": False,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "10s",
        "nodeLeaseDurationSeconds": 8,
        "syncFrequency": "10s",
        # Nobody could pull an image again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "imageMinimumGCAge": "1000h",
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "2%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "2%",
            "imagefs.inodesFree": "1%",
        },
        "featureGates": {
            "KubeletCrashLoopBackOffMax": True,
            "ReduceDefaultCrashLoopBackOffDecay": True,
        },
        "crashLoopBackOff": {"maxContainerRestartPeriod": "5s"},
    }


def _corefile(node: Layout) -> str:
    # The catch-all has a block of its own: within one block `template` would answer first.
    return f"""
cluster.local:53 in-addr.arpa:53 {{
  bind {DNS}
  errors
  ready {node.ip}:8181
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {node.run / "coredns.kubeconfig"} node
    pods insecure
    ttl 0
  }}
}}
.:53 {{
  bind {DNS}
  template ANY ANY . {{
    rcode NXDOMAIN
  }}
}}
"""
