"""The order in which submissions reach the queue, without a device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.driver.vulkan.running.scheduler import IN_FLIGHT, Scheduler, Ticket


class Work:
    """A fence that a test signals; ``error`` is what the device says of it from then on."""

    def __init__(self, error: Exception | None = None) -> None:
        self.over = threading.Event()
        self.error = error

    def wait(self, timeout_ns: int = -1) -> bool:
        over = self.over.wait(None if timeout_ns < 0 else timeout_ns / 1e9)
        if over and self.error is not None:
            raise self.error
        return over

    @property
    def signaled(self) -> bool:
        if self.over.is_set() and self.error is not None:
            raise self.error
        return self.over.is_set()

    def export_sync_fd(self) -> int:
        return 42


class Queue:
    """Notes the order of submissions."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.works: dict[str, Work] = {}
        self.changed = threading.Condition()

    def submitting(self, name: str, error: Exception | None = None) -> Callable[[], Work]:
        def start() -> Work:
            with self.changed:
                self.order.append(name)
                self.works[name] = Work(error)
                self.changed.notify_all()
                return self.works[name]

        return start

    def await_submissions(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.order) >= count, 10), self.order


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def busy(queue: Queue) -> Scheduler:
    """A scheduler with as many submissions in flight as there may be: 0, 1, ..."""
    scheduler = Scheduler()
    for number in range(IN_FLIGHT):
        scheduler.submit(100, queue.submitting(str(number)))
    assert len(queue.order) == IN_FLIGHT
    return scheduler


def test_at_most_so_many_are_in_flight(busy: Scheduler, queue: Queue) -> None:
    ticket = busy.submit(100, queue.submitting("next"))
    time.sleep(0.05)
    assert "next" not in queue.order
    assert not ticket.signaled
    queue.works["0"].over.set()
    queue.await_submissions(IN_FLIGHT + 1)
    queue.works["next"].over.set()
    assert ticket.wait()
    assert ticket.signaled
    assert ticket.export_sync_fd() == 42


def test_priorities_order_what_waits_and_equal_ones_keep_theirs(busy: Scheduler, queue: Queue) -> None:
    for name, priority in (("m1", 100), ("l1", 90), ("h1", 110), ("m2", 100), ("l2", 90), ("h2", 110)):
        busy.submit(priority, queue.submitting(name))
    for count, name in enumerate(["0", "1", "h1", "h2", "m1", "m2"]):
        queue.works[name].over.set()
        queue.await_submissions(IN_FLIGHT + count + 1)
    assert queue.order[IN_FLIGHT:] == ["h1", "h2", "m1", "m2", "l1", "l2"]


def test_nobody_overtakes_what_waits(busy: Scheduler, queue: Queue) -> None:
    busy.submit(90, queue.submitting("low"))
    queue.works["0"].over.set()
    queue.await_submissions(IN_FLIGHT + 1)
    assert queue.order[-1] == "low"


def test_finished_work_makes_room_at_once(busy: Scheduler, queue: Queue) -> None:
    queue.works["0"].over.set()
    fence = busy.submit(90, queue.submitting("now"))
    assert fence is queue.works["now"]


def test_an_error_at_submission_goes_to_the_caller_or_to_who_waits(busy: Scheduler, queue: Queue) -> None:
    def fail() -> Work:
        raise RuntimeError("no memory for a command buffer")

    with pytest.raises(RuntimeError, match="no memory"):
        Scheduler().submit(100, fail)
    failing, after = busy.submit(100, fail), busy.submit(100, queue.submitting("after"))
    queue.works["0"].over.set()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no memory"):
            failing.wait()
    with pytest.raises(RuntimeError, match="no memory"):
        failing.export_sync_fd()
    assert not failing.signaled
    queue.await_submissions(IN_FLIGHT + 1)
    queue.works["after"].over.set()
    assert after.wait()


