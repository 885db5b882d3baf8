# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The manifests and the reference, whole."""

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

import ascendop
from ascendop.cli.main import main
from ascendop.kinds import load_kinds
from ascendop.schema.generated import NOTICE
from ascendop.schema.manifests import manifests
from ascendop.schema.rbac import (
    KIND_VERBS,
    cluster_rights,
    clusterd_rights,
    leader_rights,
    namespaced_rights,
    user_rights,
)
from ascendop.schema.reasons import reasons
from ascendop.schema.reference import reference

KINDS = load_kinds()
ROOT = Path(__file__).parents[3]
FILES = manifests(KINDS)
PAGES = reference(KINDS)


@cache
def objects():
    return [o for text in FILES.values() for o in yaml.load_all(text, yaml.CSafeLoader)]


def test_what_is_committed_is_what_the_models_say():
    committed = {
        str(path.relative_to(ROOT / "manifests")): path.read_text()
        for path in (ROOT / "manifests").rglob("*.yaml")
    }
    assert committed == FILES


def test_every_file_says_that_it_is_generated():
    assert all(NOTICE in text for text in [*FILES.values(), *PAGES.values()])


def test_the_kustomization_names_every_file_that_belongs_to_it():
    named = set(yaml.safe_load(FILES["kustomization.yaml"])["resources"])
    assert named == {path for path in FILES if path.split("/")[0] in {"crd", "rbac", "deploy"}}


def rights(role):
    """Rights that are not for one object by its name."""
    return {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_operator_may_do_with_every_kind_what_it_does():
    """ascendjob:9.5"""
    found = rights(cluster_rights(KINDS)[0])
    for kind in KINDS.values():
        assert found[kind.group, kind.plural] == set(KIND_VERBS)
        assert "patch" in found[kind.group, f"{kind.plural}/status"]
        assert found[kind.group, f"{kind.plural}/finalizers"] == {"update"}
        assert "create" not in found[kind.group, kind.plural]


def test_the_operator_may_not_make_config_maps_nor_read_secrets():
    """field-reports:FR-093 ascendjob:W-38 ascendjob:W-50: nor delete or list Events.

    Where no kind has a launcher; see the next one for those.
    """
    plain = {name: kind for name, kind in KINDS.items() if kind.launch is None}
    found = rights(cluster_rights(plain)[0])
    assert found["", "configmaps"] == {"get", "patch"}
    assert found["", "events"] <= {"create", "patch"}
    assert found["scheduling.volcano.sh", "queues"] <= {"get", "list", "watch"}
    assert ("", "secrets") not in found
    assert not any("*" in verbs for verbs in found.values())


def test_c57_w17_a_launcher_takes_these_rights_and_no_others():
    """mpijob:W-17 mpijob:W-24: what was made is never deleted, and nothing is replaced as a whole.

    Secrets are listed by their metadata alone, for which there is no right of its own.
    """
    found = rights(cluster_rights(KINDS)[0])
    assert found["batch", "jobs/status"] == {"patch"}
    for group, plural in (("batch", "jobs"), ("", "configmaps"), ("", "secrets")):
        assert found[group, plural] == {"create", "get", "list", "patch", "watch"}
    assert not any("*" in verbs for verbs in found.values())


def test_of_all_config_maps_only_the_plug_in_s_is_followed():
    """ascendjob:7.7"""
    named = [rule for rule in cluster_rights(KINDS)[0]["rules"] if "resourceNames" in rule]
    assert named == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["vcjob-fault-npu-cm"],
            "verbs": ["list", "watch"],
        }
    ]


def test_a_namespaced_operator_writes_nothing_outside_its_namespaces():
    """mpijob:W-33"""
    for obj in namespaced_rights(KINDS):
        if obj["kind"] == "ClusterRole":
            verbs = set().union(*rights(obj).values())
            assert verbs == {"get", "list", "watch"}


def test_rights_inside_and_outside_are_together_those_of_the_cluster():
    found = {}
    for obj in namespaced_rights(KINDS):
        if obj["kind"] in {"Role", "ClusterRole"}:
            found |= rights(obj)
    assert found == rights(cluster_rights(KINDS)[0])


def test_the_lease_lies_in_the_operator_s_own_namespace():
    role, binding = leader_rights()
    assert role["kind"] == "Role"
    assert role["metadata"]["namespace"] == binding["subjects"][0]["namespace"]


def one(kind):
    return next(o for o in objects() if o["kind"] == kind and o["metadata"]["name"] == "ascendop")


