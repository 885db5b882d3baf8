# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a real server refuses: each job is told once, by a condition and an Event; all recover.

All the trouble is made at once, beside a job that has none; then all of it is taken away.
"""

import base64
import copy
import json
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hack.admin import MERGE, wait_for
from hack.jobs import Job

pytestmark = pytest.mark.timeout(400)
TOLD_S = 40.0
RECOVERS_S = 150.0
PODS = 3
LIMIT = 256 * 1024
"""Bytes of annotations that the server lets an object have."""


def job_of(**template):
    """An AscendJob of a Master and two Workers without NPUs."""
    container = {"name": "ascend", "image": "train:1"}
    pod = {"spec": {"containers": [container]}, **template}
    roles = {"Master": 1, "Worker": PODS - 1}
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {"name": "job", "labels": {"framework": "pytorch"}},
        "spec": {
            "replicaSpecs": {
                role: {"replicas": count, "template": copy.deepcopy(pod)}
                for role, count in roles.items()
            }
        },
    }


def quota(pods):
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": str(pods)}},
    }


def policy(name, namespace, rule):
    """A ValidatingAdmissionPolicy for the pods of one namespace, and its binding."""
    rules = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    match = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    return [
        {
            **head,
            "kind": "ValidatingAdmissionPolicy",
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": match,
                    "resourceRules": [{**rules, "resources": ["pods"]}],
                },
                "validations": [rule],
            },
        },
        {
            **head,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


class Says(BaseHTTPRequestHandler):
    """A webhook that lets no pod in."""

    def do_POST(self):  # the name is http.server's
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {
                "uid": asked["request"]["uid"],
                "allowed": False,
                "status": {"message": "images come from our own registry only"},
            },
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: the test tells what went wrong."""


@contextmanager
def webhook(folder):
    """An HTTPS server on loopback that refuses everything; its address and its CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    file = folder / "webhook.pem"
    file.write_bytes(
        pem
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server = HTTPServer(("127.0.0.1", 0), Says)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}/", pem.decode()
    finally:
        server.shutdown()
        server.server_close()


def webhook_configuration(name, namespace, url, ca):
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "images.example.org",
                "clientConfig": {"url": url, "caBundle": base64.b64encode(ca.encode()).decode()},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


@dataclass
class Trouble:
    """One way in which a server refuses what a job needs.

    says:   part of what the job's condition and Event say.
    """

    says: str
    reason: str = "PodCreateFailed"
    event: str = "FailedCreatePod"

    def job(self):
        return job_of()

    def make(self, admin, namespace):
        """Before the job."""

    def mend(self, admin, namespace, job):
        """What an administrator, or the job's owner, does about it."""


class Quota(Trouble):
    def make(self, admin, namespace):
        found = quota(0)
        found["metadata"]["namespace"] = namespace
        admin.create(found)
        path = f"/api/v1/namespaces/{namespace}/resourcequotas/few"
        wait_for("the quota counts", lambda: admin.request("GET", path).get("status"))

    def mend(self, admin, namespace, job):
        path = f"/api/v1/namespaces/{namespace}/resourcequotas/few"
        admin.request("PATCH", path, {"spec": {"hard": {"pods": "10"}}}, MERGE)


class Policy(Trouble):
    def make(self, admin, namespace):
        rule = {"expression": "false", "message": "no training on Mondays"}
        for obj in policy(f"no-{namespace}", namespace, rule):
            admin.create(obj)
        wait_until_refused(admin, namespace, "no training on Mondays")

    def mend(self, admin, namespace, job):
        base = "/apis/admissionregistration.k8s.io/v1"
        admin.request("DELETE", f"{base}/validatingadmissionpolicybindings/no-{namespace}")


class Webhook(Trouble):
    server: tuple[str, str]

    def make(self, admin, namespace):
        url, ca = self.server
        admin.create(webhook_configuration(f"hook-{namespace}", namespace, url, ca))
        wait_until_refused(admin, namespace, "our own registry")

    def mend(self, admin, namespace, job):
        base = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        admin.request("DELETE", f"{base}/hook-{namespace}")


