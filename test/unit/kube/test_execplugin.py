# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Programs that hand out credentials: real ones, that hang, flood, fail and lie."""

import asyncio
import json
import os
from datetime import UTC, datetime

import pytest

from ascendop.errors import UsageError
from ascendop.kube import execplugin
from ascendop.kube.credentials import Credential, CredentialError
from ascendop.kube.execplugin import ExecPlugin, exec_plugin, parse_exec

pytestmark = pytest.mark.real_time

NOW = datetime(2026, 1, 1, tzinfo=UTC)
V1 = "client.authentication.k8s.io/v1"


def granted(**status):
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def plugin(script, **fields):
    """A plugin that is a line of shell."""
    return ExecPlugin("sh", ("-c", script), **fields)


async def ask(asked, environ=None):
    environ = {"PATH": os.environ["PATH"], **(environ or {})}
    return await exec_plugin(asked, environ=environ, wall_clock=lambda: NOW)()


async def test_a_token_is_granted_and_renewed_at_four_fifths_of_its_life():
    answer = granted(token="t1", expirationTimestamp="2026-01-01T01:00:00Z")
    grant = await ask(plugin(f"echo '{answer}'"))
    assert grant.authorization == "Bearer t1"
    assert grant.refresh_after_s == 0.8 * 3600


async def test_a_token_without_an_end_is_kept_until_it_is_refused():
    grant = await ask(plugin(f"echo '{granted(token='t')}'"))
    assert grant.refresh_after_s == float("inf")


async def test_a_certificate_with_its_key_is_granted():
    answer = granted(clientCertificateData="CERT", clientKeyData="KEY")
    grant = await ask(plugin(f"echo '{answer}'"))
    assert (grant.certificate.chain, grant.certificate.key) == ("CERT", "KEY")
    assert grant.authorization == ""


async def test_the_program_is_told_of_the_cluster_and_keeps_our_environment():
    script = """
        test "$OURS" = inherited || exit 7
        test "$THEIRS" = set || exit 8
        printf '%s' "$KUBERNETES_EXEC_INFO" | grep -q '"server":"https://c"' || exit 9
        printf '%s' "$KUBERNETES_EXEC_INFO" | grep -q '"interactive":false' || exit 10
    """
    asked = plugin(
        f"{script} echo '{granted(token='t')}'",
        env={"THEIRS": "set"},
        cluster={"server": "https://c"},
    )
    assert (await ask(asked, {"OURS": "inherited"})).authorization == "Bearer t"


async def test_a_flood_on_stderr_does_not_stop_it():
    """Pitfall 77."""
    flood = "head -c 3000000 /dev/zero | tr '\\0' x >&2"
    grant = await ask(plugin(f"{flood}; echo '{granted(token='t')}'; {flood}"))
    assert grant.authorization == "Bearer t"


async def test_one_that_hangs_is_ended_with_its_children(tmp_path, monkeypatch, until):
    """Pitfall 77."""
    monkeypatch.setattr(execplugin, "LIMIT_S", 0.3)
    pids = tmp_path / "pids"
    with pytest.raises(CredentialError, match=r"did not end within 0\.3 s"):
        await ask(plugin(f"sleep 600 & echo $$ $! > {pids}; wait"))
    await until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


async def test_one_that_leaves_a_child_with_its_pipes_is_ended_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(execplugin, "LIMIT_S", 0.3)
    with pytest.raises(CredentialError, match="did not end"):
        await ask(plugin(f"sleep 600 & echo '{granted(token='t')}'"))


async def test_one_whose_pipes_are_held_from_outside_of_its_group_is_let_go(monkeypatch):
    monkeypatch.setattr(execplugin, "LIMIT_S", 0.3)
    with pytest.raises(CredentialError, match="did not end"):
        await ask(plugin(f"setsid sleep 2 & echo '{granted(token='t')}'"))


async def test_giving_up_on_the_request_ends_the_program(tmp_path, until):
    pids = tmp_path / "pid"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await ask(plugin(f"echo $$ > {pids}; exec sleep 600"))
    await until(lambda: not alive(int(pids.read_text())))


async def test_one_that_fails_once_is_asked_again_later(tmp_path):
    """Pitfall 77: the first answer is kept meanwhile."""
    count = tmp_path / "count"
    script = f"""
        echo x >> {count}
        test $(wc -l < {count}) -ne 2 || {{ echo 'token service is down' >&2; exit 1; }}
        echo '{granted(token="t", expirationTimestamp="2026-01-01T00:00:00Z")}'
    """
    fetch = exec_plugin(plugin(script), environ=os.environ, wall_clock=lambda: NOW)
    credential = Credential(fetch)
    assert (await credential.current()).authorization == "Bearer t"
    credential._due_at = 0.0
    assert (await credential.current()).authorization == "Bearer t"
    assert "token service is down" in credential._failure
    credential._due_at = 0.0
    await credential.current()
    assert count.read_text() == "x\n" * 3


@pytest.mark.parametrize(
    ("script", "want"),
    [
        pytest.param("echo oops >&2; exit 3", "code 3: oops", id="ends with a code"),
        pytest.param("echo secret", "no ExecCredential", id="prints something else"),
        pytest.param("true", "no ExecCredential", id="prints nothing"),
        pytest.param(
            f"echo '{granted()}'", "neither a token nor a certificate", id="grants nothing"
        ),
        pytest.param(
            f"echo '{granted(clientCertificateData='C')}'", "with its key", id="forgets the key"
        ),
        pytest.param(
            "echo '{}'".format(granted(token="t").replace("/v1", "/v1beta1")),
            "speaks client.authentication.k8s.io/v1beta1",
            id="speaks another version",
        ),
        pytest.param(
            f"echo '{granted(token='secret', expirationTimestamp='soon')}'",
            "no time",
            id="lasts until soon",
        ),
        pytest.param(
            f"echo '{granted(token='secret', expirationTimestamp='2026-01-01T00:00:00')}'",
            "no time",
            id="lasts until a time without a zone",
        ),
        pytest.param(
            "echo '{}'".format(granted(token="secret").replace('"secret"', '["secret"]')),
            "no ExecCredential",
            id="grants a list",
        ),
    ],
)
async def test_what_it_did_wrong_is_said_and_what_it_printed_is_not(script, want):
    """runtime:H-9."""
    with pytest.raises(CredentialError, match=want) as caught:
        await ask(plugin(script))
    assert "secret" not in str(caught.value)


async def test_one_that_is_not_installed_is_named_with_its_hint():
    missing = ExecPlugin("no-such-plugin", install_hint="run: install it")
    with pytest.raises(CredentialError, match=r"no-such-plugin: No such file.*run: install it"):
        await ask(missing)


def test_a_command_with_a_slash_starts_at_the_kubeconfig():
    def command(text):
        found = parse_exec({"command": text, "apiVersion": V1}, base="/home/me/.kube", cluster={})
        return found.command

    assert command("./bin/login") == "/home/me/.kube/bin/login"
    assert command("login") == "login"
    assert command("/opt/login") == "/opt/login"


@pytest.mark.parametrize(
    "spec",
    [
        {"apiVersion": V1},
        {"command": "x"},
        {"command": "x", "apiVersion": V1, "interactiveMode": "Always"},
    ],
)
def test_a_plugin_that_cannot_run_here_is_refused_at_once(spec):
    with pytest.raises(UsageError):
        parse_exec(spec, base="/", cluster={})


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
