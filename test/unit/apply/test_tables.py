# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank tables in the places that users provide: written when they differ, and only then."""

import asyncio
from datetime import UTC, datetime
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.apply.files import SharedDirectoryError
from ascendop.apply.maps import MAX_TABLE
from ascendop.apply.plan import TableWish
from ascendop.apply.standing import TooLargeError
from ascendop.apply.tables import LOOK_AGAIN, Tables
from ascendop.clock import simulated
from ascendop.kube.client import Client
from ascendop.kube.errors import ConflictError, TransportError
from ascendop.kube.resource import CONFIGMAPS
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport

from ..wire import Wire, is_write, reset  # noqa: TID252  the standard library has a test package

NS, NAME, UID = "default", "rings-config-j", "U"
OLD = '{"status":"completed","server_count":"2"}'
NEW = '{"status":"completed","server_count":"3"}'
BARE = '{"status":"initializing","version":"1.0"}'
START = datetime(2026, 1, 1, tzinfo=UTC)


def wish(content=OLD, *, directory=""):
    return TableWish(content, NAME, directory)


def withdrawal(*, directory=""):
    return TableWish(BARE, NAME, directory, only_over_completed=True)


class Shelf:
    """A server and perhaps a share, and who keeps tables there; a new keeper remembers nothing."""

    def __init__(self, root=None):
        self.wall = simulated(START, asyncio.get_running_loop().time)
        server = ApiServer(wall=self.wall, rng=Random(1))
        self.wire = Wire(server)
        self.hands = Client(SimTransport(server), rng=Random(2))
        self.root = root
        self.tables = self.keeper()

    def keeper(self):
        return Tables(Client(self.wire, rng=Random(3), attempts=1), self.wall, self.root)

    async def provide(self, **data):
        """The user makes the ConfigMap."""
        labels = {"ring-controller.atlas": "ascend-910b"}
        meta = {"namespace": NS, "name": NAME, "labels": labels}
        await self.hands.create(
            CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        )

    async def fulfil(self, wanted):
        return await self.tables.fulfil(NS, UID, wanted)

    async def data(self):
        return (await self.hands.get(CONFIGMAPS, NS, NAME)).get("data", {})

    async def version(self):
        return (await self.data())["version"]


@pytest.fixture
async def shelf():
    return Shelf()


# ── a ConfigMap ──


async def test_r20_table_and_version_are_filled_in_and_other_keys_are_kept(shelf):
    """ascendjob:R20."""
    await shelf.provide(**{"hccl.json": BARE, "extra": "mine"})
    assert await shelf.fulfil(wish()) is None
    assert await shelf.data() == {"hccl.json": OLD, "version": "0", "extra": "mine"}


async def test_r18_the_version_moves_with_the_table_and_never_without_it(shelf):
    """ascendjob:R18 ascendjob:W-26: 0 for the first, as in the contract; then it only grows."""
    await shelf.provide()
    versions = []
    for content in (OLD, OLD, NEW, NEW, OLD):
        await asyncio.sleep(100)
        await shelf.fulfil(wish(content))
        versions.append(await shelf.version())
    assert versions[0] == versions[1] == "0" and versions[2] == versions[3]
    assert 0 < int(versions[2]) < int(versions[4])


async def test_two_tables_in_one_second_have_two_versions(shelf):
    """ascendjob:W-26."""
    await shelf.provide(version=str(int(START.timestamp()) + 5))
    await shelf.fulfil(wish())
    assert await shelf.version() == str(int(START.timestamp()) + 6)


@pytest.mark.parametrize("before", ["first", "9" * 5000])
async def test_a_version_that_is_no_number_is_replaced(before, shelf):
    await shelf.provide(version=before)
    await shelf.fulfil(wish())
    assert await shelf.version() == str(int(START.timestamp()))


async def test_r23_a_table_that_stands_costs_not_even_a_read(shelf):
    """ascendjob:R23: ten more events about the job's pods."""
    await shelf.provide()
    await shelf.fulfil(wish())
    asked = len(shelf.wire.sent)
    for _ in range(10):
        await shelf.fulfil(wish())
    assert len(shelf.wire.sent) == asked


async def test_r27_another_operator_finds_the_same_table_and_writes_nothing(shelf):
    """ascendjob:W-7 ascendjob:R27: after a restart the version is not 0 again."""
    await shelf.provide()
    await shelf.fulfil(wish())
    await asyncio.sleep(100)
    shelf.tables = shelf.keeper()
    await shelf.fulfil(wish())
    assert shelf.wire.writes() == [("PATCH", NAME)]


