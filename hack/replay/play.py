# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Plays one case as the recorder did: create the job, do the steps, write down what is there."""

# Values are whatever YAML and JSON hold, and codes are HTTP's: types and names would hide them.
# ruff: noqa: ANN401, B905, C901, E731, FBT001, FBT002, PLR0912, PLR0915, PLR2004

from __future__ import annotations

import asyncio
import copy
import fnmatch
import json
import pathlib
import re
import shutil
import time
from typing import Any

from hack.replay.case import Case
from hack.replay.cluster import LISTED, MERGE_PATCH, Api, path_of
from hack.replay.kubelet import pod_status
from hack.replay.normal import UNIX_TIME, Normal, changes

POLL, CAP, SILENCE = (
    0.35,
    14.0,
    5.0,
)  # seconds between looks, per entry, until an operator that does nothing counts as absent
RANKTABLES = (
    "/user/mindx-dl/ranktable"  # how the recordings spell the root of the RankTable folders
)
KIND_ORDER = ["PodGroup", "Service", "ConfigMap", "Secret", "Pod", "Job"]


class Play:
    def __init__(
        self,
        api: Api,
        case: Case,
        namespace: str,
        addresses: dict[str, str],
        ranktables: pathlib.Path,
        operator: Any = None,
        keep: bool = False,
    ) -> None:
        self.api, self.case, self.namespace, self.ranktables, self.operator, self.keep = (
            api,
            case,
            namespace,
            ranktables,
            operator,
            keep,
        )
        self.job = copy.deepcopy(case.job)
        self.job["metadata"]["namespace"] = namespace
        self.normal = Normal(namespace, self.job, addresses)
        self.hold = False  # terminating pods stay
        self.stored: dict | None = None  # the job as it is now
        self.spec: dict = {}
        self.before: dict[tuple, dict] = {}
        self.uids: dict[tuple, str] = {}
        self.events_before: dict[tuple, int] = {}
        self.files_before: dict[str, str] = {}

    # ------------------------------------------------------------------ the course of a case
    async def run(self) -> dict:
        try:
            await self.api.request(
                "POST",
                "api/v1/namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
            )
            return await self._run()
        finally:
            await self._clean()

    async def _run(self) -> dict:
        case, got = self.case, {}
        problems = [p for obj in case.objects for p in await self._create(obj)]
        if case.objects:
            await asyncio.sleep(0.5)
        self.normal.starts.append(time.time())
        code, answer, warnings = await self.api.request(
            "POST", path_of(self.job, self.namespace), self.job
        )
        if warnings:
            got["warnings"] = warnings
        if code >= 300:
            message = self.normal.text(answer.get("message", ""))
            got["created"] = {
                "denied": {"code": code, "reason": answer.get("reason"), "message": message}
            }
        else:
            got["created"] = await self._dump(first=True)
        if problems:
            got["created"]["problems"] = problems
        if code >= 300 or "denied" in case.want["created"]:
            return got
        if self._silent(got["created"]) and not self._silent(case.want["created"]):
            return got | {"stopped": "no operator reacted to the job"}
        got["steps"] = []
        for i, step in enumerate(case.steps):
            self.normal.starts.append(time.time())
            result: list = []
            await self._act(step, result)
            quiet = step.get("quiet", self.case.quiet)
            entry = await self._dump(
                quiet=quiet, cap=step["quiet"] + 12 if "quiet" in step else CAP
            )
            got["steps"].append(
                {"step": step.get("name", f"step {i + 1}")}
                | ({"result": result} if result else {})
                | entry
            )
        return got

    def _silent(self, entry: dict) -> bool:
        """Nothing in it that only an operator can have done."""
        names = {obj["metadata"]["name"] for obj in self.case.objects}
        status = entry["job"].get("status") if isinstance(entry["job"], dict) else "gone"
        return (
            not status
            and not entry["events"]
            and all(o["metadata"]["name"] in names for o in entry["objects"])
        )

    async def _clean(self) -> None:
        if self.keep:
            return
        await self.api.request("DELETE", f"api/v1/namespaces/{self.namespace}")
        for pod in await self.api.list(self.namespace, "pods"):
            await self._reap(pod["metadata"]["name"])
        for folder in self.ranktables.glob(f"{self.namespace}.*"):
            shutil.rmtree(folder, ignore_errors=True)

    # ------------------------------------------------------------------ looking
    async def _look(self) -> tuple[dict[tuple, dict], list[dict]]:
        job = self.api.request(
            "GET", path_of(self.job, self.namespace, self.job["metadata"]["name"])
        )
        *lists, (code, stored, _) = await asyncio.gather(
            *(self.api.list(self.namespace, key) for key in LISTED), job
        )
        self.stored = stored if code == 200 else None
        items = [item for found in lists for item in found]
        objects = {
            (o["kind"], o["apiVersion"], o["metadata"]["name"]): o
            for o in items
            if o["kind"] != "Event"
            and (o["kind"], o["metadata"]["name"]) != ("ConfigMap", "kube-root-ca.crt")
        }
        return objects, [o for o in items if o["kind"] == "Event"]

    def _files(self) -> dict[str, str]:
        name = self.job["metadata"]["name"]
        folder, shown = self.ranktables / f"{self.namespace}.{name}", f"{RANKTABLES}/NS.{name}"
        if not folder.is_dir():
            return {}
        out = {f"{shown}/": f"directory mode {folder.stat().st_mode & 0o777:o}"}
        for file in ("hccl.json", "version"):
            if (folder / file).is_file():
                text = (folder / file).read_text()
                is_time = file == "version" and UNIX_TIME.fullmatch(text.strip())
                out[f"{shown}/{file}"] = (
                    self.normal.unix_time(text) if is_time else self.normal.text(text)
                )
        return out

    def _fingerprint(self, objects: dict[tuple, dict], events: list[dict]) -> int:
        def bare(obj: dict) -> dict:
            meta = {
                k: v
                for k, v in obj["metadata"].items()
                if k not in ("resourceVersion", "managedFields")
            }
            status = {
                k: v for k, v in (obj.get("status") or {}).items() if k != "lastReconcileTime"
            }
            return {**obj, "metadata": meta, "status": status}

        state = [
            *map(bare, objects.values()),
            self.stored and bare(self.stored),
            sorted(e["metadata"]["name"] for e in events),
            self._files(),
        ]
        return hash(json.dumps(state, sort_keys=True))

    async def _settle(
        self, first: bool, quiet: float, cap: float
    ) -> tuple[dict[tuple, dict], list[dict], bool]:
        """Waits until nothing changed for `quiet` seconds, `cap` at most; True: never quiet."""
        start = changed = time.time()
        seen, looks = None, 0
        awaited = (
            first
            and "denied" not in self.case.want["created"]
            and not self._silent(self.case.want["created"])
        )
        while True:
            objects, events = await self._look()
            if not self.hold:
                for (kind, _, name), obj in objects.items():
                    if (
                        kind == "Pod"
                        and obj["metadata"].get("deletionTimestamp")
                        and obj["spec"].get("nodeName")
                    ):
                        await self._reap(name)
            print_now, at = self._fingerprint(objects, events), time.time()
            if print_now != seen:
                seen, changed, looks = print_now, at, looks + 1
            idle = (
                awaited
                and looks == 1
                and not events
                and not (self.stored or {}).get("status")
                and at - start < SILENCE
            )
            restless = at - start > cap
            if restless or (at - changed >= quiet and not idle):
                return objects, events, restless and at - changed < quiet
            await asyncio.sleep(POLL)

    async def _dump(self, first: bool = False, quiet: float = 0, cap: float = CAP) -> dict:
        objects, events, restless = await self._settle(first, quiet or self.case.quiet, cap)
        for obj in [*objects.values(), *([self.stored] if self.stored else [])]:
            self.normal.learn(obj)
        entry: dict = {"job": self._dump_job(first)}
        entry |= self._dump_objects(objects, first)
        files = self._files()
        if files != self.files_before or (first and files):
            entry["files"] = files
        self.files_before = files
        entry["events"] = self._dump_events(events)
        if restless:
            entry["neverQuiet"] = True
        return entry

    def _dump_job(self, first: bool) -> dict | str:
        if self.stored is None:
            return "DELETED"
        out: dict = {}
        spec, before = self.normal.tree(self.stored.get("spec", {})), self.spec
        if first:
            before = self.normal.tree(self.job.get("spec", {}))
            meta = {
                k: self.stored["metadata"][k]
                for k in ("labels", "annotations", "finalizers")
                if self.stored["metadata"].get(k)
            }
            if meta:
                out["metadata"] = self.normal.tree(meta)
        if changed := changes(before, spec):
            out["specAsStored" if first else "specChanged"] = changed
        self.spec = spec
        return out | {"status": self.normal.status(self.stored.get("status"))}

    def _dump_objects(self, objects: dict[tuple, dict], first: bool) -> dict:
        now_there = {
            (kind, api, self.normal.text(name)): self.normal.object(obj)
            for (kind, api, name), obj in objects.items()
        }
        uids = {
            (kind, api, self.normal.text(name)): obj["metadata"]["uid"]
            for (kind, api, name), obj in objects.items()
        }
        rank = lambda key: (KIND_ORDER.index(key[0]) if key[0] in KIND_ORDER else 9, *key[1:])
        before, old_uids = self.before, self.uids
        self.before, self.uids = now_there, uids
        label = lambda key: f"{key[0]}/{key[2]}"
        out: dict[str, list] = {"added": [], "removed": [], "recreated": [], "changed": []}
        for key in sorted(now_there, key=rank):
            if key not in before:
                out["added"].append(now_there[key])
                continue
            change = changes(before[key], now_there[key])
            if uids[key] != old_uids[key]:
                out["recreated"].append(
                    {"object": label(key)} | ({"set": change} if change else {})
                )
            elif change:
                out["changed"].append({"object": label(key), "set": change})
        out["removed"] = [label(key) for key in sorted(before, key=rank) if key not in now_there]
        entry: dict = (
            {"objects": out["added"]}
            if first
            else {key: value for key, value in out.items() if value}
        )
        pods = [
            (self.normal.text(name), bool(obj["metadata"].get("deletionTimestamp")))
            for (kind, _, name), obj in sorted(objects.items())
            if kind == "Pod"
        ]
        entry["podNames"] = [name for name, ending in pods if not ending]
        if terminating := [name for name, ending in pods if ending]:
            entry["terminating"] = terminating
        return entry

    def _dump_events(self, events: list[dict]) -> list[dict]:
        totals: dict[tuple, int] = {}
        for event in sorted(events, key=lambda e: e["metadata"]["name"].rsplit(".", 1)[-1]):
            if self.normal.known.get(event["involvedObject"].get("uid")) != "JOB_UID":
                continue
            message = re.sub(
                r"(condition message: )0/\d+ nodes.*",
                r"\1<the scheduler's text>",
                self.normal.text(event.get("message") or ""),
                flags=re.DOTALL,
            )
            source = (event.get("source") or {}).get("component") or event.get(
                "reportingComponent", ""
            )
            key = (event.get("type"), event.get("reason"), message, source)
            totals[key] = totals.get(key, 0) + (
                event.get("count") or (event.get("series") or {}).get("count") or 1
            )
        new = [(key, total - self.events_before.get(key, 0)) for key, total in totals.items()]
        self.events_before = totals
        return [
            dict(zip(("type", "reason", "message", "source"), key)) | {"count": count}
            for key, count in new
            if count > 0
        ]

    # ------------------------------------------------------------------ doing
    async def _act(self, step: dict, result: list) -> None:
        """The keys of a step, in the order that the recordings' README gives."""
        if "restartOperator" in step:
            await self.operator("stop")
        if "remainRetryTimes" in step:
            await self._retry_times(step["remainRetryTimes"])
        for setting in step.get("pods", []):
            pods = await self._pods(setting["match"])
            if not pods:
                result.append(f"no pod matches {setting['match']}")
            result += filter(
                None, await asyncio.gather(*(self._set_pod(pod, setting) for pod in pods))
            )
        for item in step.get("annotate", []):
            for pod in await self._pods(item["match"]):
                values = {
                    k: self._fill(v, pod) for k, v in item.get("set", {}).items()
                } | dict.fromkeys(item.get("unset", []))
                await self._patch(
                    f"api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}",
                    {"metadata": {"annotations": values}},
                    result,
                )
        if "podgroup" in step:
            for group in await self.api.list(self.namespace, "volcano podgroups"):
                await self._patch(
                    path_of(group, self.namespace, group["metadata"]["name"]),
                    {"status": {"phase": step["podgroup"]}},
                    result,
                )
        for item in step.get("delete", []):
            await self._delete(item, result)
        if "patch" in step:
            patch = step["patch"]
            target = (
                patch if "kind" in patch else {**self.job, "name": self.job["metadata"]["name"]}
            )
            path = path_of(target, self.namespace, target["name"], patch.get("sub", ""))
            code, answer, warnings = await self.api.request(
                "PATCH", path, patch["body"], MERGE_PATCH
            )
            if code >= 300:
                result.append(
                    {
                        "code": code,
                        "reason": answer.get("reason"),
                        "message": self.normal.text(answer.get("message", "")),
                    }
                )
            result += [{"warning": warning} for warning in warnings]
        for obj in step.get("create", []):
            result += await self._create(obj)
        if "deleteJob" in step:
            path = path_of(self.job, self.namespace, self.job["metadata"]["name"])
            await self.api.request("DELETE", path, {"propagationPolicy": step["deleteJob"]})
        self.hold = step.get("holdTerminating", self.hold)
        await asyncio.sleep(step.get("wait", 0))
        if "restartOperator" in step:
            await self.operator("start")
            await asyncio.sleep(step["restartOperator"])

    async def _pods(self, match: str | list[str]) -> list[dict]:
        patterns = match if isinstance(match, list) else [match]
        pods = sorted(
            await self.api.list(self.namespace, "pods"), key=lambda p: p["metadata"]["name"]
        )
        return [
            pod
            for pod in pods
            if any(fnmatch.fnmatch(pod["metadata"]["name"], pattern) for pattern in patterns)
        ]

    async def _set_pod(self, pod: dict, setting: dict) -> str | None:
        name = pod["metadata"]["name"]
        path = f"api/v1/namespaces/{self.namespace}/pods/{name}"
        if setting.get("node") and not pod["spec"].get("nodeName"):
            target = {"kind": "Node", "name": setting["node"]}
            await self.api.request(
                "POST",
                f"{path}/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": name},
                    "target": target,
                },
            )
        code, answer, _ = await self.api.request(
            "PATCH", f"{path}/status", {"status": pod_status(pod, setting)}, MERGE_PATCH
        )
        return f"{name}: {code} {answer.get('message')}" if code >= 300 else None

    async def _patch(self, path: str, body: dict, result: list) -> None:
        code, answer, _ = await self.api.request("PATCH", path, body, MERGE_PATCH)
        if code >= 300:
            result.append(f"{code} {answer.get('message')}")

    async def _reap(self, pod: str, grace: int = 0) -> None:
        await self.api.request(
            "DELETE",
            f"api/v1/namespaces/{self.namespace}/pods/{pod}",
            {"gracePeriodSeconds": grace},
        )

    async def _delete(self, item: dict, result: list) -> None:
        if item.get("kind", "Pod") == "Pod":
            for pod in await self._pods(item["match"]):
                await self._reap(pod["metadata"]["name"], item.get("grace", 0))
            return
        path = path_of(item, self.namespace, self._fill(item["name"]))
        code, answer, _ = await self.api.request(
            "DELETE", path, {"propagationPolicy": "Background"}
        )
        if code >= 300:
            result.append(f"{code} {answer.get('message')}")

    async def _create(self, obj: dict) -> list[dict]:
        obj = copy.deepcopy(obj)
        obj["metadata"]["namespace"] = self.namespace
        code, answer, _ = await self.api.request("POST", path_of(obj, self.namespace), obj)
        if code < 300:
            return []
        return [
            {
                "object": f"{obj['kind']}/{obj['metadata']['name']}",
                "code": code,
                "message": self.normal.text(answer.get("message", "")),
            }
        ]

    def _fill(self, text: str, pod: dict | None = None) -> str:
        values = {
            "NS": self.namespace,
            "JOB_UID": (self.stored or {}).get("metadata", {}).get("uid", ""),
        }
        if pod:
            values |= {"POD_UID": pod["metadata"]["uid"], "POD_NAME": pod["metadata"]["name"]}
        return re.sub(r"\$\((\w+)\)", lambda m: values.get(m[1], m[0]), text)

    async def _retry_times(self, times: int) -> None:
        """What Volcano's plugin keeps for this job in a ConfigMap that all jobs share."""
        uid, path, name = (
            (self.stored or {}).get("metadata", {}).get("uid", ""),
            "api/v1/namespaces/volcano-system/configmaps",
            "vcjob-fault-npu-cm",
        )
        async with self.api.lock:
            code, found, _ = await self.api.request("GET", f"{path}/{name}")
            entries = (
                json.loads(found["data"].get("remain-retry-times", "{}")) if code == 200 else {}
            )
            entries[f"{self.namespace}/{self.job['metadata']['name']}-{uid}"] = {
                "UUID": uid,
                "Times": times,
            }
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name},
                "data": {"remain-retry-times": json.dumps(entries)},
            }
            await self.api.request(
                "PUT" if code == 200 else "POST", f"{path}/{name}" if code == 200 else path, body
            )
