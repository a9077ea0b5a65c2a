"""Incidents are kept as they were told, within bounds, together with what was said of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.state import FaultClass, subjects
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.incident import Entry, EntryKind, Incident
from reconciler.state.reports.status import Event
from reconciler.store import EventFilter, IncidentFilter, Store, carry_over
from reconciler.store.tables.incidents import INCIDENTS_KEPT, KEPT_SECONDS
from reconciler.wire.launch import RankId

NODE = ObjectKey("Node", "node-a")
OPEN = Incident(
    id=1,
    object=NODE,
    subject=subjects.read("node/node-a"),
    fault=FaultClass.RDMA_DISABLED,
    opened_at=100.0,
    present=FaultClass.LINK_DOWN,
    doing="go over the LAN",
    person="start it in Recovery mode",
    asked=(FaultClass.RDMA_DISABLED,),
    reopened=2,
    unserved_since=101.0,
    unserved_seconds=3.5,
    epoch=4,
    entries=(
        Entry(100.0, EntryKind.SEEN, "it is off", FaultClass.RDMA_DISABLED, rank=RankId("tiny", 0, 4, 1)),
        Entry(101.0, EntryKind.TRIED, "form epoch 4", None, 0.25, 3),
    ),
    left_out=7,
)
OPENED = Event(100.0, NODE, True, "IncidentOpened", "it is off", "incident/1/opened")


def over(number: int, closed_at: float, settled: bool = True) -> Incident:
    return replace(OPEN, id=number, closed_at=closed_at, settled=settled)


def ids(store: Store, wanted: IncidentFilter | None = None) -> list[int]:
    return [incident.id for incident in store.incidents.find(wanted or IncidentFilter(limit=10_000))]


def test_an_incident_is_complete_after_a_restart(store: Store, tmp_path: Path) -> None:
    store.put_incidents((OPEN,), (OPENED,), (), 100.0)
    store.close()
    again = Store(tmp_path / "store.db")
    assert again.incidents.unsettled() == {1: OPEN}
    assert again.incidents.find(IncidentFilter(id=1)) == [OPEN]
    again.close()


def test_an_incident_and_its_events_are_written_together_or_not_at_all(store: Store) -> None:
    store.put_incidents((OPEN,), (OPENED,), (), 100.0)
    store.put_incidents((OPEN,), (OPENED,), (), 100.0)
    assert [event.key for _, event in store.events(EventFilter())] == ["incident/1/opened"]
    wrong = replace(OPENED, key="incident/2/opened", message="\ud800")
    with pytest.raises(UnicodeEncodeError):
        store.put_incidents((replace(OPEN, id=2),), (wrong,), (), 100.0)
    assert (ids(store), store.incidents.last_id()) == ([1], 1)


def test_settled_incidents_are_kept_up_to_a_number_and_an_age(store: Store) -> None:
    many = [over(number, 1000.0) for number in range(1, INCIDENTS_KEPT + 11)]
    store.put_incidents([*many, replace(OPEN, id=INCIDENTS_KEPT + 11)], (), (), 1000.0)
    assert ids(store) == list(range(11, INCIDENTS_KEPT + 12))
    store.put_incidents([over(INCIDENTS_KEPT + 12, 900.0 + KEPT_SECONDS)], (), (), 1001.0 + KEPT_SECONDS)
    assert ids(store) == [INCIDENTS_KEPT + 11, INCIDENTS_KEPT + 12], "one that is open stays, however old"


def test_numbers_are_given_once_even_when_old_incidents_are_gone(store: Store) -> None:
    store.put_incidents([over(1, 10.0), over(2, 10.0)], (), (), 20.0 + KEPT_SECONDS)
    assert (ids(store), store.incidents.last_id()) == ([], 2)


def test_a_restored_store_gives_no_number_again_that_the_replaced_one_gave(tmp_path: Path) -> None:
    for name, number in (("old.db", 3), ("replaced.db", 8)):
        made = Store(tmp_path / name)
        made.put_incidents([replace(OPEN, id=number)], (), (), 100.0)
        made.close()
    carry_over(tmp_path / "old.db", tmp_path / "replaced.db", ())
    restored = Store(tmp_path / "old.db")
    assert (ids(restored), restored.incidents.last_id()) == ([3], 8)
    restored.close()


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (IncidentFilter(), [1, 2, 3]),
        (IncidentFilter(open=True), [3]),
        (IncidentFilter(since=150.0), [2, 3]),
        (IncidentFilter(kind="Node"), [1, 3]),
        (IncidentFilter(kind="ModelDeployment", name="tiny"), [2]),
        (IncidentFilter(limit=2), [2, 3]),
        (IncidentFilter(id=2), [2]),
        (IncidentFilter(id=9), []),
    ],
)
def test_incidents_are_found_by_what_they_are_about(
    store: Store, wanted: IncidentFilter, found: list[int]
) -> None:
    tiny = replace(over(2, 200.0, settled=False), object=ObjectKey("ModelDeployment", "tiny"))
    store.put_incidents([over(1, 120.0), tiny, replace(OPEN, id=3)], (), (), 200.0)
    assert ids(store, wanted) == found


def test_a_number_is_never_given_twice_also_where_an_older_incident_goes_on(store: Store) -> None:
    store.put_incidents((over(7, 200.0),), (), (), 200.0)
    store.put_incidents((OPEN,), (), (), 300.0)
    assert store.incidents.last_id() == 7
