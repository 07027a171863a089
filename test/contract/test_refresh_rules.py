"""Which stages are due: each rule of the refresh contract on a pipeline made by hand, and the laws of `due` itself."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.refresh import Due, Ledger, derived_stamp, due, over_age
from flashrt_ros.contract.schema import Contract, Limits, PolicyChoice, Rollback
from flashrt_ros.contract.spec import BufferSpec, PolicySpec, StageSpec

MS = 1_000_000
INPUTS = ("scene", "task", "joints")
STATES = ("track",)


def pipeline(*stages: Stage) -> Pipeline:
    """The given stages and an action that reads the last one's first output and the joints."""
    action = Stage("action", (stages[-1].writes[0], "joints"), ("chunk",), every=1)
    stages = (*stages, action)
    buffers = [BufferSpec(name, (1,), "float32", "input", timeless=name == "task") for name in INPUTS]
    for stage in stages:
        for name in stage.writes:
            kind = "output" if name == "chunk" else "state" if name in STATES else "derived"
            buffers.append(BufferSpec(name, (1, 1), "float32", kind))
    spec = PolicySpec(
        "test", tuple(buffers), tuple(StageSpec(s.name, s.reads, s.writes) for s in stages), "action", "chunk", ("a",)
    )
    contract = Contract(PolicyChoice("test"), 10.0, 80.0, (), (), (), Limits(), Rollback())
    return Pipeline(contract, spec, stages)


class Boundary:
    """A pipeline whose every stage ran at decision 0; then versions, stamps and runs are set by hand."""

    def __init__(self, *stages: Stage) -> None:
        self.pipeline = pipeline(*stages)
        self.versions = dict.fromkeys(self.pipeline.buffers, 1)
        self.stamps: dict[str, int | None] = dict.fromkeys(self.pipeline.buffers, 0) | {"task": None}
        self.ledger = Ledger()
        for stage in self.pipeline.stages:
            self.ledger.ran(stage, 0, self.versions)

    def due(self, decision: int, now_ns: int = 0, deferred: tuple[str, ...] = ()) -> dict[str, tuple[str, bool]]:
        """stage -> (reason, background), the action left out."""
        plan = due(self.pipeline, self.ledger, self.versions, self.stamps, now_ns, decision, deferred)
        assert plan[-1].stage == "action" and not plan[-1].background
        return {d.stage: (d.reason, d.background) for d in plan[:-1]}


def vision(**rule) -> Stage:
    return Stage("vision", ("scene",), ("tokens",), **rule)


FUSE = Stage("fuse", ("tokens", "task"), ("belief",))


def test_a_stage_that_never_ran_is_due_in_the_foreground_even_when_it_is_overlapped():
    """There is no older result to act on meanwhile."""
    made = Boundary(vision(every=4, commit_after=1), FUSE)
    plan = due(made.pipeline, Ledger(), made.versions, made.stamps, 0, 0)
    assert plan == (Due("vision", "never"), Due("fuse", "never"), Due("action", "never"))


def test_every_counts_decisions_since_the_last_run():
    made = Boundary(vision(every=3))
    assert [k for k in range(1, 5) if "vision" in made.due(k)] == [3, 4]
    assert made.due(3) == {"vision": ("every", False)}


def test_a_stage_whose_turn_was_skipped_runs_at_the_next_decision():
    """Every third decision, of which the third and fourth were skipped: it must not wait for the sixth."""
    made = Boundary(vision(every=3))
    assert made.due(5) == {"vision": ("every", False)}
    made.ledger.ran(made.pipeline.stage["vision"], 5, made.versions)
    assert made.due(6) == {} and "vision" in made.due(8)


def test_a_new_message_does_not_run_a_stage_that_has_a_rate_of_its_own():
    """The rate is a limit as well: a 30 Hz camera must not make vision run at 30 Hz."""
    made = Boundary(vision(every=3))
    made.versions["scene"] = 9
    assert made.due(1) == {}


def test_a_stage_without_a_rule_follows_what_it_reads():
    made = Boundary(vision(every=9), FUSE)
    assert made.due(1) == {}
    made.versions["task"] = 2
    assert made.due(1) == {"fuse": ("input", False)}


def test_what_is_written_earlier_at_the_same_boundary_counts():
    """The prefix follows the tokens at once, not one decision later."""
    made = Boundary(vision(every=1), FUSE)
    assert made.due(1) == {"vision": ("every", False), "fuse": ("input", False)}


def test_a_background_launch_writes_nothing_at_its_boundary():
    """Its result comes with the commit: running the prefix now would be work on the old tokens."""
    made = Boundary(vision(every=1, commit_after=1), FUSE)
    assert made.due(1) == {"vision": ("every", True)}


def test_on_change_follows_its_buffers_and_no_others():
    made = Boundary(vision(every=9), Stage("fuse", ("tokens", "joints"), ("belief",), on_change=("task",)))
    made.versions["joints"] = made.versions["tokens"] = 2
    assert made.due(1) == {}
    made.versions["task"] = 2
    assert made.due(1) == {"fuse": ("change", False)}
    made.ledger.ran(made.pipeline.stage["fuse"], 1, made.versions)
    assert made.due(2) == {}


def test_every_and_on_change_given_together_are_either_or():
    made = Boundary(vision(every=4, on_change=("task",)))
    assert made.due(3) == {} and made.due(4) == {"vision": ("every", False)}
    made.versions["task"] = 2
    assert made.due(3) == {"vision": ("change", False)}