def test_the_deployment_runs_twice_as_nobody_and_writes_nowhere():
    """mpijob:W-32: with probes, bounds, a budget, a Service for its metrics, and spread."""
    spec = one("Deployment")["spec"]
    pod, container = spec["template"]["spec"], spec["template"]["spec"]["containers"][0]
    assert spec["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"livenessProbe", "readinessProbe", "startupProbe", "resources"} <= set(container)
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert {"PodDisruptionBudget", "Service"} <= {o["kind"] for o in objects()}


def test_selectors_find_the_pods():
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    budget = one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items()
    service = next(o for o in objects() if o["kind"] == "Service")["spec"]["selector"].items()
    assert budget <= labels
    assert service <= labels


def test_each_kind_of_request_has_its_own_queue_at_the_api_server():
    """runtime:H-14"""
    found = [o["spec"] for o in objects() if o["kind"] == "FlowSchema"]
    levels = {
        r["resources"][0]: spec["priorityLevelConfiguration"]["name"]
        for spec in sorted(found, key=lambda spec: spec["matchingPrecedence"])
        for rule in spec["rules"]
        for r in rule["resourceRules"]
    }
    assert levels == {"leases": "leader-election", "events": "workload-low", "*": "workload-high"}
    # The catch-all comes last, or nothing would reach the others.
    assert list(levels)[-1] == "*"


# ── the command ──


def test_the_command_writes_and_takes_away_only_what_it_wrote(tmp_path):
    out, docs = tmp_path / "m", tmp_path / "d"
    (out / "crd").mkdir(parents=True)
    (out / "crd" / "gone.yaml").write_text(f"# {NOTICE}\n")
    (out / "crd" / "mine.yaml").write_text("# by hand\n")
    assert main(["manifests", "--out", str(out), "--docs", str(docs)]) == 0
    written = {str(path.relative_to(out)) for path in out.rglob("*.yaml")}
    assert written == {*FILES, "crd/mine.yaml"}
    assert {str(path.relative_to(docs)) for path in docs.rglob("*.md")} == set(PAGES)


def test_the_command_prints_when_no_folder_is_named(capsys):
    assert main(["manifests"]) == 0
    assert capsys.readouterr().out == "".join(FILES.values())


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert main(["manifests", "--out", str(file)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("ascendop: cannot write ")
    assert len(err.splitlines()) == 1


# ── the reference ──


def test_every_kind_and_every_setting_has_its_place():
    assert {f"kinds/{kind.lower()}.md" for kind in KINDS} <= set(PAGES)
    assert "`--metrics-listen`" in PAGES["settings.md"]
    assert "`workqueue_depth`" in PAGES["metrics.md"]


CODE = re.compile(r"[A-Za-z]+")


@pytest.mark.parametrize("code", sorted({reason.code for reason in reasons()}))
def test_a_reason_is_one_word_in_camel_case(code):
    """style:L2"""
    assert CODE.fullmatch(code.replace("<Kind>", "Kind"))


def test_no_reason_of_a_verdict_is_missing_from_the_page():
    """style:L2: every text that is the second argument of a Verdict, found another way."""
    page = PAGES["reasons.md"]
    package = Path(ascendop.__file__).parent
    source = "\n".join(
        path.read_text() for room in ("kinds", "builder") for path in (package / room).glob("*.py")
    )
    codes = re.findall(r'Verdict\("\w+", "(\w+)"', source)
    assert codes
    assert all(f"`{code}`" in page for code in codes)


def test_reading_the_reasons_runs_none_of_the_code(tmp_path):
    room = tmp_path / "kinds"
    room.mkdir()
    (room / "x.py").write_text('1 / 0\nV = Verdict("Failed", "Boom", "t")\n')
    assert [reason.code for reason in reasons(tmp_path)] == ["Boom"]


def test_a_reason_that_another_module_has_given_a_name_is_found(tmp_path):
    """style:L2: PodsNotStarted, say, which users were told of and could not look up."""
    for room, text in {
        "kinds": 'BOOM = "Boom"\n',
        "reconciler": 'from ascendop.kinds.x import BOOM as B\nput_condition((), "Created", B)\n',
    }.items():
        (tmp_path / room).mkdir()
        (tmp_path / room / "x.py").write_text(text)
    assert [(found.code, found.shown) for found in reasons(tmp_path)] == [
        ("Boom", "condition Created")
    ]


def test_of_another_namespace_only_the_one_service_is_read():
    role = clusterd_rights()[0]
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["services"],
            "resourceNames": ["clusterd-grpc-svc"],
            "verbs": ["get", "list", "watch"],
        }
    ]


def test_who_may_edit_in_a_namespace_may_make_jobs_there_and_nobody_may_write_their_status():
    """field-reports:FR-093: the cluster's own roles know our kinds, and no role has a star."""
    view, edit = user_rights(KINDS)
    aggregated = "rbac.authorization.k8s.io/aggregate-to-"
    assert view["metadata"]["labels"].items() >= {aggregated + "view": "true"}.items()
    assert (
        edit["metadata"]["labels"].items()
        >= {
            aggregated + "edit": "true",
            aggregated + "admin": "true",
        }.items()
    )
    for role, verb in ((view, "get"), (edit, "create")):
        rules = [rule for rule in role["rules"] if verb in rule["verbs"]]
        allowed = {name for rule in rules for name in rule["resources"]}
        assert {kind.plural for kind in KINDS.values()} <= allowed
    writes = {"create", "patch", "update", "delete"}
    assert not any(
        "status" in name
        for role in (view, edit)
        for rule in role["rules"]
        if writes & set(rule["verbs"])
        for name in rule["resources"]
    )
    assert "*" not in str((view, edit))
