# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which cluster, and as whom: kubeconfigs as people have them, and pods."""

import base64
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from aiohttp import web

from ascendop.errors import UsageError
from ascendop.kube.config import in_cluster, load
from ascendop.kube.idtoken import ASK_AGAIN_S, lasts_s

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kubeconfig(*, cluster=None, user=None, context=None, **fields):
    """A file with one cluster, one user and one context, all called dev."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "clusters": [{"name": "dev", "cluster": {"server": "https://dev:6443", **(cluster or {})}}],
        "users": [{"name": "dev", "user": user or {}}],
        "contexts": [
            {"name": "dev", "context": {"cluster": "dev", "user": "dev", **(context or {})}}
        ],
        **fields,
    }


@pytest.fixture
def write(tmp_path):
    def write(content, name="config"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(file)

    return write


async def loaded(file, *, environ=None, **options):
    return await load(environ=environ or {}, kubeconfig=file, wall_clock=lambda: NOW, **options)


async def authorization(connection):
    return (await connection.credential.current()).authorization


async def test_a_plain_context(write, tmp_path):
    file = write(
        kubeconfig(
            cluster={"certificate-authority": "pki/ca.crt", "tls-server-name": "kubernetes"},
            user={"token": "t1", "client-certificate": "c.crt", "client-key": "c.key"},
            context={"namespace": "ml"},
        )
    )
    for name in ("pki/ca.crt", "c.crt", "c.key"):
        write("", name)
    found = await loaded(file)
    assert found.server == "https://dev:6443"
    assert found.namespace == "ml"
    assert found.tls.ca_file == str(tmp_path / "pki/ca.crt")
    assert (found.tls.cert_file, found.tls.key_file) == (
        str(tmp_path / "c.crt"),
        str(tmp_path / "c.key"),
    )
    assert found.tls.server_name == "kubernetes"
    assert found.tls.strict and not found.tls.insecure
    assert await authorization(found) == "Bearer t1"
    assert found.origin == f"context dev of {file}"


async def test_certificates_inside_the_file_become_files(write):
    inside = base64.b64encode(b"PEM").decode()
    file = write(
        kubeconfig(
            cluster={"certificate-authority-data": inside},
            user={"client-certificate-data": inside, "client-key-data": inside},
        )
    )
    found = await loaded(file)
    for name in (found.tls.ca_file, found.tls.cert_file, found.tls.key_file):
        with open(name) as made:  # noqa: PTH123, ASYNC230  a test may wait for a disk
            assert made.read() == "PEM"


async def test_a_user_without_anything_and_a_context_without_a_user(write):
    nobody = kubeconfig()
    del nobody["contexts"][0]["context"]["user"]
    assert await authorization(await loaded(write(nobody))) == ""
    assert await authorization(await loaded(write(kubeconfig()))) == ""


async def test_name_and_password(write):
    found = await loaded(write(kubeconfig(user={"username": "me", "password": "pw"})))
    assert await authorization(found) == "Basic " + base64.b64encode(b"me:pw").decode()


async def test_a_token_file_is_kept_fresh_and_wins_over_a_token(write):
    write("from the file\n", "token")
    file = write(kubeconfig(user={"tokenFile": "token", "token": "fixed"}))
    found = await loaded(file)
    assert await authorization(found) == "Bearer from the file"
    write("rotated", "token")
    assert await found.credential.refused(await found.credential.current())
    assert await authorization(found) == "Bearer rotated"


async def test_another_context_can_be_named(write):
    content = kubeconfig()
    content["clusters"].append({"name": "prod", "cluster": {"server": "https://prod:6443"}})
    content["contexts"].append({"name": "prod", "context": {"cluster": "prod", "user": "dev"}})
    file = write(content)
    assert (await loaded(file, context="prod")).server == "https://prod:6443"
    assert (await loaded(file)).server == "https://dev:6443"


async def test_several_files_are_merged_as_kubectl_does(write, tmp_path):
    first = write(kubeconfig(), "a/config")
    other = kubeconfig(cluster={"certificate-authority": "ca.crt"}, **{"current-context": "other"})
    for section in ("clusters", "users", "contexts"):
        other[section][0]["name"] = "other"
    other["contexts"][0]["context"] = {"cluster": "other", "user": "other"}
    write("", "b/ca.crt")
    second = write(other, "b/config")
    missing = str(tmp_path / "missing")
    found = await load(environ={"KUBECONFIG": f"{missing}:{first}:{second}"}, context="other")
    assert found.tls.ca_file == str(tmp_path / "b/ca.crt")
    assert found.origin == f"context other of {second}"


async def test_insecure_strict_and_proxy_are_taken_over(write):
    file = write(
        kubeconfig(cluster={"insecure-skip-tls-verify": True, "proxy-url": "http://p:3128"})
    )
    found = await loaded(file, strict_tls=False)
    assert found.tls.insecure and not found.tls.strict
    assert found.proxy == "http://p:3128"


async def test_the_environments_proxy_is_resolved_once(write):
    """runtime:H-3, pitfall 79."""
    file = write(kubeconfig())
    through = {"HTTPS_PROXY": "http://p:3128"}
    assert (await loaded(file, environ=through)).proxy == "http://p:3128"
    assert (await loaded(file, environ={**through, "NO_PROXY": "dev"})).proxy is None


@pytest.mark.parametrize(
    ("content", "options", "want"),
    [
        pytest.param("{", {}, "is not YAML: line 1", id="not YAML"),
        pytest.param("- a\n- b\n", {}, "names no cluster", id="a list"),
        pytest.param("", {}, "names no cluster", id="empty"),
        pytest.param("a: 1", {}, "names no cluster", id="some other YAML"),
        pytest.param(
            kubeconfig(), {"context": "prod"}, "no context 'prod' .* there are: dev$", id="context"
        ),
        pytest.param(
            kubeconfig(**{"current-context": ""}), {}, "choose with --context: dev", id="no current"
        ),
        pytest.param(
            kubeconfig(context={"cluster": "x"}), {}, "no cluster 'x' with a server", id="cluster"
        ),
        pytest.param(kubeconfig(context={"user": "x"}), {}, "no user 'x'", id="user"),
        pytest.param(
            kubeconfig(cluster={"server": ""}), {}, "no cluster 'dev' with a server", id="server"
        ),
        pytest.param(
            kubeconfig(cluster={"certificate-authority": "gone.crt"}),
            {},
            r"File does not exists.*gone\.crt",
            id="a file that is not there",
        ),
        pytest.param(
            kubeconfig(cluster={"proxy-url": "socks5://p:1"}),
            {},
            "scheme 'socks5'; only http and https",
            id="a proxy that is not spoken",
        ),
        pytest.param(
            kubeconfig(user={"exec": {"command": "x"}}), {}, "needs a command", id="half a plugin"
        ),
        pytest.param(
            kubeconfig(user={"auth-provider": {"name": "oidc", "config": {"id-token": "x"}}}),
            {},
            "cannot be used",
            id="a broken id-token",
        ),
        pytest.param(
            kubeconfig(contexts=[{"context": {}}]), {}, "without a name in contexts", id="no name"
        ),
    ],
)
async def test_a_file_that_cannot_be_used_is_told_in_one_sentence(write, content, options, want):
    with pytest.raises(UsageError, match=want) as caught:
        await loaded(write(content), **options)
    assert "\n" not in str(caught.value)


async def test_a_file_that_is_not_there_is_named(tmp_path):
    missing = str(tmp_path / "missing")
    with pytest.raises(UsageError, match=f"{missing} does not exist"):
        await loaded(missing)
    with pytest.raises(UsageError, match=f"{missing} does not exist"):
        await load(environ={"KUBECONFIG": missing})


async def test_without_any_file_and_outside_of_pods_the_way_in_is_told(tmp_path):
    with pytest.raises(UsageError, match="name a file with --kubeconfig"):
        await load(environ={"HOME": str(tmp_path)})


async def test_the_file_at_home_is_the_last_resort(write, tmp_path):
    write(kubeconfig(), ".kube/config")
    assert (await load(environ={"HOME": str(tmp_path)})).server == "https://dev:6443"


@pytest.fixture
def pod(tmp_path):
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("pod token\n")
    (folder / "namespace").write_text("ascend-system\n")
    (folder / "ca.crt").write_text("")
    return folder


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_inside_a_pod_its_service_account_is_used(pod):
    found = await load(environ={**POD, "HTTPS_PROXY": "http://p:1"}, service_account=pod)
    assert found.server == "https://10.0.0.1:443"
    assert found.namespace == "ascend-system"
    assert found.tls.ca_file == str(pod / "ca.crt")
    assert found.proxy is None  # pitfall 79: the cluster's own address is never behind a proxy
    assert await authorization(found) == "Bearer pod token"


async def test_a_file_or_context_that_was_asked_for_wins_over_the_pod(pod, write):
    file = write(kubeconfig())
    for ask in ({"kubeconfig": file}, {"environ": {**POD, "KUBECONFIG": file}}):
        found = await load(**{"environ": POD, "service_account": pod, **ask})
        assert found.server == "https://dev:6443"


def test_an_address_of_version_6_gets_its_brackets(pod):
    environ = {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert in_cluster(environ, service_account=pod).server == "https://[fd00::1]:443"


def test_what_a_pod_lacks_is_named(pod):
    (pod / "token").unlink()
    with pytest.raises(UsageError, match="automountServiceAccountToken"):
        in_cluster(POD, service_account=pod)
    with pytest.raises(UsageError, match="no pod"):
        in_cluster({}, service_account=pod)


@pytest.mark.real_time
def test_a_pod_never_loads_the_kubeconfig_loaders(pod):
    """They cost 63 MiB and half a second."""
    script = f"""
