"""Whatever the history of a table, expiry takes nothing that anybody reads from it."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from firn.config.maintenance import Expiry
from firn.maintenance.expiry import Plan, Ref, Snapshot, Snapshots, plan, told
from firn.tables.table_state import EPOCH, epoch_of
from tests.soak import times

STREAMS = ("a", "b", "c")
NOW = 10_000_000


class History:
    """A table as commits, merges, rollbacks, rebuilds and tags leave it. Each stream counts its epochs up."""

    def __init__(self) -> None:
        self.all: dict[int, Snapshot] = {}
        self.head: int | None = None
        self.refs: list[Ref] = []
        self.epochs = dict.fromkeys(STREAMS, 0)
        self.ms = 0
        self.altered = 0

    def add(self, summary: dict[str, str], *, parent: bool = True) -> None:
        n = len(self.all) + 1
        self.all[n] = Snapshot(n, self.head if parent else None, self.ms, summary)
        self.head = n

    def step(self, what: tuple[str, int]) -> None:
        kind, dice = what
        self.ms += dice % 7 * 10_000
        stream = STREAMS[dice % 3 if dice % 10 > 3 else 0]  # mostly the first: the others are idle for long
        match kind:
            case "commit":
                self.epochs[stream] += 1 + dice % 2
                said = {f"{EPOCH}{stream}": str(self.epochs[stream])}
                if dice % 5:
                    said[f"firn.sealed.{stream}"] = f"{stream}{self.epochs[stream]}.{dice}"
                if dice % 4 == 0:
                    said |= {"firn.newest": f"{dice:04x}", "firn.truncated": f"{dice // 2:04x}"}
                if dice % 40 == 0:
                    said["firn.creates"] = "true"
                self.add(said)
            case "twin":
                self.add({f"{EPOCH}{stream}": str(max(1, self.epochs[stream] - dice % 3))})
            case "merge":
                self.add({"operation": "replace"})
            case "rollback" if self.head is not None:
                chain = list(self.snapshots().chain(self.head))
                self.head = chain[dice % min(len(chain), 4)].id
            case "rebuild":
                self.add({"firn.rebuild": str(dice)} | self.told(), parent=False)
            case "tag" if self.head is not None:
                self.refs.append(Ref(f"tag-{len(self.refs)}", "tag", self.head))
            case "altered":
                self.altered += 1
                self.add({"firn.schema": str(self.altered)})
            case "carry":
                self.add(self.told())

    def told(self) -> dict[str, str]:
        return told_from(self.snapshots(), self.head)

    def snapshots(self) -> Snapshots:
        main = [] if self.head is None else [Ref("main", "branch", self.head)]
        return Snapshots(self.all, (*main, *self.refs))


def told_from(snapshots: Snapshots, head: int | None) -> dict[str, str]:
    return told([one.summary for one in snapshots.chain(head)][::-1])


KINDS = ("commit",) * 12 + ("merge", "merge", "twin", "rollback", "rebuild", "tag", "carry", "altered")
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 1_000)), min_size=1, max_size=120)
policies = st.builds(Expiry, st.integers(1, 900), st.integers(1, 30), st.integers(1, 60))


def made(some: Iterable[tuple[str, int]]) -> History:
    history = History()
    for one in some:
        history.step(one)
    return history


def left(snapshots: Snapshots, found: Plan) -> Snapshots:
    return Snapshots({n: one for n, one in snapshots.all.items() if n in found.kept}, snapshots.refs)


@given(steps, policies, st.dictionaries(st.sampled_from(STREAMS), st.integers(0, 60)), st.sets(st.integers(1, 120)))
@settings(max_examples=times(17, 5_000, 300), deadline=None)
def test_from_every_snapshot_that_stays_all_is_told_as_before(
    some: list[tuple[str, int]], policy: Expiry, counted: dict[str, int], named: set[int]
) -> None:
    history = made(some)
    before = history.snapshots()
    found = plan(before, policy, history.ms + 5_000, must_stay=named, counted=counted)
    after = left(before, found)
    assert set(found.expired) | set(found.kept) == set(before.all)
    assert not set(found.expired) & set(found.kept)
    for n in found.kept:
        assert told_from(after, n) == told_from(before, n)
    # Main stays in one piece, as long as it has to be.
    chain, kept = list(before.chain(history.head)), list(after.chain(history.head))
    assert kept == chain[: len(kept)]
    assert len(kept) >= min(len(chain), max(policy.at_least, 20) if policy.at_most > policy.at_least else 20)
    for one in chain[len(kept) :]:
        assert not any(epoch_of(stream, one.summary) > n for stream, n in counted.items())
    assert {ref.snapshot for ref in before.refs} <= set(found.kept)
    assert named & set(before.all) <= set(found.kept)
    if found.carry:
        assert found.carry == history.told()


@given(steps, policies)
@settings(max_examples=100, deadline=None)
def test_what_went_once_leaves_nothing_for_the_second_time(some: list[tuple[str, int]], policy: Expiry) -> None:
    history = made(some)
    before = history.snapshots()
    found = plan(before, policy, history.ms)
    again = plan(left(before, found), policy, history.ms)
    assert again.expired == ()
    assert set(again.kept) == set(found.kept)


@given(steps, policies)
@settings(max_examples=100, deadline=None)
def test_what_is_carried_lets_the_chain_end_there(some: list[tuple[str, int]], policy: Expiry) -> None:
    """After as many commits as stay nothing older than what was carried is needed for main."""
    history = made([*some, *[("commit", 6)] * 60])
    history.refs.clear()
    carried = plan(history.snapshots(), policy, history.ms).carry
    history.add(dict(carried) or history.told())
    place = history.head
    for _ in range(70):
        history.step(("merge", 6))
    found = plan(history.snapshots(), policy, history.ms + 10_000_000)
    chain = [one.id for one in left(history.snapshots(), found).chain(history.head)]
    assert chain[-1] == place