class Security(Trouble):
    """The namespace allows restricted pods only, and these are not."""

    def make(self, admin, namespace):
        label = {"pod-security.kubernetes.io/enforce": "restricted"}
        patch = {"metadata": {"labels": label}}
        admin.request("PATCH", f"/api/v1/namespaces/{namespace}", patch, MERGE)

    def mend(self, admin, namespace, job):
        label = {"pod-security.kubernetes.io/enforce": None}
        patch = {"metadata": {"labels": label}}
        admin.request("PATCH", f"/api/v1/namespaces/{namespace}", patch, MERGE)


class Template(Trouble):
    """What the schema cannot know and the server refuses in a pod; `template` is mended by none."""

    template: dict

    def job(self):
        return job_of(**copy.deepcopy(self.template))

    def mend(self, admin, namespace, job):
        fresh = job_of()["spec"]["replicaSpecs"]
        found = job.stored
        found["spec"]["replicaSpecs"] = fresh
        admin.request("PUT", f"{group(namespace)}/ascendjobs/job", found)


class Foreign(Trouble):
    """Somebody else has the name of one of our pods."""

    def make(self, admin, namespace):
        pod = {"containers": [{"name": "main", "image": "other:1"}]}
        meta = {"name": "job-worker-1", "namespace": namespace}
        admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod})

    def mend(self, admin, namespace, job):
        path = f"/api/v1/namespaces/{namespace}/pods/job-worker-1"
        admin.request("DELETE", path, {"gracePeriodSeconds": 0})


def group(namespace):
    return f"/apis/mindxdl.gitee.com/v1/namespaces/{namespace}"


