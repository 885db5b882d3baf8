# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whatever a person types wrong is one sentence that says what to do, and an exit code."""

import asyncio
import io
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import SystemRandom  # noqa: TID251  a server wants some

import pytest
import yaml

from ascendop.cli.main import main
from ascendop.clock import wall
from ascendop.sim.http import serve
from ascendop.sim.server import ApiServer

from .. import make  # noqa: TID252  the standard library has a package called test

VERBS_WITH_FILES = ("render", "local", "simulate")
HEAD = "apiVersion: mindxdl.gitee.com/v1\nkind: AscendJob\nmetadata: {name: j}\n"


@pytest.fixture
def typed(capsys, monkeypatch, tmp_path):
    """Type a command; exit code and what standard error got. Nothing goes to standard output."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)

    def type_(*arguments, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        assert out == ""
        return code, err

    return type_


def sentence(err):
    """The one line there is, without our name."""
    (line,) = err.splitlines()
    assert line.startswith("ascendop: ")
    return line.removeprefix("ascendop: ")


def job_file(folder):
    file = folder / "job.yaml"
    roles = {role: make.replica(1, command=["true"]) for role in ("Master", "Worker")}
    file.write_text(yaml.safe_dump(make.job(**roles)))
    return str(file)


# ── flags ──


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param([], "required: VERB; ascendop --help tells", id="no verb"),
        pytest.param(["frobnicate"], "invalid choice: 'frobnicate'", id="no such verb"),
        pytest.param(
            ["run", "--worker", "3"],
            "--worker is not known here, perhaps --workers is meant; ascendop run --help tells",
            id="a flag that is nearly one",
        ),
        pytest.param(["render"], "required: FILE; ascendop render --help tells", id="no file"),
        pytest.param(["render", "-o", "xml", "f"], "invalid choice: 'xml'", id="no such format"),
        pytest.param(["render", "-n", "A b", "f"], "--namespace: is 'A b', a text", id="namespace"),
        pytest.param(["local", "--port", "70000", "f"], "70000 is no port, write 0", id="port"),
        pytest.param(["local", "--timeout", "nan", "f"], "nan is no number of seconds", id="nan"),
        pytest.param(["local", "--log-level", "loud", "f"], "invalid choice: 'loud'", id="level"),
        pytest.param(["simulate", "--seed", "x", "f"], "invalid int value: 'x'", id="seed"),
        pytest.param(["run", "--kinds", "Foo"], "Foo is no job kind; choose of Asc", id="kinds"),
        pytest.param(["run", "--workers", "0"], "--workers=0: should be greater", id="bounds"),
        pytest.param(["run", "--metrics-listen", "x"], "must be host:port", id="listen"),
        pytest.param(["run", "--config", "gone"], "gone: No such file", id="no settings file"),
    ],
)
def test_a_wrong_flag(typed, words, want):
    code, err = typed(*words)
    assert (code, want in sentence(err)) == (2, True), err


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param(("--nodes", "many"), "'many' does not say which nodes", id="nodes"),
        pytest.param(("--duration", "1d"), "--duration '1d' is no duration; write", id="duration"),
        pytest.param(("--fail", "j-0"), "write POD=CODE", id="fail"),
        pytest.param(("--chaos", "200"), "write a number from 0 to 100", id="chaos"),
        pytest.param(("--faults", "2"), "write a share from 0", id="faults"),
    ],
)
def test_a_scenario_that_is_none(typed, tmp_path, flags, want):
    code, err = typed("simulate", *flags, job_file(tmp_path))
    assert (code, want in sentence(err)) == (2, True), err


@pytest.mark.parametrize("verb", ["run", "local", "simulate", "render", "manifests", "version"])
def test_every_verb_has_help_and_knows_no_strangers(typed, capsys, verb):
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert (ended.value.code, verb in capsys.readouterr().out) == (0, True)
    code, err = typed(verb, "--stranger=1", *(["f"] if verb in VERBS_WITH_FILES else []))
    assert (code, "--stranger is not known here" in sentence(err)) == (2, True)


# ── files ──


@pytest.mark.parametrize("verb", VERBS_WITH_FILES)
def test_every_verb_reads_files_the_same_way(typed, tmp_path, verb):
    code, err = typed(verb, str(tmp_path / "gone"), "-", stdin="a:\n\tb: 1\n")
    assert (code, err.splitlines()) == (
        2,
        [
            f"ascendop: {tmp_path}/gone: No such file or directory; name a file that can be read",
            "standard input, document 1, line 2: there is a tab; indent with spaces",
        ],
    )


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(None, "No such file or directory; name a file that can be read", id="gone"),
        pytest.param("", "there is no object; write apiVersion", id="empty"),
        pytest.param("hello\n", "is 'hello', a text; write an object", id="prose"),
        pytest.param("- a\n", "is a list; write an object", id="a list"),
        pytest.param("a:\n\tb: 1\n", "line 2: there is a tab; indent with spaces", id="a tab"),
        pytest.param("a: 1\na: 2\n", "the key a is there twice", id="a key twice"),
        pytest.param("? [a]\n: 1\n", "line 1: is no YAML", id="a list as a key"),
        pytest.param("a: !!python/name:os.system x", "is no YAML", id="a tag of a language"),
        pytest.param("[" * 600, "is nested too deeply", id="a deep hole"),
        pytest.param("kind: List\nitems: 3\n", "items: is 3, a number", id="a List of nothing"),
        pytest.param(
            HEAD.replace("{name: j}", "{}"), "metadata.name: is missing", id="without a name"
        ),
        pytest.param(
            HEAD.replace("name: j", "name: ../pods"), "metadata.name: is '../pods'", id="a path"
        ),
        pytest.param(
            HEAD.replace("name: j", "name: j, namespace: 5"),
            "metadata.namespace: is 5, a number; write a name",
            id="a namespace that is a number",
        ),
        pytest.param(HEAD + "spec: &a {x: *a}\n", "spec.x: contains itself", id="a ring"),
        pytest.param(HEAD + "spec: {x: 9e99, y: [.nan]}\n", "spec.y[0]: is nan", id="no number"),
        pytest.param(HEAD + f"spec: {{x: {9**40}}}\n", "beyond 64 bits", id="a large number"),
        pytest.param(HEAD + "spec: {x: !!binary aGk=}\n", "spec.x: is a bytes", id="bytes"),
        pytest.param(HEAD + 'spec: {x: "\\ud800"}\n', "spec.x: holds half a", id="a surrogate"),
        pytest.param(HEAD + "spec: {1: x}\n", "spec.1: the key is 1, a number", id="a number key"),
    ],
)
def test_a_wrong_file(typed, tmp_path, content, want):
    file = tmp_path / "job.yaml"
    if content is not None:
        file.write_text(content)
    code, err = typed("render", str(file))
    assert (code, want in sentence(err)) == (2, True), err
    assert sentence(err).startswith(str(file))


def test_a_folder_instead_of_a_file(typed, tmp_path):
    code, err = typed("render", str(tmp_path))
    assert (code, sentence(err)) == (2, f"{tmp_path}: is a directory; name the files in it")


def test_folders_that_cannot_be_written(typed, tmp_path):
    file = job_file(tmp_path)
    for words in (("manifests", "--out", file), ("local", "--root", file, file)):
        code, err = typed(*words)
        assert (code, "name a" in sentence(err)) == (2, True), err


@pytest.mark.real_time
def test_a_kind_that_is_not_served_and_every_other_refusal_is_told_at_once(typed, tmp_path):
    file = tmp_path / "jobs.yaml"
    beside = {"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "g"}}
    bad = make.job(name="bad")
    bad["spec"]["replicaSpecs"]["Master"]["replicas"] = "one"
    file.write_text(yaml.safe_dump_all([beside, make.job(), bad]))
    code, err = typed("simulate", str(file))
    first, second = err.splitlines()
    assert code == 2
    assert first == (
        f"ascendop: {file}, document 1: v1 Gadget is not served here; "
        "job kinds are AscendJob, MPIJob, PyTorchJob"
    )
    assert second.startswith(f"{file}, document 3: ")
    assert "spec.replicaSpecs.Master.replicas" in second


def test_containers_that_say_nothing_to_run(typed, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(make.job(Master=make.replica(1, command=["true"]), Worker=1)))
    code, err = typed("local", str(file))
    assert (code, sentence(err)) == (
        2,
        (
            f"{file}, document 1: spec.replicaSpecs.Worker.template.spec.containers[0].command: "
            "is missing; there is no image here, and each container is a process of this machine: "
            "write what to run"
        ),
    )


@pytest.mark.real_time
def test_a_port_that_is_taken(typed, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = job_file(tmp_path)
        code, err = typed("local", "--root", str(tmp_path / "r"), f"--port={port}", file)
    last = err.splitlines()[-1]  # a warning about namespaces may come first
    assert (code, "choose another one, or 0 for one that is free" in last) == (2, True), err


@pytest.mark.real_time
def test_output_that_does_not_fit():
    command = [sys.executable, "-m", "ascendop", "version"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, sentence(ended.stderr)) == (
        2,
        "cannot write: No space left on device; make room, or write elsewhere",
    )


@pytest.mark.real_time
def test_output_that_nobody_reads():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ascendop", "version"]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


# ── clusters ──


def kubeconfig(folder, server):
    file = folder / "kubeconfig"
    parts = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "dev",
    }
    file.write_text(yaml.safe_dump(parts))
    return str(file)


@contextmanager
def answering(status, body, content_type="application/json"):
    """A server that says the same to everybody; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_no_cluster_at_all(typed):
    code, err = typed("run")
    assert (code, "name a file with --kubeconfig" in sentence(err)) == (2, True)


