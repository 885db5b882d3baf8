# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which names lead where, and which pods are behind a ClusterIP."""

import pytest

from ascendop.sim.hosts import forward_table, hostname_of, hosts_file


def pod(name, namespace="ml", *, phase="Running", ready=True, ports=(), **spec):
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "labels": {"app": name.rpartition("-")[0]},
        },
        "spec": {"containers": [{"name": "c", "ports": list(ports)}], **spec},
        "status": {"phase": phase, "conditions": conditions},
    }


def service(name, namespace="ml", *, cluster_ip="None", ports=(), **spec):
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterIP": cluster_ip,
            "selector": {"app": name},
            "ports": list(ports),
            **spec,
        },
    }


PODS = [pod("job-0", subdomain="job"), pod("job-1", subdomain="job"), pod("far-0", "other")]
ADDRESSES = {"job-0": "10.244.0.2", "job-1": "10.244.0.3", "far-0": "10.244.0.4"}


def names(text):
    """Name → addresses, in the order of the file."""
    found = {}
    for line in text.splitlines():
        address, *each = line.split()
        for name in each:
            found.setdefault(name, []).append(address)
    return found


def test_pods_are_found_by_name_and_by_subdomain_in_all_lengths():
    found = names(hosts_file(PODS[0], PODS, [], ADDRESSES))
    long = ("job-1.job", "job-1.job.ml", "job-1.job.ml.svc", "job-1.job.ml.svc.cluster.local")
    for name in ("job-1", *long):
        assert found[name] == ["10.244.0.3"], name
    assert found["localhost"] == ["127.0.0.1", "::1"]


def test_the_pod_itself_comes_first_and_under_its_full_name():
    lines = hosts_file(PODS[1], PODS, [], ADDRESSES).splitlines()
    assert lines[2].startswith("10.244.0.3 job-1.job.ml.svc.cluster.local ")


def test_a_pod_of_another_namespace_needs_its_namespace():
    found = names(hosts_file(PODS[0], PODS, [], ADDRESSES))
    assert found["far-0.other"] == ["10.244.0.4"] and "far-0" not in found


def test_a_service_has_its_clusterip_and_a_headless_one_its_pods():
    services = [service("web", cluster_ip="10.96.0.9"), service("job")]
    found = names(hosts_file(PODS[0], PODS, services, ADDRESSES))
    for name in ("web", "web.ml", "web.ml.svc", "web.ml.svc.cluster.local"):
        assert found[name] == ["10.96.0.9"], name
    assert found["job"] == ["10.244.0.2", "10.244.0.3"]


def test_a_service_named_like_a_pod_wins_but_not_for_the_pod_itself():
    services = [service("job-1", cluster_ip="10.96.0.9")]
    assert names(hosts_file(PODS[0], PODS, services, ADDRESSES))["job-1"] == ["10.96.0.9"]
    own = names(hosts_file(PODS[1], PODS, services, ADDRESSES))["job-1"]
    assert own[0] == "10.244.0.3"


def test_an_ended_pod_has_no_name_any_more():
    ended = [pod("job-0"), pod("job-1", phase="Succeeded")]
    assert "job-1" not in names(hosts_file(ended[0], ended, [], ADDRESSES))


def test_host_aliases_are_there():
    aliased = pod("job-0", hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a", "b"]}])
    found = names(hosts_file(aliased, [aliased], [], ADDRESSES))
    assert found["a"] == found["b"] == ["1.2.3.4"]


def test_a_long_pod_name_is_cut_for_the_host_name():
    assert hostname_of(pod("a" * 62 + "-b")) == "a" * 62


@pytest.mark.parametrize(
    ("port", "want"),
    [
        ({"port": 80}, "10.244.0.2:80"),
        ({"port": 80, "targetPort": 8080}, "10.244.0.2:8080"),
        ({"port": 80, "targetPort": "8080"}, "10.244.0.2:8080"),
        ({"port": 80, "targetPort": "http"}, "10.244.0.2:9000"),
    ],
)
def test_a_port_leads_to_its_target(port, want):
    pods = [pod("web-0", ports=[{"name": "http", "containerPort": 9000}])]
    services = [service("web", cluster_ip="10.96.0.9", ports=[port])]
    assert forward_table(services, pods, {"web-0": "10.244.0.2"}) == {"10.96.0.9:80": [want]}


def test_only_ready_pods_get_connections_unless_the_service_says_otherwise():
    pods = [pod("web-0", ready=False)]
    closed = [service("web", cluster_ip="10.96.0.9", ports=[{"port": 80}])]
    assert forward_table(closed, pods, {"web-0": "10.244.0.2"}) == {"10.96.0.9:80": []}
    closed[0]["spec"]["publishNotReadyAddresses"] = True
    assert forward_table(closed, pods, {"web-0": "10.244.0.2"}) == {
        "10.96.0.9:80": ["10.244.0.2:80"]
    }


def test_udp_and_headless_services_are_not_forwarded():
    udp = {"port": 53, "protocol": "UDP"}
    services = [service("job", ports=[{"port": 1}]), service("u", cluster_ip="1", ports=[udp])]
    assert forward_table(services, PODS, ADDRESSES) == {}
