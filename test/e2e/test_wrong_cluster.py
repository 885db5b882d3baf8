# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A real API server that does not let the operator work: one sentence, exit code 3."""

import copy
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ascendop.kinds import load_kinds
from ascendop.schema.rbac import cluster_rights, namespaced_rights
from hack.controlplane import ROOT

ENDS_S = 60


def run(kubeconfig, *flags):
    """Exit code and the last line of `ascendop run`, which ends by itself."""
    command = [
        *(sys.executable, "-m", "ascendop", "run", f"--kubeconfig={kubeconfig}"),
        *("--metrics-listen=", "--health-listen=", "--log-level=error", *flags),
    ]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=ENDS_S
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    (line,) = ended.stderr.splitlines()
    return ended.returncode, line.removeprefix("ascendop: ")


def account(plane, namespace, rights=()):
    """The kubeconfig of a ServiceAccount called after its namespace, with these rights."""
    file = plane.service_account(namespace, namespace)
    with plane.admin() as admin:
        for found in rights:
            made = copy.deepcopy(found)
            made["metadata"]["name"] = namespace
            if not made["kind"].startswith("Cluster"):
                made["metadata"]["namespace"] = namespace
            if "roleRef" in made:
                made["roleRef"]["name"] = namespace
                made["subjects"][0] |= {"name": namespace, "namespace": namespace}
            admin.apply(made)
    return file


def certificate_of_somebody_else():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody else")])
    since = datetime(2020, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(since + timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def without(rights, verb, resource):
    """The same rights but for one verb on one resource."""
    found = copy.deepcopy(rights)
    for rule in found[0]["rules"]:
        if resource in rule["resources"] and verb in rule["verbs"]:
            rest = [name for name in rule["resources"] if name != resource]
            found[0]["rules"].append({**rule, "resources": rest})
            rule["resources"] = [resource]
            rule["verbs"] = [name for name in rule["verbs"] if name != verb]
    return found


def test_a_token_without_rights(plain, namespace):
    code, said = run(account(plain, namespace(plain)))
    assert code == 3
    assert said.startswith("no right to list pods cluster-wide: pods is forbidden: User ")
    assert said.endswith("or name the namespaces that Roles cover with --namespaces")


def test_a_token_that_nobody_knows(plain):
    code, said = run(plain.kubeconfig_of("stranger", "stranger"))
    assert (code, said) == (
        3,
        f"{plain.server} does not let us in: Unauthorized; check token or certificate",
    )


def test_one_missing_right_is_named(plain, namespace):
    where = namespace(plain)
    rights = without(cluster_rights(load_kinds()), "create", "pods")
    code, said = run(account(plain, where, rights), "--no-leader-elect")
    assert code == 3
    assert said.startswith("the right is missing to create pods; kubectl apply --server-side -k")


def test_the_lease_needs_rights_of_its_own(plain, namespace):
    where = namespace(plain)
    file = account(plain, where, cluster_rights(load_kinds()))
    code, said = run(file, f"--lease-namespace={where}")
    assert code == 3
    assert f"to get leases.coordination.k8s.io in {where}, create leases" in said


def test_roles_of_one_namespace_do_not_reach_into_another(plain, namespace):
    where = namespace(plain)
    file = account(plain, where, namespaced_rights(load_kinds())[:2])
    code, said = run(file, "--no-leader-elect", f"--namespaces={where},default")
    assert code == 3
    assert said.startswith("no right to list pods in namespace default: ")


def test_a_certificate_of_somebody_else(plain, tmp_path):
    config = yaml.safe_load(plain.kubeconfig.read_text())
    (tmp_path / "ca.crt").write_text(certificate_of_somebody_else())
    config["clusters"][0]["cluster"]["certificate-authority"] = str(tmp_path / "ca.crt")
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    code, said = run(file)
    assert code == 3
    assert said.startswith(f"cannot reach {plain.server}: ")
    assert "is not trusted: self-signed certificate" in said


def test_a_port_that_is_taken(plain, operator):
    first = operator(plain)
    code, said = run(plain.kubeconfig, f"--metrics-listen=127.0.0.1:{first.metrics_port}")
    assert (code, said.endswith("choose another address with --metrics-listen")) == (2, True), said


def test_a_namespace_for_the_lease_that_is_not_there(plain):
    code, said = run(plain.kubeconfig, "--lease-namespace=nowhere")
    assert code == 3
    assert said.startswith("there is no namespace nowhere for the lease; make it, or name another")