def test_a_stage_is_not_driven_by_the_state_that_it_writes_itself():
    """Otherwise a recurrent stage would run at every decision for ever, having changed its own state."""
    made = Boundary(Stage("follow", ("scene", "track"), ("belief", "track")))
    made.versions["track"] = 5
    assert made.due(1) == {}
    made.versions["scene"] = 2
    assert made.due(1) == {"follow": ("input", False)}


def test_a_stage_in_flight_is_not_launched_again():
    made = Boundary(vision(every=1, commit_after=3), FUSE)
    made.ledger.launched(made.pipeline.stage["vision"], 1, made.versions, made.stamps)
    made.versions["scene"] = 7
    assert made.due(2) == {} and made.due(9) == {}


def test_over_age_a_stage_runs_in_the_foreground_whatever_is_in_flight():
    made = Boundary(vision(every=9, max_age_ns=100 * MS, commit_after=1))
    assert made.due(1, now_ns=100 * MS) == {}  # the bound itself is allowed
    assert made.due(1, now_ns=100 * MS + 1) == {"vision": ("age", False)}
    made.ledger.launched(made.pipeline.stage["vision"], 1, made.versions, made.stamps)
    assert made.due(2, now_ns=101 * MS) == {"vision": ("age", False)}


def test_a_deferred_stage_that_is_over_age_goes_to_the_background_or_stays_in_flight():
    made = Boundary(vision(every=9, max_age_ns=100 * MS, commit_after=1), FUSE)
    assert made.due(1, now_ns=101 * MS, deferred=("vision",)) == {"vision": ("age", True)}
    made.ledger.launched(made.pipeline.stage["vision"], 1, made.versions, made.stamps)
    assert made.due(2, now_ns=101 * MS, deferred=("vision",)) == {}


def test_the_action_is_due_at_every_decision_and_at_the_same_one_again():
    """A retry makes a decision again: nothing has changed but the noise."""
    made = Boundary(vision(every=9))
    plan = due(made.pipeline, made.ledger, made.versions, made.stamps, 0, 0)
    assert plan == (Due("action", "every"),)


def test_after_a_failure_a_stage_counts_as_one_that_never_ran():
    made = Boundary(vision(every=9, commit_after=1))
    made.ledger.launched(made.pipeline.stage["vision"], 1, made.versions, made.stamps)
    made.ledger.forget("vision")
    assert made.due(2) == {"vision": ("never", False)}


def test_a_launch_consumes_what_it_froze():
    """A message that comes while the run is in flight is newer than what the run saw: it must count afterwards."""
    made = Boundary(vision(on_change=("scene",), commit_after=1))
    made.versions["scene"] = 2
    stage = made.pipeline.stage["vision"]
    launch = made.ledger.launched(stage, 1, made.versions, made.stamps)
    made.versions["scene"] = 3
    assert launch.versions == {"scene": 2} and launch.stamps == {"scene": 0}
    del made.ledger.in_flight["vision"]
    assert made.due(2) == {"vision": ("change", True)}


def test_a_derived_stamp_is_the_oldest_of_the_reads_without_timeless_and_own_state():
    stage = Stage("follow", ("scene", "joints", "task", "track"), ("belief", "track"))
    assert derived_stamp(stage, {"scene": 30, "joints": 20, "task": None, "track": 1}) == 20
    assert derived_stamp(FUSE, {"tokens": None, "task": None}) is None


def test_an_output_without_a_stamp_has_no_age():
    """What depends on the prompt alone is never too old."""
    stage = Stage("fuse", ("task",), ("belief",), max_age_ns=1)
    assert over_age(stage, {"belief": None}, 10**18) is None
    assert over_age(stage, {"belief": 5}, 10) == 5


RULES = st.fixed_dictionaries({
    "every": st.none() | st.integers(1, 4),
    "on_change": st.sampled_from([(), ("task",), ("scene", "task")]),
    "max_age_ns": st.none() | st.integers(1, 300).map(lambda ms: ms * MS),
    "commit_after": st.none() | st.integers(1, 3),
})  # fmt: skip


@given(st.data())
def test_due_is_pure_deterministic_and_topological(data):
    """Replay asks the same question again and must get the same answer, and asking must leave nothing behind."""
    made = Boundary(vision(**data.draw(RULES)), Stage("fuse", ("tokens", "task"), ("belief",), **data.draw(RULES)))
    made.versions |= {name: data.draw(st.integers(1, 3)) for name in INPUTS}
    for stage in made.pipeline.stages[:-1]:
        match data.draw(st.sampled_from(["ran", "forgotten", "in flight"])):
            case "forgotten":
                made.ledger.forget(stage.name)
            case "in flight" if stage.commit_after is not None:
                made.ledger.launched(stage, data.draw(st.integers(0, 3)), made.versions, made.stamps)
    ask = (made.pipeline, made.ledger, made.versions, made.stamps, data.draw(st.integers(0, 400)) * MS, 4)
    before = copy.deepcopy((made.ledger.last_run, made.versions, made.stamps)), list(made.ledger.in_flight)
    plan = due(*ask)
    assert plan == due(*ask)
    assert before == ((made.ledger.last_run, made.versions, made.stamps), list(made.ledger.in_flight))
    order = [s.name for s in made.pipeline.stages]
    places = [order.index(d.stage) for d in plan]
    assert places == sorted(set(places)) and plan[-1].stage == "action"
    for d in plan:
        stage = made.pipeline.stage[d.stage]
        assert d.background == (stage.commit_after is not None and d.reason not in ("never", "age"))
        assert d.stage not in made.ledger.in_flight or d.reason == "age"
