# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Jobs of an inference service start where a rule has a place for them; ascendjob.md 3.2."""

import asyncio
from dataclasses import replace

import pytest

from ascendop.apply.plan import Answer
from ascendop.gang.scaling import Peer
from ascendop.kube.resource import CONFIGMAPS, POD_GROUPS, Scope
from ascendop.reconciler.decide import decide
from ascendop.sim.answers import RefusedError

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import admitted, after, gone, turned  # noqa: TID252  likewise
from ..gang.test_scaling import RULE  # noqa: TID252  likewise
from ..town import JOBS, NS, Town  # noqa: TID252  likewise
from ..wire import is_write, refuse, slow  # noqa: TID252  likewise


def labels(group="prefill", rule="rule", service="svc"):
    return {
        "mind-cluster/scaling-rule": rule,
        "mind-cluster/group-name": group,
        "jobID": service,
        "app": "mindie",
    }


def inference(group="prefill", **options):
    return make.job(labels=labels(group), Master=1, Worker=1, **options)


def told(seen, text=RULE, trouble=""):
    """The same, when the server has said what the rule is."""
    asked = decide(seen).question
    answer = Answer(asked, text, trouble)
    return replace(seen, world=replace(seen.world, answer=answer))


def test_a_job_with_pods_to_make_asks_first_and_does_nothing_before_it_knows():
    plan = decide(make.snapshot(inference()))
    assert (plan.question.namespace, plan.question.name) == ("ns", "rule")
    assert not plan.steps and make.concluded(plan) is None


def test_g1_a_job_that_may_start_starts():
    """ascendjob:G1"""
    plan = decide(told(make.snapshot(inference())))
    assert set(make.created(plan)) == {"j-master-0", "j-worker-0"}


def test_nobody_asks_who_has_all_pods_or_no_rule():
    seen = told(make.snapshot(inference()))
    seen = after(seen, decide(seen))
    seen = replace(seen, world=replace(seen.world, answer=None))
    assert decide(seen).question is None
    assert decide(make.snapshot(make.job())).question is None


@pytest.mark.parametrize(
    ("group", "text", "trouble", "words"),
    [
        pytest.param("decode", "{", "", "is no rule", id="no JSON"),
        pytest.param("prefill", "", "ConfigMap ns/rule does not exist", "not exist", id="absent"),
        pytest.param("other", RULE, "", "no group other", id="ascendjob:G6 ascendjob:W-2"),
    ],
)
def test_a_job_that_may_not_start_makes_no_pod_and_says_why(group, text, trouble, words):
    plan = decide(told(make.snapshot(inference(group)), text, trouble))
    assert not make.created(plan)
    found = make.concluded(plan)
    last = found.status["conditions"][-1]
    assert (last["type"], last["reason"]) == ("Created", "PodCreateFailed")
    assert last["message"].startswith("failed to create pods of type<Master>: scaling rule ns/rule")
    assert words in last["message"]
    assert [event.reason for event in found.events] == ["FailedCreatePod"]
    assert "startTime" not in found.status
    assert plan.again_after_s > 0


def test_it_is_told_once_and_again_when_the_reason_is_another():
    seen = told(make.snapshot(inference()), "", "ConfigMap ns/rule does not exist")
    seen = after(seen, decide(seen))
    assert make.concluded(decide(seen)).events == ()
    other = replace(
        seen, world=replace(seen.world, answer=replace(seen.world.answer, text="{", trouble=""))
    )
    found = make.concluded(decide(other))
    assert "is no rule" in found.status["conditions"][-1]["message"]
    assert len(found.events) == 1


def test_a_running_job_may_replace_a_pod_that_it_lost():
    """Its place is its own: the original waits until Volcano takes the gang for broken."""
    peers = tuple(
        Peer(group, group, runs=True, has_started=True) for group in ("prefill", "decode")
    )
    seen = told(make.snapshot(inference(), peers=peers))
    seen = turned(admitted(after(seen, decide(seen)), "Running"), "Running")
    lost = gone(seen, "j-worker-0")
    assert "j-worker-0" in make.created(decide(lost))


def test_an_answer_to_another_question_is_none():
    seen = told(make.snapshot(inference()))
    asked = replace(seen.world.answer.to, name="other")
    answer = replace(seen.world.answer, to=asked)
    assert decide(replace(seen, world=replace(seen.world, answer=answer))).question


# ── with a server ──


@pytest.fixture
async def town():
    """A cluster with Volcano's kinds, whose part the test plays."""
    town = Town()
    await town.install(volcano=True)
    yield town
    town.server.close()


@pytest.fixture
async def served(town):
    operator = town.operator(enable_gang_scheduling=True)
    async with town.running(operator):
        yield town


async def write_rule(town, text=RULE):
    meta = {"name": "rule", "namespace": NS}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    await town.hands.create(CONFIGMAPS, {**config_map, "data": {"elastic_scaling.json": text}})


async def groups(town):
    return {
        group["metadata"]["ownerReferences"][0]["name"]: group["metadata"]["name"]
        for group in await town.hands.list(POD_GROUPS, Scope(NS))
    }