@pytest.mark.parametrize(
    ("server", "want"),
    [
        pytest.param("ftp://x", "the server 'ftp://x' is no URL; write for", id="a scheme"),
        pytest.param("nonsense", "the server 'nonsense' is no URL; write for", id="no URL"),
        pytest.param("https://h:99999", "Port out of range 0-65535; correct", id="a port"),
    ],
)
@pytest.mark.real_time
def test_a_server_that_is_no_address(typed, tmp_path, server, want):
    code, err = typed("run", "--kubeconfig", kubeconfig(tmp_path, server))
    assert (code, want in sentence(err)) == (2, True), err


@pytest.mark.real_time
def test_a_context_that_is_not_there(typed, tmp_path):
    file = kubeconfig(tmp_path, "https://127.0.0.1:1")
    code, err = typed("run", "--kubeconfig", file, "--context", "prod")
    assert (code, "choose with --context; there are: dev" in sentence(err)) == (2, True), err


@pytest.mark.real_time
def test_a_server_that_is_not_there(typed, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    code, err = typed("run", "--kubeconfig", kubeconfig(tmp_path, f"https://127.0.0.1:{port}"))
    assert code == 3
    assert sentence(err).startswith(f"cannot reach https://127.0.0.1:{port}: ")
    assert sentence(err).endswith("check the address, the network and the kubeconfig")


@pytest.mark.real_time
@pytest.mark.parametrize("status", [200, 404])
def test_a_server_of_something_else(typed, tmp_path, status):
    with answering(status, b"<html>\n<p>hello</p>\n</html>", "text/html") as server:
        code, err = typed("run", "--kubeconfig", kubeconfig(tmp_path, server))
    assert (code, sentence(err)) == (
        3,
        f"{server} answers, but not as an API server of Kubernetes; check the address",
    )


@pytest.mark.real_time
async def test_a_cluster_without_our_kinds(tmp_path):
    server = ApiServer(wall=wall, rng=SystemRandom())
    async with serve(server) as address:
        file = kubeconfig(tmp_path, address.url)
        command = [sys.executable, "-m", "ascendop", "run", f"--kubeconfig={file}"]
        ended = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        _, err = await ended.communicate()
    assert ended.returncode == 3
    assert sentence(err.decode()) == (
        f"none of the job kinds is installed on {address.url} "
        "(ascendjobs.mindxdl.gitee.com, mpijobs.kubeflow.org, pytorchjobs.kubeflow.org); "
        "kubectl apply --server-side -k manifests/ installs them"
    )


@pytest.mark.real_time
def test_a_token_that_is_not_known(typed, tmp_path):
    no = {"kind": "Status", "status": "Failure", "message": "Unauthorized", "code": 401}
    with answering(401, json.dumps(no).encode()) as server:
        code, err = typed("run", "--kubeconfig", kubeconfig(tmp_path, server))
    assert (code, sentence(err)) == (
        3,
        f"{server} does not let us in: Unauthorized; check token or certificate",
    )
