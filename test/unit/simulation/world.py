# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A whole cluster with its operators, in virtual time; every chance in it comes from one seed."""

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random  # noqa: TID251  seeded

from ascendop.app.operator import Identity, Operator
from ascendop.clock import simulated
from ascendop.errors import NotLeaderError
from ascendop.informer.informer import NotSyncedError
from ascendop.kinds import load_kinds
from ascendop.kube.client import Client
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import CRDS, NODES
from ascendop.schema.crd import crd
from ascendop.settings import Settings
from ascendop.sim.batch import BatchJobs
from ascendop.sim.nodes import NodeSpec, build_nodes, create_nodes, parse_nodes
from ascendop.sim.scheduler import Scheduler
from ascendop.sim.server import ApiServer
from ascendop.sim.staged import StagedNodes
from ascendop.sim.transport import SimTransport
from ascendop.sim.volcano import build_definitions
from ascendop.telemetry.metrics import Metrics
from ascendop.times import rfc3339

from .oracles import JOBS, Oracles, which_pod  # noqa: TID252  the standard library has a test package
from .wire import Wire, is_write  # noqa: TID252  likewise

START = datetime(2026, 1, 1, tzinfo=UTC)
CRDS_OF_VOLCANO = tuple(build_definitions())
LATE = "late"
"""Who wrote what arrived after its client had given up."""


@cache
def job_crds():
    return tuple(crd(kind) for kind in load_kinds().values())


