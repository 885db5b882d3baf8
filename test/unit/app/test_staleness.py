# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A server that is away is no reason to restart, and a share that hangs is none to stand still."""

import asyncio
import threading

import pytest

from ascendop.app.probes import checks
from ascendop.apply.plan import TableWish
from ascendop.apply.tables import SHARE_S, SharedDirectoryError, Tables
from ascendop.kube.errors import TransportError
from ascendop.telemetry.watchdog import Watchdog


async def nothing_answers(request):
    raise TransportError(f"{request}: connection refused", sent=False)


async def test_an_api_server_that_is_away_shows_in_numbers_and_turns_no_probe_red(town):
    """runtime:O-3, pitfall 88: of a leader and of its caches; all replicas would restart.

    field-reports:FR-099
    """
    operator, stop = town.operator(), asyncio.Event()
    watchdog = Watchdog(operator.metrics.loop)
    live, ready = checks(operator, watchdog, stop)
    async with town.running(operator), asyncio.TaskGroup() as group:
        beat = group.create_task(watchdog.beat())
        await asyncio.sleep(60)
        town.wire.before.append(nothing_answers)
        town.server.cut_watches()
        await asyncio.sleep(600)
        ages = [informer.figures().last_event_age_s for informer in operator.mirror.mandatory]
        assert min(ages) >= 599
        assert live.problems() == {} == ready.problems()
        operator.metrics.refresh()
        text = operator.metrics.render()[1].decode()
        shown = [line for line in text.splitlines() if "last_event_age_seconds{" in line]
        assert any(float(line.rsplit(" ", 1)[1]) >= 599 for line in shown)
        town.wire.before.clear()
        await town.create()
        await town.until_pods(2)
        beat.cancel()


@pytest.mark.real_time
async def test_files_are_read_and_written_by_one_thread_and_never_by_the_loop_s(
    town, tmp_path, monkeypatch
):
    """runtime:O-6"""
    where = []
    tables = Tables(town.hands, town.wall, tmp_path)
    write = tables._write_file
    monkeypatch.setattr(
        tables, "_write_file", lambda *args: (where.append(threading.get_ident()), write(*args))
    )
    for number in range(5):
        wish = TableWish(f"{{{number}}}", f"rings-config-{number}", f"default.{number}")
        await tables.fulfil("default", f"uid-{number}", wish)
    tables.close()
    assert len(where) == 5 and len(set(where)) == 1
    assert threading.get_ident() not in where
    assert (tmp_path / "default.4" / "hccl.json").read_text() == "{4}"


@pytest.mark.real_time
async def test_a_share_that_hangs_holds_up_neither_the_loop_nor_the_end(
    town, tmp_path, monkeypatch
):
    """runtime:O-6"""
    monkeypatch.setattr("ascendop.apply.tables.SHARE_S", 0.2)
    hangs = threading.Event()
    tables = Tables(town.hands, town.wall, tmp_path)
    monkeypatch.setattr(tables, "_write_file", lambda *_: hangs.wait(20))
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    async with asyncio.TaskGroup() as group:
        beating = group.create_task(beat())
        took_s = []
        for _ in range(3):  # all but the first find the thread still busy, and do not wait
            began_at = asyncio.get_running_loop().time()
            with pytest.raises(SharedDirectoryError, match="is the share mounted"):
                await tables.fulfil("default", "u", TableWish("{}", "c", "default.j"))
            took_s.append(asyncio.get_running_loop().time() - began_at)
        assert took_s[0] >= 0.2 and max(took_s[1:]) < 0.1
        beating.cancel()
    tables.close()
    hangs.set()
    assert beats > 10 and SHARE_S == 10