async def let_in(town, *jobs, phase="Inqueue"):
    """The scheduler does this with the PodGroups of these jobs, once they are there."""

    async def there():
        return set(jobs) <= set(await groups(town))

    await town.until(there)
    names = await groups(town)
    for job in jobs:
        await town.hands.patch(POD_GROUPS, NS, names[job], {"status": {"phase": phase}})


async def jobs_with_pods(town):
    return {name.split("-")[0] for name in await town.pods()}


async def message(town, name):
    status = (await town.job(name)).get("status") or {}
    return (status.get("conditions") or [{}])[-1].get("message", "")


async def start(town, name, group):
    await town.create(name=name, labels=labels(group), Master=1, Worker=1)


async def test_g1_g2_g3_g4_a_service_grows_as_its_rule_says(served):
    """ascendjob:G1 to ascendjob:G4, and nobody waits for a timer."""
    town = served
    await write_rule(town)
    for name in ("p1", "p2", "p3"):
        await start(town, name, "prefill")
    await start(town, "d1", "decode")
    await let_in(town, "p1", "p2", "p3", "d1")

    async def smallest():
        found = await jobs_with_pods(town)
        return len(found) == 2 and "d1" in found

    await town.until(smallest)
    await asyncio.sleep(5)
    assert await smallest(), "one of three prefill jobs has the place"
    (first,) = await jobs_with_pods(town) - {"d1"}
    waiting = {"p1", "p2", "p3"} - {first}
    for name in waiting:
        assert "1 of 1 jobs of group prefill have their place" in await message(town, name)
    await let_in(town, "d1", first, phase="Running")

    async def full():
        return len(await jobs_with_pods(town)) == 3

    await town.until(full, within_s=5)
    await asyncio.sleep(60)
    assert await full()
    (second,) = await jobs_with_pods(town) - {"d1", first}
    await let_in(town, second, phase="Running")
    (last,) = waiting - {second}

    async def knows():
        return "full size run already" in await message(town, last)

    await town.until(knows, within_s=30)


async def test_g6_a_job_of_an_unknown_group_stops_nobody_else(served):
    """ascendjob:G6 ascendjob:W-2: the original's process ends, again after each restart."""
    town = served
    await write_rule(town)
    await start(town, "o1", "other")
    await let_in(town, "o1")
    await town.until(lambda: holds(message(town, "o1"), "no group other"))
    await start(town, "p1", "prefill")
    await let_in(town, "p1")
    await town.until_pods(2)
    assert await jobs_with_pods(town) == {"p1"}


async def test_a_job_that_goes_makes_room_at_once(served):
    town = served
    await write_rule(town)
    await start(town, "p1", "prefill")
    await let_in(town, "p1")
    await town.until_pods(2)
    await start(town, "p2", "prefill")
    await let_in(town, "p2")
    await town.until(lambda: holds(message(town, "p2"), "1 of 1"))
    await town.hands.delete(JOBS, NS, "p1")

    async def other():
        return "p2" in await jobs_with_pods(town)

    await town.until(other, within_s=5)


async def test_two_jobs_that_ask_at_the_same_time_do_not_both_take_the_last_place(served):
    """The phase Running comes minutes after the pods; what has been made is what counts."""
    town = served
    await write_rule(town)
    town.wire.before.append(slow(is_write("POST", "pods"), 1.0))
    names = [f"p{n}" for n in range(6)]
    for name in names:
        await start(town, name, "prefill")
    await let_in(town, *names)
    await town.until_pods(2)
    await asyncio.sleep(120)
    assert len(await jobs_with_pods(town)) == 1


async def test_a_rule_that_comes_late_is_found(served):
    town = served
    await start(town, "p1", "prefill")
    await let_in(town, "p1")
    await town.until(lambda: holds(message(town, "p1"), "does not exist; make it"))
    await write_rule(town)
    await town.until_pods(2, within_s=30)


async def test_a_rule_that_may_not_be_read_is_said_to_be_the_trouble(served):
    town = served
    await write_rule(town)
    forbidden = RefusedError(403, "Forbidden", "configmaps is forbidden")
    town.wire.before.append(refuse(asks_for_rule, forbidden))
    await start(town, "p1", "prefill")
    await let_in(town, "p1")
    await town.until(lambda: holds(message(town, "p1"), "may not be read"))
    assert not await town.pods()


async def test_nothing_is_asked_of_a_job_whose_pods_are_there(served):
    """ascendjob:W-32"""
    town = served
    await write_rule(town)
    await start(town, "p1", "prefill")
    await let_in(town, "p1")
    await town.until_pods(2)
    before = asked_for_rules(town)
    await town.turn("Running")
    await town.until_job("Running", "p1")
    await asyncio.sleep(120)
    assert asked_for_rules(town) == before


def asked_for_rules(town):
    return sum(map(asks_for_rule, town.wire.sent))


def asks_for_rule(request):
    return request.path.endswith("/configmaps/rule")


async def holds(asked, text):
    return text in await asked