def test_a_lost_device_does_not_stop_the_queue(queue: Queue) -> None:
    scheduler = Scheduler()
    for number in range(IN_FLIGHT):
        scheduler.submit(100, queue.submitting(str(number), RuntimeError("VK_ERROR_DEVICE_LOST")))
    ticket = scheduler.submit(100, queue.submitting("waiting"))
    for number in range(IN_FLIGHT):
        queue.works[str(number)].over.set()
    queue.await_submissions(IN_FLIGHT + 1)  # to a device that is alive again
    queue.works["waiting"].over.set()
    assert ticket.wait(10**10)
    assert scheduler.submit(100, queue.submitting("later")) is queue.works["later"]


def test_a_ticket_waits_no_longer_than_told(busy: Scheduler, queue: Queue) -> None:
    ticket = busy.submit(100, queue.submitting("next"))
    assert isinstance(ticket, Ticket)
    began = time.monotonic()
    assert not ticket.wait(20_000_000)
    queue.works["0"].over.set()
    queue.await_submissions(IN_FLIGHT + 1)
    assert not ticket.wait(20_000_000)
    assert time.monotonic() - began < 5
    assert not ticket.wait(0)
    assert ticket.fence is queue.works["next"]


def test_a_turn_that_is_given_up_never_comes(busy: Scheduler, queue: Queue) -> None:
    given_up, after = busy.submit(100, queue.submitting("given up")), busy.submit(90, queue.submitting("after"))
    assert isinstance(given_up, Ticket)
    assert given_up.cancel()
    assert not given_up.cancel(), "it can be given up once"
    assert given_up.wait(10**10), "nothing is left to wait for"
    assert given_up.signaled
    assert given_up.fence is None
    assert given_up.export_sync_fd() == -1
    queue.works["0"].over.set()
    queue.await_submissions(IN_FLIGHT + 1)
    queue.works["after"].over.set()
    assert after.wait(10**10)
    assert "given up" not in queue.order


def test_a_turn_that_has_come_can_not_be_given_up(busy: Scheduler, queue: Queue) -> None:
    ticket = busy.submit(100, queue.submitting("next"))
    assert isinstance(ticket, Ticket)
    queue.works["0"].over.set()
    queue.await_submissions(IN_FLIGHT + 1)
    assert not ticket.cancel()
    assert not ticket.wait(0)
    queue.works["next"].over.set()
    assert ticket.wait(10**10)


def test_who_waits_for_a_turn_hears_that_it_was_given_up(busy: Scheduler, queue: Queue) -> None:
    ticket = busy.submit(100, queue.submitting("given up"))
    assert isinstance(ticket, Ticket)
    heard: list[bool] = []
    waiting = threading.Thread(target=lambda: heard.append(ticket.wait(5 * 10**9)), daemon=True)
    waiting.start()
    ticket.cancel()
    waiting.join(10)
    assert heard == [True]


def test_no_thread_that_gives_turns(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that need not wait goes on, work that would have to wait gets a result code, and nothing is left behind."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    scheduler = Scheduler()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for number in range(IN_FLIGHT):
            scheduler.submit(100, queue.submitting(str(number)))
        with pytest.raises(NnapiError, match="can't start new thread") as error:
            scheduler.submit(100, queue.submitting("refused"))
        assert error.value.code is ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
    later = scheduler.submit(100, queue.submitting("later"))
    queue.works["0"].over.set()
    queue.await_submissions(IN_FLIGHT + 1)
    queue.works["later"].over.set()
    assert later.wait(10**10)
    assert "refused" not in queue.order


def test_threads_submit_at_once(queue: Queue) -> None:
    scheduler, fences = Scheduler(), []

    def finish(name: str) -> Callable[[], Work]:
        def start() -> Work:
            work = queue.submitting(name)()
            work.over.set()
            return work

        return start

    def submit(number: int) -> None:
        for turn in range(50):
            fences.append(scheduler.submit(90 + turn % 3 * 10, finish(f"{number}.{turn}")))

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(fence.wait(10**10) for fence in fences)
    assert len(queue.order) == 200