class World:
    """Server, nodes and scheduler on a perfect wire; operators on what `weather` makes of theirs.

    Perfect:  people and nodes; what they want, happens.
    """

    def __init__(self, tasks, seed, *, settings=None, weather=None):
        self.loop = asyncio.get_running_loop()
        self.tasks = tasks
        self.seed = seed
        self.wall = simulated(START, self.loop.time)
        self.server = ApiServer(wall=self.wall, rng=self.dice("server"))
        self.people = Client(SimTransport(self.server), rng=self.dice("people"))
        self.settings = Settings(
            **{"leader_elect": False, "rank_table_dir": "", "workers": 4} | (settings or {})
        )
        self.weather = weather
        self.storms = self.dice("storms")
        self._withdrawn = {}
        """Rights that operators do not have now, and until when."""
        self.writer = None
        """Whose request the server is working on, if an operator's."""
        self.replicas = []
        self.trace = hashlib.blake2b(digest_size=16)
        self.broken = []
        """What oracles have found. The operator would take it for a bug of its own, and go on."""
        self.oracles = Oracles(self)
        self.server.world.storage.listeners.append(self._changed)

    def dice(self, *who):
        """A source of chance of its own for everybody: one more draw here moves nothing there."""
        return Random("/".join(map(str, (self.seed, *who))))

    # What is there.

    def objects(self, table):
        """Everything in a table of the server, as it is now."""
        found = self.server.world.storage.tables.get(table)
        return [row.obj for row in found.scan(None)] if found else []

    def find(self, table, name, namespace="default"):
        found = self.server.world.storage.tables.get(table)
        row = found.get((namespace, name)) if found else None
        return row.obj if row else None

    async def until(self, holds, within_s=4000.0, every_s=None):
        """Wait for something that can be seen in the server. Fails when it does not come.

        Looks less and less often, unless told how often.
        """
        began_at = self.loop.time()
        ends_at = began_at + within_s
        while not holds(self):
            self.check()
            if self.loop.time() >= ends_at:
                what = getattr(holds, "what", holds.__name__)
                raise AssertionError(f"not within {within_s:g} s: {what}\n{self.picture()}")
            pause_s = min(5.0, 0.5 + (self.loop.time() - began_at) / 20)
            await asyncio.sleep(every_s or pause_s)

    def picture(self):
        """The cluster in a few lines, for whoever has to find out."""
        lines = [f"at {self.loop.time():.1f} s, revision {self.server.revision}"]
        for table in JOBS:
            for job in self.objects(table):
                said = [
                    f"{c['type']}={c['status']}/{c['reason']}"
                    for c in (job.get("status") or {}).get("conditions") or ()
                ]
                lines.append(f"{job['kind']} {job['metadata']['name']}: {' '.join(said)}")
        for pod in self.objects("pods"):
            meta = pod["metadata"]
            going = " going" if meta.get("deletionTimestamp") else ""
            phase, version = pod["status"].get("phase"), meta["labels"].get("version")
            lines.append(f"Pod {meta['name']} {phase}{going} version={version}")
        for group in self.objects("podgroups.scheduling.volcano.sh"):
            phase = (group.get("status") or {}).get("phase")
            lines.append(f"PodGroup {group['metadata']['name']} {phase}")
        lines += [f"{replica.name}: {replica.operator.queue!r}" for replica in self.replicas]
        return "\n".join(lines)

    # What happens.

    async def install(self, *definitions):
        for definition in definitions:
            await self.people.create(CRDS, definition)

    async def install_volcano(self):
        await self.install(*build_definitions())

    async def remove_volcano(self):
        for definition in build_definitions():
            try:
                await self.people.delete(CRDS, None, definition["metadata"]["name"])
            except NotFoundError:
                continue

    async def add_nodes(self, *specs):
        """Numbered on from those that are there."""
        there = len(self.objects("nodes"))
        padding = [NodeSpec(there)] if there else []
        wanted = [parse_nodes(spec) for spec in specs]
        if not there:
            await create_nodes(self.people, *wanted, wall=self.wall)
            return
        for node in build_nodes(*padding, *wanted, now=rfc3339(self.wall()))[there:]:
            await self.people.create(NODES, node)

    def start(self, name="a", **options):
        """One more replica of the operator."""
        replica = Replica(self, name, **options)
        self.replicas.append(replica)
        self.tasks.create_task(replica.run(), name=name)
        return replica

    def send_late(self, request, after_s):
        """The server reads it when nobody waits for the answer any more.

        Not:  a request to make a pod that another try has made, and that is gone again. It would
              stand in for the next one, and nobody could tell: a request to create can name no
              condition, and the pod has the labels, and the name, of the one that was lost.
        """
        pod = _pod_that_is_made(request)

        async def send():
            await asyncio.sleep(after_s)
            if pod in self.oracles.made:
                return
            self.writer = LATE
            self.server.open(request, user=LATE)
            self.writer = None

        self.tasks.create_task(send(), name="late")

    def withdraw(self, right, seconds):
        """Operators may not do this for so long: a method, and what is in the path."""
        self._withdrawn[right] = self.loop.time() + seconds

    def forbids(self, request):
        return any(
            self.loop.time() < until_s and method == request.method and what in request.path
            for (method, what), until_s in self._withdrawn.items()
        )

    def calm(self):
        """From now on nothing goes wrong."""
        self.weather = None
        for replica in self.replicas:
            replica.wire.faults.enabled = False

    # What is heard.

    def heard(self, wire, request):
        """The server is about to read a request of an operator."""
        if is_write(request):
            self.writer = wire
            wire.calls[request.method, request.path] += 1
        self._note(wire.who, request.method, request.path, request.query.get("resourceVersion"))
        self._asked(self.oracles.heard, wire, request)

    def _changed(self, table, change):
        verb = "gone" if change.new is None else "new" if change.old is None else "changed"
        self._note(table.name, *change.last.key, change.revision, verb)
        self.trace.update(change.last.body)
        self._asked(self.oracles.changed, table.name, change)
        self.writer = None

    def _asked(self, oracle, *facts):
        with self.hearing():
            oracle(*facts)

    @contextmanager
    def hearing(self):
        """Keep what an oracle says within the block."""
        try:
            yield
        except AssertionError as error:
            self.broken.append(error)
            raise

    def check(self):
        """Fail with the first thing that was wrong."""
        if self.broken:
            raise self.broken[0]

    def _note(self, *what):
        self.trace.update(f"{self.loop.time():.6f} {what}\n".encode())


def _pod_that_is_made(request):
    """Which; None for any other request."""
    if request.method != "POST" or not request.path.endswith("/pods"):
        return None
    return which_pod(json.loads(request.body))


