"""What a guard trips on, and what it lets pass: one that misses a broken chunk sends it, one that trips on a sane one stops the
arm for nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flashrt_ros import policies
from flashrt_ros.capsule.guards import POSITION_SLACK, VELOCITY_SLACK, Guards, Trip
from flashrt_ros.capsule.rollback import AGE, CONTENT, DEADLINE, JUMP, NONFINITE, POSITION, STAGE_ERROR, TIME, VELOCITY
from flashrt_ros.contract.load import load, loads
from flashrt_ros.contract.schema import Channel, Gripper, Output
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.continuation import Commanded
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.resources import find

PATH = find("config/color_servo.contract.yaml")
CONTRACT = load(PATH)
LOWER, UPPER = np.array([CONTRACT.limits.position[joint] for joint in JOINTS]).T
SPEED, JUMP_LIMIT = np.array([CONTRACT.limits.velocity[joint] for joint in JOINTS]), CONTRACT.limits.boundary_jump
HORIZON, STEP_S, GRIPPER = 32, 0.02, 6
NEARLY = 0.999  # of a slack, so that rounding does not decide
MIDDLE = (LOWER + UPPER) / 2
AWAY = MIDDLE + 0.2 * (np.arange(7) < GRIPPER)  # more than the allowed jump

arm_joints, any_joint = st.integers(0, GRIPPER - 1), st.integers(0, GRIPPER)
steps = st.integers(0, HORIZON - 1)
signs = st.sampled_from([-1, 1])
unit = st.floats(-1, 1)
rows = st.lists(unit, min_size=7, max_size=7).map(np.array)


def pipeline(overrides=None):
    contract = load(PATH, overrides or {})
    return verify(contract, policies.spec(contract.policy))


def of(text):
    contract = loads(text)
    return Guards(verify(contract, policies.spec(contract.policy)))


def only(guards):
    return Guards(pipeline({"rollback.guards": f"[{', '.join(guards)}]"}))


ALL = Guards(pipeline())


def seen(joints=MIDDLE):
    return Observation(0, 0, {"joints": InputValue(np.asarray(joints, np.float32), 1, None)})


def commanded(joints):
    return Commanded(np.asarray(joints, float), np.zeros(7))


def judge(positions, measured=MIDDLE, told=None, guards=ALL):
    return guards.judge(np.asarray(positions, float), seen(measured), None if told is None else commanded(told))


def still(joints=MIDDLE):
    return np.tile(joints, (HORIZON, 1)).astype(float)


@st.composite
def sane(draw, slack=1.0):
    """(positions, measured, commanded): a chunk that begins near where the arm is and wanders within `slack` times the limits;
    every row as far from the one before as it likes."""
    measured = MIDDLE + 0.45 * (UPPER - LOWER) * draw(rows)
    told = np.clip(measured + 0.3 * draw(rows), LOWER, UPPER)
    share = (1 + draw(rows)) / 2
    start = measured + share * (told - measured) + JUMP_LIMIT * NEARLY * draw(rows)
    seed = draw(st.integers(0, 2**32 - 1))
    pace = slack * SPEED * STEP_S * NEARLY
    moves = np.random.default_rng(seed).choice([-1, 0, 1], (HORIZON - 1, 7)) * pace
    positions = np.concatenate([start[None], start + np.cumsum(moves, axis=0)])
    beyond = POSITION_SLACK * NEARLY * (UPPER - LOWER) if slack > 1 else 0.0
    return np.clip(positions, LOWER - beyond, UPPER + beyond), measured, told


@given(sane())
def test_a_chunk_within_the_limits_passes_whatever_it_wants(case):
    """However much it differs from the one before: a policy may change its mind at full speed, and does."""
    assert judge(*case) is None


@given(sane(slack=VELOCITY_SLACK))
def test_beyond_the_limits_there_is_slack(case):
    """Policies overshoot limits by a little all day, which the player mends; a guard at the limit itself would stop the arm."""
    assert judge(*case) is None


@given(sane(), any_joint, steps, st.sampled_from([np.nan, np.inf, -np.inf]), st.booleans())
def test_a_value_that_is_no_number_is_found(case, joint, step, value, listed):
    """Listed or not: whatever else the chunk says, it cannot be compared, let alone played."""
    positions, measured, told = case
    positions[step, joint] = value
    trip = judge(positions, measured, told, ALL if listed else only([AGE]))
    assert trip.guard == NONFINITE and f"'{JOINTS[joint]}' is {value} at step {step};" in trip.detail


@given(sane(), any_joint, steps, signs, st.floats(0.001, 1e300))
def test_a_position_beyond_reach_is_found(case, joint, step, sign, beyond):
    """The player would clamp it, and press the arm against the edge of its workspace for as long as the policy means it."""
    positions, measured, told = case
    limit = (UPPER if sign > 0 else LOWER)[joint]
    positions[step, joint] = limit + sign * (POSITION_SLACK + beyond) * (UPPER - LOWER)[joint]
    trip = judge(positions, measured, told)
    assert trip.guard == POSITION
    assert f"'{JOINTS[joint]}' is at {positions[step, joint]:.4g} at step {step}; its limits are {LOWER[joint]:g}" in trip.detail


@given(sane(), arm_joints, steps, signs, st.floats(1.01, 1.9))
def test_a_spike_is_found(case, joint, step, sign, excess):
    """One row that is off leaves by a step that no arm can make; named is the first step that is too far."""
    positions, measured, told = case
    off = excess * VELOCITY_SLACK * SPEED[joint] * STEP_S
    before = positions[step - 1 if step else 1, joint]
    positions[step, joint] = np.clip(before + sign * off, LOWER[joint], UPPER[joint])
    assume(abs(positions[step, joint] - before) > NEARLY * off)  # there is room for it
    trip = judge(positions, measured, told)
    first = max(step - 1, 0)
    assert trip.guard == VELOCITY
    assert f"'{JOINTS[joint]}' moves at {off / STEP_S:.4g} per s from step {first} to step {first + 1}; its" in trip.detail


@given(sane(), arm_joints, signs, st.floats(0.001, 1.0))
def test_a_chunk_that_begins_elsewhere_is_found(case, joint, sign, beyond):
    """A whole chunk that is shifted is smooth and within limits: of another arm, another time, in degrees, with joints
    exchanged."""
    positions, measured, told = case
    edge = (np.maximum if sign > 0 else np.minimum)(measured, told)[joint]
    shift = edge + sign * (JUMP_LIMIT + beyond) - positions[0, joint]
    positions[:, joint] = np.clip(positions[:, joint] + shift, LOWER[joint], UPPER[joint])
    assume(sign * (positions[0, joint] - edge) > JUMP_LIMIT + 1e-4)
    trip = judge(positions, measured, told)
    assert trip.guard == JUMP
    assert f"'{JOINTS[joint]}' is at {positions[0, joint]:.4g} at step 0;" in trip.detail
    assert f"allows {JUMP_LIMIT:g} beyond" in trip.detail


@given(arm_joints, st.floats(0, 1), signs)
def test_anywhere_between_measured_and_commanded_is_where_the_arm_is(joint, share, sign):
    """An arm that lags, or leans on something: one policy begins at its joints as they are, another at what they were told."""
    told = MIDDLE.copy()
    told[joint] += sign * 0.6
    start = MIDDLE + share * (told - MIDDLE)
    assert judge(still(start), MIDDLE, told) is None
    assert judge(still(start), told, MIDDLE) is None
    assume(abs(share * 0.6 - JUMP_LIMIT) > 1e-6)
    assert (judge(still(start), MIDDLE, MIDDLE) is None) == (share * 0.6 < JUMP_LIMIT)


def test_without_a_player_what_is_measured_counts():
    """Before the first message of the player, and for an evaluation that has none."""
    assert judge(still()) is None
    assert judge(still(AWAY)).guard == JUMP
    assert judge(still(0.7 * MIDDLE)).guard == JUMP  # towards zero, which is not where an unheard player commands


@pytest.mark.parametrize("without", [
    ("- position.", "- velocity."), ("    select:                        # joints", "    apply: [rad2deg]\n    select:  #")])
def test_without_measured_joints_what_is_commanded_counts(without):
    """A policy may see no joints, or see them in its own unit; then nothing is known before the player is heard."""
    text = PATH.read_text()
    assert without[0] in text
    guards = of(text.replace(*without))
    assert judge(still(AWAY), guards=guards) is None
    assert judge(still(AWAY), told=(MIDDLE + AWAY) / 2, guards=guards) is None
    assert judge(still(AWAY), told=MIDDLE, guards=guards).guard == JUMP


def test_measured_joints_are_found_by_name():
    """The input's order is the driver's business, the chunk's the policy's."""
    lift, pan = "      - position.shoulder_lift\n", "      - position.shoulder_pan\n"
    text = PATH.read_text()
    assert pan + lift in text
    guards = of(text.replace(pan + lift, lift + pan))
    swapped = MIDDLE[[1, 0, 2, 3, 4, 5, 6]]
    assert abs(MIDDLE[0] - MIDDLE[1]) > JUMP_LIMIT
    assert judge(still(), swapped, guards=guards) is None
    assert judge(still(), MIDDLE, guards=guards).guard == JUMP


@pytest.mark.parametrize(("offset_ms", "row", "since_s"),
                         [(-70, 4, 0.01), (-60, 3, 0.0), (0, 0, 0.0), (10, 0, 0.01), (100, 0, 0.1)])
def test_the_row_that_is_meant_for_now_is_compared(offset_ms, row, since_s):
    """A chunk may begin before the decision, with what has been done, or after it, where the arm will have moved on."""
    guards = Guards(pipeline({"rollback.guards": "[jump]"} | {f"outputs[{i}].offset_ms": str(offset_ms) for i in (0, 1)}))
    for sign in (-1, 1):
        chunk = still(AWAY + 1.0)
        chunk[row] = MIDDLE
        chunk[row, 0] += sign * (JUMP_LIMIT + SPEED[0] * since_s - 1e-6)
        assert judge(chunk, guards=guards) is None
        chunk[row, 0] += sign * 2e-6
        assert f"at step {row};" in judge(chunk, guards=guards).detail


def test_a_chunk_all_of_whose_rows_are_past_is_left_to_the_player():
    """It refuses it, with a reason of its own; there is no row to compare."""
    guards = Guards(pipeline({f"outputs[{i}].offset_ms": "-900" for i in (0, 1)}))
    assert guards.judge(still(AWAY), seen(), None) is None


def test_a_gripper_may_be_told_to_open_at_once():
    """Its position is a command. So one with two positions does it always, and a policy that continues its plan where it leaves
    it; but where it cannot go it must not be told to go."""
    chunk = still()
    chunk[0, GRIPPER], chunk[1:16, GRIPPER], chunk[16:, GRIPPER] = UPPER[GRIPPER], LOWER[GRIPPER], UPPER[GRIPPER]
    assert judge(chunk) is None
    radians = {"limits.position.gripper": "[0.0, 2.0]", "limits.velocity.gripper": "2.0"}  # more than the allowed jump
    chunk[:, GRIPPER] *= 25
    assert judge(chunk, guards=Guards(pipeline(radians))) is None
    chunk[5, GRIPPER] = 2.5
    assert judge(chunk, guards=Guards(pipeline(radians))).guard == POSITION


def test_a_gripper_is_known_by_its_block_or_by_its_own_controller():
    """An arm of one joint, which has a controller of its own as well, is none; nor is a gripper that shares the arm's controller
    and moves at a pace."""
    whole = pipeline()
    everything = Output("all", Channel("c", "trajectory_msgs/msg/JointTrajectory"), JOINTS)
    chunk = still()
    chunk[10:, GRIPPER] = UPPER[GRIPPER]
    assert judge(chunk) is None
    shared = replace(whole, contract=replace(whole.contract, outputs=(everything,)))
    assert judge(chunk, guards=Guards(shared)).guard == VELOCITY
    each = tuple(replace(everything, name=joint, select=(joint,)) for joint in JOINTS)  # an arm with a controller per joint is no gripper
    apart = Guards(replace(whole, contract=replace(whole.contract, outputs=each)))
    spike = still()
    spike[10:, 2] += 1.0
    assert judge(spike, guards=apart).guard == VELOCITY and judge(still(AWAY), guards=apart).guard == JUMP
    elbow = still()[:, 2:3]
    elbow[10:] += 1.0
    for block, trips in ((None, True), (Gripper(close_at=0.0, open_at=1.0, closed=0.0, open=1.0), False)):
        one = replace(everything, select=("elbow",), gripper=block)
        alone = replace(whole, spec=replace(whole.spec, joints=("elbow",)), contract=replace(whole.contract, outputs=(one,)))
        assert (Guards(alone).judge(elbow, seen(), None) is not None) == trips


def test_what_sane_policies_were_measured_to_say_passes():
    """A wrist that turns on beyond its limit, a gripper that is told to press, a step where a chunk leaves the plan that it
    continues, a beginning off the arm: the farthest of 30833 decisions, all at once."""
    chunk = still()
    chunk[:, :GRIPPER] += 0.016
    chunk[5:, 4] += 2.63 * SPEED[4] * STEP_S
    chunk[:, 5] = np.linspace(MIDDLE[5], UPPER[5] + 0.083 * (UPPER - LOWER)[5], HORIZON)
    chunk[:, GRIPPER] = LOWER[GRIPPER] - 0.045 * (UPPER - LOWER)[GRIPPER]
    assert judge(chunk) is None


def broken(guard):
    """A chunk that this guard trips on, and no other."""
    chunk = still()
    if guard == POSITION:
        chunk[:, 0] += np.linspace(0, 1.3 * (UPPER[0] - MIDDLE[0]), HORIZON)
    elif guard == VELOCITY:
        chunk[9, 2] += 0.3
    elif guard == JUMP:
        chunk[:, 3] += 0.3
    return chunk


JUDGING = (POSITION, VELOCITY, JUMP)


@pytest.mark.parametrize("guard", JUDGING)
def test_a_guard_that_is_not_listed_does_not_judge(guard):
    """Who leaves one out has a reason, such as a limit that is lower than what the policy was trained with."""
    assert judge(broken(guard)).guard == guard
    assert judge(broken(guard), guards=only([guard])).guard == guard
    assert judge(broken(guard), guards=only([g for g in (*JUDGING, *TIME) if g != guard])) is None


def test_the_first_that_trips_is_named():
    """One cause per trip, and always the same for the same chunk: counts would mean nothing else."""
    chunk = broken(POSITION) + broken(VELOCITY) + broken(JUMP) - 2 * still()
    assert judge(chunk).guard == POSITION
    assert judge(chunk, guards=only([JUMP, VELOCITY])).guard == VELOCITY
    chunk[31, 5] = np.nan
    assert judge(chunk).guard == NONFINITE


def test_a_chunk_of_one_row_has_no_velocity():
    """Policies that say one action at a time."""
    assert ALL.judge(still()[:1], seen(), None) is None


def test_judging_leaves_the_chunk_as_it_is():
    """It is published next."""
    chunk = broken(VELOCITY)
    kept = chunk.copy()
    judge(chunk)
    assert np.array_equal(chunk, kept)


def test_content_and_time_are_told_apart():
    """The one is decided anew, the other is only dropped."""
    assert all(Trip(guard, "").content for guard in (NONFINITE, POSITION, VELOCITY, JUMP, STAGE_ERROR))
    assert not any(Trip(guard, "").content for guard in (AGE, DEADLINE))
    assert set(CONTENT + TIME) == {NONFINITE, POSITION, VELOCITY, JUMP, STAGE_ERROR, AGE, DEADLINE}