async def test_r19_a_config_map_that_comes_later_is_filled_at_the_next_look(shelf):
    """ascendjob:W-6 ascendjob:R19."""
    assert await shelf.fulfil(wish()) == LOOK_AGAIN.first_s
    await shelf.provide()
    await asyncio.sleep(LOOK_AGAIN.first_s / 2)
    assert await shelf.fulfil(wish()) == LOOK_AGAIN.first_s / 2
    await asyncio.sleep(LOOK_AGAIN.first_s / 2)
    assert await shelf.fulfil(wish()) is None
    assert (await shelf.data())["hccl.json"] == OLD


async def test_a_config_map_that_never_comes_is_asked_for_less_and_less_often(shelf):
    """A thousand jobs without one must not ask all the time."""
    loop = asyncio.get_running_loop()
    looks = []
    while loop.time() < 3600:
        if (pause_s := await shelf.fulfil(wish())) is not None:
            looks.append(pause_s)
            await asyncio.sleep(pause_s)
    assert looks[:6] == pytest.approx([30, 60, 120, 240, 480, 600])
    assert len(looks) < 12


async def test_r15_a_table_is_withdrawn_as_the_bare_status_and_comes_back(shelf):
    """ascendjob:R15 ascendjob:W-27 field-reports:FR-058."""
    await shelf.provide()
    seen = []
    for wanted in (wish(), withdrawal(), wish(NEW)):
        await shelf.fulfil(wanted)
        seen.append((await shelf.data())["hccl.json"])
    assert seen == [OLD, BARE, NEW]


@pytest.mark.parametrize("before", ["", BARE, "not json", '{"status":"initializing","by":"me"}'])
async def test_what_was_never_complete_is_not_withdrawn(shelf, before):
    """Section 6.7: the first `initializing` is the user's own."""
    await shelf.provide(**{"hccl.json": before})
    await shelf.fulfil(withdrawal())
    assert await shelf.data() == {"hccl.json": before} and shelf.wire.writes() == []


async def test_a_write_that_failed_is_tried_again(shelf):
    """ascendjob:W-6: Section 6.8: the original forgets it until the pods change."""
    await shelf.provide()
    shelf.wire.before.append(reset(is_write("PATCH", "configmaps", NAME), times=1))
    with pytest.raises(TransportError):
        await shelf.fulfil(wish())
    await shelf.fulfil(wish())
    assert (await shelf.data())["hccl.json"] == OLD


async def test_what_somebody_else_wrote_meanwhile_is_not_overwritten_unseen(shelf):
    await shelf.provide()

    async def meddle(request):
        if request.method == "PATCH" and not meddled:
            meddled.append(request)
            await shelf.hands.patch(CONFIGMAPS, NS, NAME, {"data": {"extra": "theirs"}})

    meddled = []
    shelf.wire.before.append(meddle)
    with pytest.raises(ConflictError):
        await shelf.fulfil(wish())
    await shelf.fulfil(wish())
    assert await shelf.data() == {"hccl.json": OLD, "version": "0", "extra": "theirs"}


async def test_a_further_table_is_written_without_a_look_at_the_one_before(shelf):
    await shelf.provide(extra="mine")
    await shelf.fulfil(wish())
    asked = len(shelf.wire.sent)
    await shelf.fulfil(wish(NEW))
    assert [request.method for request in shelf.wire.sent[asked:]] == ["PATCH"]
    data = await shelf.data()
    assert (data["hccl.json"], data["extra"]) == (NEW, "mine")


async def test_over_what_a_stranger_did_to_our_table_is_written_after_a_look(shelf):
    await shelf.provide()
    await shelf.fulfil(wish())
    await shelf.hands.patch(CONFIGMAPS, NS, NAME, {"data": {"version": "7000000000"}})
    await shelf.fulfil(wish(NEW))
    assert await shelf.data() == {"hccl.json": NEW, "version": "7000000001"}


async def test_a_config_map_that_was_removed_is_waited_for_again(shelf):
    await shelf.provide()
    await shelf.fulfil(wish())
    await shelf.hands.delete(CONFIGMAPS, NS, NAME)
    assert await shelf.fulfil(wish(NEW)) == LOOK_AGAIN.first_s
    await shelf.provide()
    await asyncio.sleep(LOOK_AGAIN.first_s)
    assert await shelf.fulfil(wish(NEW)) is None
    assert await shelf.data() == {"hccl.json": NEW, "version": "0"}


async def test_a_table_that_no_config_map_holds_says_what_to_do(shelf):
    """ascendjob:W-40"""
    await shelf.provide()
    with pytest.raises(TooLargeError, match="mount a shared directory by a volume named ranktable"):
        await shelf.fulfil(wish("x" * (MAX_TABLE + 1)))
    assert shelf.wire.writes() == []