import asyncio, sys
from pathlib import Path
from ascendop.kube.config import load
asyncio.run(load(environ={POD!r}, service_account=Path({str(pod)!r})))
assert "kubernetes_asyncio" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def jwt(expires):
    payload = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode()
    return f"e30.{payload.rstrip('=')}.c2ln"


def test_how_long_an_id_token_lasts_is_in_it():
    assert lasts_s(jwt(NOW.timestamp() + 600), lambda: NOW) == 600
    assert lasts_s(jwt(NOW.timestamp() - 600), lambda: NOW) == 0
    assert lasts_s("opaque", lambda: NOW) == ASK_AGAIN_S
    assert lasts_s("a.!.c", lambda: NOW) == ASK_AGAIN_S
    assert lasts_s("e30.e30.c2ln", lambda: NOW) == ASK_AGAIN_S


@pytest.mark.real_time
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the loader's own business
@pytest.mark.parametrize("persist", [False, True])
async def test_an_id_token_is_renewed_and_written_back_only_when_asked_for(stage, write, persist):
    issuer = await stage.server()
    later = datetime.now(UTC) + timedelta(hours=1)  # noqa: TID251  the loader asks the wall
    granted = []

    def answer(request):
        if request.path.endswith("openid-configuration"):
            return web.json_response({"token_endpoint": f"{issuer.url()}/token"})
        if len(granted) == 1:
            return web.Response(status=500)
        granted.append(jwt(later.timestamp()))
        return web.json_response({"id_token": granted[-1], "refresh_token": f"r{len(granted)}"})

    issuer.answer = answer
    config = {
        "client-id": "me",
        "client-secret": "s",
        "idp-issuer-url": issuer.url(),
        "refresh-token": "r0",
    }
    content = kubeconfig(user={"auth-provider": {"name": "oidc", "config": config}})
    file = write(content)
    found = await load(environ={}, kubeconfig=file, persist=persist)
    assert await authorization(found) == f"Bearer {granted[0]}"
    held = await found.credential.current()
    assert 0.8 * 3600 - 60 < held.refresh_after_s <= 0.8 * 3600
    assert not await found.credential.refused(held)  # the issuer is down: the old one is kept
    assert await authorization(found) == f"Bearer {granted[0]}"
    with open(file) as written:  # noqa: PTH123, ASYNC230  a test may wait for a disk
        saved = yaml.safe_load(written)["users"][0]["user"]["auth-provider"]["config"]
    assert saved["refresh-token"] == ("r1" if persist else "r0")
    granted.append("the issuer is up again")
    found.credential._refused_at = 0.0
    assert await found.credential.refused(held)
    assert await authorization(found) == f"Bearer {granted[-1]}"