def wait_until_refused(admin, namespace, word):
    """Admission takes a moment to be in force."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "other:1"}]},
    }

    def refused():
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        return word in json.dumps(admin.ask("POST", path, pod)[1])

    wait_for(f"pods in {namespace} are refused", refused)


def template(cls_says, **template_):
    found = Template(cls_says)
    found.template = template_
    return found


CONTAINER = {"name": "ascend", "image": "train:1"}
TROUBLES = {
    "quota": Quota("exceeded quota: few"),
    "policy": Policy("no training on Mondays"),
    "webhook": Webhook("images come from our own registry only"),
    "security": Security('violates PodSecurity "restricted'),
    "label": template(
        "metadata.labels: Invalid value",
        metadata={"labels": {"team": "nobody's"}},
        spec={"containers": [CONTAINER]},
    ),
    "annotations": template(
        "metadata.annotations: Too long: may not be more than 262144 bytes",
        metadata={"annotations": {"big": "x" * (LIMIT - len("big"))}},
        spec={"containers": [CONTAINER]},
    ),
    "volume": template(
        "volumeMounts[0].name: Not found",
        spec={"containers": [{**CONTAINER, "volumeMounts": [{"name": "gone", "mountPath": "/x"}]}]},
    ),
    "priority": template(
        "no PriorityClass with name nothing was found",
        spec={"containers": [CONTAINER], "priorityClassName": "nothing"},
    ),
    "foreign": Foreign(
        'pods "job-worker-1" already exists and belongs to nobody; delete it or rename the job',
        event="ChildConflict",
    ),
}


@dataclass
class Case:
    """A job in trouble, as it was when it had been told, and as it is when that is over."""

    job: Job
    condition: dict
    told: list
    pods: list


@pytest.fixture(scope="module")
def cases(plain, folder, make_replica):
    """Every trouble at once, told; then mended. The job without any is called `none`."""
    made = folder("bad-input")
    with ExitStack() as stack:
        TROUBLES["webhook"].server = stack.enter_context(webhook(made))
        stack.enter_context(make_replica(plain, "--no-enable-gang-scheduling", name="bad-input"))
        admin = stack.enter_context(plain.admin())
        jobs = {}
        for name, trouble in {**TROUBLES, "none": Trouble("")}.items():
            namespace = f"bad-{name}"
            meta = {"name": namespace}
            admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
            stack.callback(admin.ask, "DELETE", f"/api/v1/namespaces/{namespace}")
            trouble.make(admin, namespace)
            jobs[name] = Job(admin, namespace, trouble.job())
            jobs[name].create()
        jobs["none"].wait_pods(PODS)
        found = {name: told(jobs[name], trouble) for name, trouble in TROUBLES.items()}
        for name, trouble in TROUBLES.items():
            trouble.mend(admin, f"bad-{name}", jobs[name])
        yield found


def told(job, trouble):
    """The job as it is once its condition and its Event are there, or when that took too long."""

    def last():
        return (job.status.get("conditions") or [{}])[-1]

    def warnings():
        return [note for reason, note in job.events if reason == trouble.event]

    with suppress(TimeoutError):
        wait_for("it is told", lambda: trouble.says in last().get("message", ""), TOLD_S)
        wait_for("it has an Event", warnings, TOLD_S)
    return Case(job, last(), warnings(), job.pods)


@pytest.mark.parametrize("name", TROUBLES)
def test_what_the_server_refuses_is_said_once_and_goes_by_itself(name, cases):
    case, trouble = cases[name], TROUBLES[name]
    assert trouble.says in case.condition["message"]
    assert (case.condition["type"], case.condition["reason"]) == ("Created", trouble.reason)
    (note,) = case.told
    assert trouble.says in note
    case.job.wait_pods(PODS, timeout_s=RECOVERS_S)
    assert all(pod["metadata"]["ownerReferences"] for pod in case.job.pods)


@pytest.mark.parametrize("name", sorted(set(TROUBLES) - {"foreign"}))
def test_of_a_job_that_is_refused_no_pod_is_made(name, cases):
    assert cases[name].pods == []


@pytest.mark.parametrize("replicas", [-1, 20_001])
def test_a_number_of_pods_that_nobody_can_mean_is_refused_with_its_bound(
    replicas, plain, operator, namespace
):
    operator(plain, "--no-enable-gang-scheduling")
    asked = job_of()
    asked["spec"]["replicaSpecs"]["Worker"]["replicas"] = replicas
    with plain.admin() as admin:
        job = Job(admin, namespace(plain), asked)
        job.create()
        failed = job.wait("Failed")
        assert str(replicas) in failed["message"]
        assert job.pods == []


@pytest.fixture
def job(plain, operator, namespace):
    """Make a job that runs without a gang: `job(change)`; with its operator and an admin."""
    with plain.admin() as admin:
        replica = operator(plain, "--no-enable-gang-scheduling")

        def make(change=lambda _job: None):
            asked = job_of()
            change(asked)
            made = Job(admin, namespace(plain), asked)
            made.create()
            made.wait_pods(PODS)
            wait_for("it has begun", lambda: made.status.get("startTime"))
            made.replica = replica
            return made

        yield make


def delete_pod(job, name):
    path = f"/api/v1/namespaces/{job.namespace}/pods/{name}"
    job.admin.request("DELETE", path, {"gracePeriodSeconds": 0})


def test_a_pod_that_somebody_deletes_comes_back(job):
    made = job()
    before = made.uids
    delete_pod(made, "job-worker-1")
    wait_for("it is another", lambda: made.uids.keys() == before.keys() and made.uids != before)
    after = made.uids
    assert {name for name in before if before[name] != after[name]} == {"job-worker-1"}


def test_a_job_whose_annotations_are_full_says_so_before_it_loses_count(job):
    """The generation could not be written down, so no pod of it may be made."""
    full = {"notes": "x" * (LIMIT - len("notes"))}
    made = job(lambda asked: asked["metadata"].update(annotations=full))
    delete_pod(made, "job-worker-1")

    def said():
        last = made.status["conditions"][-1]
        return "Too long: may not be more than 262144 bytes" in last["message"] and last

    assert wait_for("it is told", said)["reason"] == "PodCreateFailed"
    assert len(made.pods) == PODS - 1
    made.patch(made.stored, {"metadata": {"annotations": {"notes": "short"}}})
    made.wait_pods(PODS)
    assert {pod["metadata"]["labels"]["version"] for pod in made.pods} == {"0", "1"}


def test_a_namespace_that_goes_takes_its_job_with_it_and_no_other_suffers(job):
    made, other = job(), job()
    pod = made.pods[0]
    made.patch(pod, {"metadata": {"finalizers": ["example.org/held"]}})
    made.admin.request("DELETE", f"/api/v1/namespaces/{made.namespace}")
    wait_for("only what is held is left", lambda: made.pods == [])
    delete_pod(other, "job-worker-1")
    other.wait_pods(PODS)
    made.patch(pod, {"metadata": {"finalizers": None}})
    path = f"/api/v1/namespaces/{made.namespace}"
    wait_for("it is gone", lambda: made.admin.ask("GET", path)[0] == 404)
    log = made.replica.process.log.read_text()
    assert '"bug"' not in log
    assert "Traceback" not in log