async def test_r22_the_end_of_a_job_leaves_the_users_config_map(shelf):
    """ascendjob:R22."""
    await shelf.provide()
    await shelf.fulfil(wish())
    await shelf.tables.forget(UID, NS, "j")
    assert shelf.wire.writes() == [("PATCH", NAME)]
    assert (await shelf.data())["hccl.json"] == OLD


# ── a shared directory ──


@pytest.fixture
async def share(tmp_path):
    return Shelf(tmp_path)


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.real_time
async def test_r21_the_directory_is_made_before_there_is_a_table(share):
    """ascendjob:R21."""
    await share.fulfil(withdrawal(directory="ns.j"))
    assert list(share.root.iterdir()) == [share.root / "ns.j"]
    assert list((share.root / "ns.j").iterdir()) == []


@pytest.mark.real_time
async def test_r21_files_are_readable_by_everybody_and_whole(share):
    """ascendjob:R21."""
    for content in (OLD, NEW):
        await share.fulfil(wish(content, directory="ns.j"))
    folder = share.root / "ns.j"
    assert {file.name: mode(file) for file in folder.iterdir()} == {
        "hccl.json": 0o644,
        "version": 0o644,
    }
    assert (folder / "hccl.json").read_text() == NEW and int((folder / "version").read_text()) > 0


@pytest.mark.real_time
async def test_r23_r27_an_equal_file_is_not_written_again(share):
    """ascendjob:R23 ascendjob:R27."""
    await share.fulfil(wish(directory="ns.j"))
    before = (share.root / "ns.j" / "hccl.json").stat()
    share.tables = share.keeper()
    await share.fulfil(wish(directory="ns.j"))
    assert (share.root / "ns.j" / "hccl.json").stat() == before


@pytest.mark.real_time
async def test_a_reader_of_the_old_file_keeps_the_old_file(share):
    """ascendjob:W-17: Section 6.10: replaced by rename, so that nobody reads half a table.

    field-reports:FR-064
    """
    await share.fulfil(wish(directory="ns.j"))
    with (share.root / "ns.j" / "hccl.json").open() as reader:
        await share.fulfil(wish(NEW, directory="ns.j"))
        assert reader.read() == OLD


@pytest.mark.real_time
async def test_r22_the_end_of_a_job_takes_its_files_along(share):
    """ascendjob:W-48 ascendjob:R22."""
    await share.fulfil(wish(directory="ns.j"))
    await share.tables.forget(UID, "ns", "j")
    assert list(share.root.iterdir()) == []


@pytest.mark.real_time
async def test_files_of_a_job_that_ended_while_nobody_looked_are_swept(share):
    """ascendjob:W-48: Section 6.10: the original leaves them for ever."""
    for name in ("gone", "alive"):
        await share.tables.fulfil("ns", name, wish(directory=f"ns.{name}"))
    (share.root / "by.hand").mkdir()
    assert await share.tables.sweep(lambda _namespace, name: name == "alive") == 1
    assert sorted(path.name for path in share.root.iterdir()) == ["by.hand", "ns.alive"]


@pytest.mark.real_time
async def test_a_symbolic_link_does_not_lead_us_elsewhere(share, tmp_path_factory):
    """ascendjob:W-18: the share belongs to users, and we may write to more than they.

    field-reports:FR-064
    """
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (share.root / "ns.j").symlink_to(elsewhere)
    with pytest.raises(SharedDirectoryError, match="symbolic link"):
        await share.fulfil(wish(directory="ns.j"))
    (share.root / "ns.k").mkdir()
    (elsewhere / "precious").write_text("theirs")
    (share.root / "ns.k" / "hccl.json").symlink_to(elsewhere / "precious")
    await share.fulfil(wish(directory="ns.k"))
    assert (elsewhere / "precious").read_text() == "theirs"


@pytest.mark.real_time
async def test_an_odd_path_is_refused(share):
    with pytest.raises(SharedDirectoryError, match="not a path for a rank table"):
        await share.fulfil(wish(directory="ns.j k"))


@pytest.mark.real_time
async def test_the_config_map_waits_for_a_file_that_cannot_be_written(share):
    """Section 6.8: file first; and the whole is tried again."""
    await share.provide()
    (share.root / "ns.j").write_text("in the way")
    with pytest.raises(SharedDirectoryError, match="make it writable"):
        await share.fulfil(wish(directory="ns.j"))
    assert await share.data() == {}
    (share.root / "ns.j").unlink()
    await share.fulfil(wish(directory="ns.j"))
    assert (await share.data())["hccl.json"] == OLD
