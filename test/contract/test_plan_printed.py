"""`flashrt plan` is where a person sees what a contract will do: the table and the picture must say it."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given, settings

from contract_specs import CONTRACT, SERVO, Rule, joined, pipelines, servo_contract
from flashrt_ros import policies
from flashrt_ros.contract.age import paths
from flashrt_ros.contract.closure import Run, hyper_period, plans, schedule
from flashrt_ros.contract.errors import ContractError
from flashrt_ros.contract.load import loads
from flashrt_ros.contract.picture import svg
from flashrt_ros.contract.schema import Fork, Gripper, PolicyChoice, Refresh
from flashrt_ros.contract.spec import StageSpec
from flashrt_ros.contract.table import grids, text
from flashrt_ros.contract.verify import verify


def test_table_of_the_demo():
    """The figures of the demo, as printed: rates, plans of the hyper-period, ages with their sums, what is live."""
    printed = text(verify(servo_contract(), SERVO))
    squeezed = [" ".join(line.split()) for line in printed.splitlines()]
    for line in (
            "color_servo: 10 decisions per second, one per 100 ms; deadline 80 ms",
            "vision every 2 decisions 5 Hz commit after 1 350 ms 600 ms scene, wrist",
            "fuse follows its reads 5 Hz - 350 ms - none",
            "action every decision 10 Hz - 350 ms - joints",
            "turn 0 of 2 action vision",
            "turn 1 of 2 fuse, action -",
            "the first decision vision, fuse, action -",
            "scene > vision > fuse > action 350 ms 150 ms (scene) + 2 x 100 ms (vision)",
            "joints > action 50 ms 50 ms (joints)",
            "vision_tokens derived float32 [24, 8] 768",
            "gripper gripper joint -",
            "shoulder_lift -2.6 to 0.6 2 - - -"):
        assert line in squeezed


def test_the_tracking_limit_is_printed():
    """What stops the arm belongs where a person looks before running it."""
    contract = servo_contract()
    limits = replace(contract.limits, tracking_error={"elbow": 0.12}, acceleration={"elbow": 8.0}, jerk={"elbow": 80.0})
    squeezed = [" ".join(line.split()) for line in text(verify(replace(contract, limits=limits), SERVO)).splitlines()]
    assert "joint position velocity acceleration jerk tracking error" in squeezed
    assert "elbow -0.2 to 2.7 2 8 80 0.12" in squeezed


def test_what_becomes_of_the_policys_numbers_is_printed():
    """Positions taken for deltas move an arm by where it is; a person sees here what the contract takes them for."""
    arm, gripper = servo_contract().outputs
    outputs = (replace(arm, representation="joint_delta"), replace(gripper, gripper=Gripper(0.7, 0.3, 0.0, 0.08)))
    squeezed = [" ".join(line.split()) for line in text(verify(replace(servo_contract(), outputs=outputs), SERVO)).splitlines()]
    assert "output joints representation gripper" in squeezed
    assert "arm shoulder_pan, shoulder_lift, elbow, forearm_roll, wrist_pitch, wrist_roll joint_delta from joints -" in squeezed
    assert "gripper gripper joint closed (0) from 0.7 up, open (0.08) from 0.3 down" in squeezed


def test_what_the_engine_fills_is_printed():
    """Whoever trains a policy on an age must see up to which age it will be asked to act; no topic shows it."""
    pipeline = joined({StageSpec("see", ("camera0", "noise"), ("b",)): Rule(every=3)}, sources=("b", "now"))
    squeezed = [" ".join(line.split()) for line in text(pipeline).splitlines()]
    begin = squeezed.index("Filled by the engine at each decision")
    assert squeezed[begin + 3 : begin + 6] == ["noise new noise -", "age0 age of b in s 300 ms", "age1 age of now in s 100 ms"]
    words = svg(pipeline)
    assert words.count("filled by the engine") == 3 and "age of b in s" in words
    assert not {"noise", "age0", "age1"} & {row[0] for row in grids(pipeline)[3].rows}


def test_candidates_are_printed():
    """They multiply what the action costs, and decide which chunk the arm plays."""
    pipeline = joined({StageSpec("see", ("camera0",), ("b",)): Rule(every=1)}, inputs=("noise",))
    forked = verify(replace(pipeline.contract, fork=Fork(4, "medoid")), pipeline.spec)
    for printed in (text, svg):
        assert "; 4 candidates each, of which medoid is taken" in printed(forked) and "candidates" not in printed(pipeline)


def test_warnings_are_printed():
    """A policy that runs against advice says so wherever it is looked at."""
    contract = replace(servo_contract(), policy=PolicyChoice("color_servo", allow_stale=True))
    pipeline = verify(contract, replace(SERVO, trained_stale=False))
    for printed in (text(pipeline), svg(pipeline)):
        assert "allow_stale: 'color_servo' was not trained" in printed


@pytest.mark.parametrize(("vision", "fuse", "turns"), [
    (Refresh("vision"), Refresh("fuse"), 1),
    (Refresh("vision", every=4, max_age_ms=900, commit_after=2), Refresh("fuse"), 4),
    (Refresh("vision", every=4, max_age_ms=900), Refresh("fuse", every=6, max_age_ms=1900), 12),
    (Refresh("vision", max_age_ms=900, commit_after=3), Refresh("fuse"), 3),
])
def test_hyper_period_is_that_of_the_rates(vision, fuse, turns):
    """The smallest number of decisions after which everything repeats; an overlapped follower launches as it lands."""
    pipeline = verify(replace(servo_contract(), refresh=(vision, fuse, Refresh("action"))), SERVO)
    assert hyper_period(pipeline) == turns


def test_schedule_of_two_rates():
    """Turn i is what decision i modulo the hyper-period runs; fuse follows the tokens, not the count."""
    refresh = (Refresh("vision", every=4, max_age_ms=900, commit_after=2), Refresh("fuse"), Refresh("action"))
    beside, fuse, action = Run("vision", True), Run("fuse"), Run("action")
    assert schedule(verify(replace(servo_contract(), refresh=refresh), SERVO)) == (
        {beside, action}, {action}, {fuse, action}, {action})


@settings(max_examples=30)
@given(pipelines())
def test_printouts_agree_with_the_pipeline(pipeline):
    """Over random pipelines: the schedule uses known plans only, the table has every path, the picture is well-formed
    and names every stage, buffer and output."""
    assert set(schedule(pipeline)) <= set(plans(pipeline))
    stages, plan_rows, ages, live = grids(pipeline)[:4]
    assert [row[0] for row in stages.rows] == [s.name for s in pipeline.stages]
    assert len(ages.rows) == len(paths(pipeline)) and live.rows and plan_rows.rows
    words = [e.text for e in ElementTree.fromstring(svg(pipeline).encode()).iter("{http://www.w3.org/2000/svg}text")]
    state = [b.name for b in pipeline.spec.buffers if b.kind == "state"]
    for name in (*pipeline.stage, *pipeline.input, *pipeline.buffers.keys() - set(state), "arm"):
        assert name in words
    assert all(any(w.startswith(f"state {name}: ") for w in words) for name in state)
    assert svg(pipeline) == svg(pipeline)


def test_documentation_shows_what_is_printed():
    """docs/contract.md quotes the demo's plan and two errors; a reader compares them with the screen."""
    contract = servo_contract()
    pipeline = verify(contract, policies.spec(contract.policy))
    printed = {" ".join(line.split()) for line in text(pipeline).splitlines()}
    page = (CONTRACT.parent.parent / "docs" / "contract.md").read_text()
    quoted = page.partition("## What `flashrt plan` prints")[2].split("```")[1]
    assert len(quoted.split("\n")) > 10
    assert {" ".join(line.split()) for line in quoted.splitlines()} <= printed
    source = CONTRACT.read_text()
    for find, put in (("    every: 2 ", "    evry: 2 "), ("    max_age_ms: 600 ", "    max_age_ms: 300 ")):
        with pytest.raises(ContractError) as caught:
            verify(loads(source.replace(find, put), "arm.yaml"), SERVO)
        assert str(caught.value).replace("ms: allow", "ms:\n    allow") in page