class Replica:
    """One pod of the operator's Deployment: when its process ends, another one starts.

    A new process knows nothing of the one before: memory, identity and dice are its own.
    """

    def __init__(self, world, name, *, death=None, restart_s=1.0):
        self.world, self.name, self.restart_s = world, name, restart_s
        self.stop = asyncio.Event()
        self.born = 0
        self._pairs = 0
        self.skew_s = 0.0
        """Of its wall clock."""
        self._rate, self._turned_at_s = 1.0, world.loop.time()
        self._death = death
        self._process = None
        self._metrics = Metrics()
        """Outlives its processes: nothing that is decided rests on it, and it is slow to make."""
        self._renew()

    def _renew(self):
        self.born += 1
        world, who = self.world, f"{self.name}-{self.born}"
        weather = world.weather
        self.wire = Wire(
            world,
            who,
            world.dice(who, "wire"),
            **({"plan": weather.plan, "late": weather.late} if weather else {}),
            death=self._death,
            die=self.kill,
        )
        self._death = None
        rng = world.dice(who)
        self.operator = Operator(
            Client(self.wire, rng=rng),
            world.settings,
            identity=Identity(who, "default"),
            wall=self.wall,
            rng=rng,
            metrics=self._metrics,
            make_keys=self._make_keys,
        )
        world.oracles.born(self)

    def _make_keys(self):
        """No real ones: these are slow to make, and of nobody's seed."""
        self._pairs += 1
        pair = f"{self.wire.who}/{self._pairs}".encode()
        return {"ssh-privatekey": b"private " + pair, "ssh-publickey": b"public " + pair}

    def wall(self):
        """The time as its machine has it."""
        gone_s = self.world.loop.time() - self._turned_at_s
        return self.world.wall() + timedelta(seconds=self.skew_s + gone_s * (self._rate - 1.0))

    def turn_clock(self, rate):
        """From now on its wall clock goes at another rate; what it has gained it keeps."""
        now_s = self.world.loop.time()
        self.skew_s += (now_s - self._turned_at_s) * (self._rate - 1.0)
        self._rate, self._turned_at_s = rate, now_s

    async def run(self):
        while not self.stop.is_set():
            self._process = self.world.tasks.create_task(self._live(), name=self.wire.who)
            await asyncio.wait({self._process})
            if not self._process.cancelled() and self._process.exception() is not None:
                return  # the group has heard of it
            if self.stop.is_set():
                return
            await asyncio.sleep(self.restart_s)
            self._renew()

    async def _live(self):
        try:
            await self.operator.run(self.stop)
        except* (NotLeaderError, NotSyncedError):
            pass  # the process ends, as it should; another one is started

    def kill(self):
        """As signal 9: nothing of it writes any more, and nothing of it is remembered."""
        self.wire.dead = True
        self._process.cancel()

    @property
    def leads(self):
        return not self.wire.dead and self.operator.leads and self.operator.synced.is_set()


@asynccontextmanager
async def running(
    seed,
    *,
    nodes=("3x8 910B",),
    volcano=True,
    batch=False,
    replicas=("a",),
    death=None,
    **options,
):
    """A world that lives as long as the block."""
    async with asyncio.TaskGroup() as tasks:
        world = World(tasks, seed, **options)
        if volcano:
            await world.install_volcano()
        await world.install(*job_crds())
        await world.add_nodes(*nodes)
        staged = StagedNodes(world.people, wall=world.wall, rng=world.dice("nodes"))
        standing = [
            tasks.create_task(staged.run(), name="nodes"),
            tasks.create_task(Scheduler(world.people, wall=world.wall).run(), name="scheduler"),
        ]
        world.staged = staged
        if batch:
            hands = Client(SimTransport(world.server), rng=world.dice("batch"))
            jobs = BatchJobs(hands, wall=world.wall)
            standing.append(tasks.create_task(jobs.run(), name="batch"))
        for name in replicas:
            world.start(name, death=death)
            death = None
        if world.weather is not None:
            standing.append(tasks.create_task(world.weather.blow(world), name="weather"))
        yield world
        for replica in world.replicas:
            replica.stop.set()
            replica.kill()
        for task in standing:
            task.cancel()
        world.server.close()
