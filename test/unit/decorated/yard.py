# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A town with workloads that others run; hands play their controllers, devices and kubelets."""

import json

from ascendop.builder import labels as keys
from ascendop.kube.resource import CONFIGMAPS, CORE_EVENTS, CRDS, PODS, Scope

from ..town import Town  # noqa: TID252  the standard library has a package called test
from . import make  # noqa: TID252  likewise


class Yard(Town):
    """As the town; every pod that is added is on a host of its own."""

    def __init__(self):
        super().__init__()
        self._hosts = 0

    async def install_volcano_jobs(self):
        await self.hands.create(CRDS, make.CRD)

    async def add(self, workload, *, config_map=True):
        """The user makes a workload, and the ConfigMap for its table first."""
        if config_map:
            await self.provide(workload["metadata"]["name"])
        made = await self.hands.create(make.KINDS[workload["kind"]].resource, workload)
        if made["kind"] == "Deployment":
            found = await self.hands.create(make.REPLICA_SETS, make.replica_set(made))
            # Without it, the pods would be garbage.
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
            meta = found["metadata"]
            made["owner"] = owner | {"name": meta["name"], "uid": meta["uid"]}
        return made

    async def provide(self, name):
        meta = {"namespace": make.NS, "name": f"rings-config-{name}"}
        data = {"hccl.json": '{"status":"initializing"}'}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        await self.hands.create(CONFIGMAPS, body)

    async def grow(self, workload, name, *, known=True, **fields):
        """The workload's controller makes a pod; if `known`, it runs and has devices."""
        self._hosts += 1
        body = make.pod(workload, name, **fields)
        body["spec"]["nodeName"] = f"node-{self._hosts}"
        await self.hands.create(PODS, body)
        if known:
            await self.start(name, self._hosts)

    async def start(self, name, host):
        """The device plug-in has written what the pod has, and the kubelet its address."""
        status = {"phase": "Running", "podIP": f"10.244.0.{host}"}
        await self.hands.patch(PODS, make.NS, name, {"status": status}, subresource="status")
        await self.annotate(name, **{make.DEVICES: make.devices(host)})

    async def annotate(self, name, **annotations):
        await self.hands.patch(PODS, make.NS, name, {"metadata": {"annotations": annotations}})

    async def change(self, workload, body):
        resource = make.KINDS[workload["kind"]].resource
        return await self.hands.patch(resource, make.NS, workload["metadata"]["name"], body)

    async def drop(self, workload):
        resource = make.KINDS[workload["kind"]].resource
        await self.hands.delete(resource, make.NS, workload["metadata"]["name"])

    async def ranks(self):
        return {
            name: pod["metadata"].get("annotations", {}).get(keys.RANK_INDEX)
            for name, pod in (await self.pods()).items()
        }

    async def data(self, name="serve"):
        return (await self.hands.get(CONFIGMAPS, make.NS, f"rings-config-{name}"))["data"]

    async def table(self, name="serve"):
        return json.loads((await self.data(name))["hccl.json"])

    async def until_table(self, status, name="serve", within_s=30.0):
        async def there():
            return (await self.table(name))["status"] == status

        await self.until(there, within_s)

    async def warnings(self, kind="Deployment"):
        """Texts of the Events about workloads of a kind, as often as they were told."""
        return [
            event["message"]
            for event in await self.hands.list(CORE_EVENTS, Scope(make.NS))
            if event["involvedObject"]["kind"] == kind
            for _ in range((event.get("series") or event).get("count") or 1)
        ]
