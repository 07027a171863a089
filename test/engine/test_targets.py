"""From a policy's numbers to the positions that are sent: nothing twice, nothing late, and no chattering gripper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros import policies
from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.contract.load import load, loads
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.last_chunk import LastChunk
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.engine.targets import Targets
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.resources import find

MS = 1_000_000
STEP_NS, HORIZON = 20 * MS, 32
START_NS = 5_000 * MS
SURE = 7  # steps
CLOSED, OPEN = 0.0, 0.08
DELTAS = {"outputs[0].representation": "joint_delta"}
GRIPPER = {"outputs[1].gripper": f"{{close_at: 0.3, open_at: 0.7, closed: {CLOSED}, open: {OPEN}}}"}
PATH = find("config/color_servo.contract.yaml")
numbers = st.floats(-3, 3, width=32)
states = st.lists(numbers, min_size=7, max_size=7).map(lambda values: np.array(values, np.float32))
cursors = st.builds(Cursor, player=st.just(1), session=st.just(7), epoch=st.just(1), seq=st.integers(1, 3), step=st.floats(0, 40),
                    lag_ns=st.integers(0, 20 * MS))


def targets(contract, sure_steps=SURE):
    pipeline = verify(contract, policies.spec(contract.policy))
    return Targets(pipeline, LastChunk(pipeline, sure_steps * STEP_NS))


def observation(joints, step=0):
    return Observation(step, START_NS + step * STEP_NS, {"joints": InputValue(np.asarray(joints, np.float32), 1, None)})


def chunk(positions, step=0, seq=1, epoch=1):
    return Chunk(JOINTS, positions, START_NS + step * STEP_NS, STEP_NS, session=7, epoch=epoch, seq=seq)


def raw(gripper):
    """A policy's chunk whose gripper column is this."""
    rows = np.zeros((HORIZON, len(JOINTS)), np.float32)
    rows[:, 6] = gripper
    return rows


@given(states, st.lists(states, min_size=HORIZON, max_size=HORIZON), cursors)
def test_deltas_and_the_observed_state_are_the_positions_that_were_meant(joints, meant, cursor):
    """Wherever the player has got to meanwhile. Only the outputs that say so; the gripper's numbers are positions already."""
    meant = np.array(meant)
    said = meant.copy()
    said[:, :6] -= joints[:6]
    deltas = targets(load(PATH, DELTAS))
    deltas.last.chunk = chunk(meant.astype(np.float64))
    got = deltas.of(said, observation(joints, 5), cursor, epoch=1)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, meant, atol=2e-6)


def test_numbers_that_are_positions_are_sent_as_they_are():
    """The shipped contracts: no bit of them may change on the way."""
    rows = np.random.default_rng(0).uniform(-1, 1, (HORIZON, 7)).astype(np.float32)
    given = rows.copy()
    assert np.array_equal(targets(load(PATH)).of(rows, observation(np.ones(7)), Cursor(), epoch=1), given)
    targets(load(PATH, DELTAS | GRIPPER)).of(rows, observation(np.ones(7)), Cursor(), epoch=1)
    assert np.array_equal(rows, given)  # the decision keeps what the policy said


def test_deltas_are_added_by_name_whatever_the_order_of_the_selection():
    """The input's order is the driver's business, the output's the controller's, the chunk's the policy's."""
    text = PATH.read_text().replace("representation: joint ", "representation: joint_delta ")
    lift, pan = "      - position.shoulder_lift\n", "      - position.shoulder_pan\n"
    assert pan + lift in text and "select: [shoulder_pan, shoulder_lift," in text
    text = text.replace(pan + lift, lift + pan)
    text = text.replace("select: [shoulder_pan, shoulder_lift,", "select: [shoulder_lift, shoulder_pan,")
    got = targets(loads(text)).of(raw(0.0), observation([2, 1, 3, 4, 5, 6, 9]), Cursor(), epoch=1)
    assert got[0].tolist() == [1, 2, 3, 4, 5, 6, 0]


class Motion:
    """Decisions every `period` steps whose chunks reach a player `latency` steps later, which enters them at the step that it
    has got to by then. signal(step) is what the policy would say without noise."""

    def __init__(self, signal, noise, period, latency, sure):
        gripper = targets(load(PATH, GRIPPER), sure)
        playing, waiting, self.told = None, [], []
        for step in range(len(signal) - HORIZON):
            if step % period == 0:
                seq = step // period + 1
                values = signal[step : step + HORIZON] + np.roll(noise, 5 * seq)[:HORIZON]
                cursor = Cursor(1, step, 7, 1, playing.seq, step - playing.base.tick) if playing else Cursor()
                positions = gripper.of(raw(values), observation(np.zeros(7), step), cursor, epoch=1)
                made = Chunk(JOINTS, positions, START_NS + step * STEP_NS, STEP_NS, session=7, epoch=1, seq=seq,
                             base=Cursor(tick=step))
                gripper.last.chunk = made
                waiting.append(made)
            if waiting and waiting[0].base.tick + latency == step:
                playing = waiting.pop(0)
            if playing:
                self.told.append(playing.positions[step - playing.base.tick, 6])


@given(st.lists(st.floats(-0.5, 1.5), min_size=4, max_size=12),
       st.lists(st.floats(-0.19, 0.19), min_size=HORIZON, max_size=HORIZON), st.integers(1, 8), st.integers(0, SURE))
def test_a_gripper_moves_at_most_once_each_time_the_policy_changes_its_mind(levels, noise, period, latency):
    """Over many chunks, each with noise of its own that is less than the band, and whatever the latency: every movement that is
    executed has the policy's true value on its own side of the middle of the band. Chunk by chunk alone it would not hold: one
    that is entered in the middle of a movement that it does not know would take it back."""
    signal = np.interp(np.arange(120), np.linspace(0, 119, len(levels)), levels)
    told = np.array(Motion(signal, np.array(noise), period, latency, SURE).told)
    assert set(told) <= {CLOSED, OPEN}
    sides = np.concatenate([[False], signal[: 120 - HORIZON] > 0.5])  # closed before the first chunk
    assert np.count_nonzero(np.diff(np.concatenate([[CLOSED], told]))) <= np.count_nonzero(np.diff(sides))


@given(st.lists(st.floats(-0.5, 1.5, width=32), min_size=HORIZON, max_size=HORIZON))
def test_a_policy_that_closes_at_high_values_is_the_mirror_image(values):
    """Both conventions are common; one that is taken for the other lets go where it should grasp."""
    values = np.array(values, np.float32)
    up = targets(load(PATH, {"outputs[1].gripper": "{close_at: -0.5, open_at: 0.5, closed: 0, open: 0.08}"}))
    down = targets(load(PATH, {"outputs[1].gripper": "{close_at: 0.5, open_at: -0.5, closed: 0, open: 0.08}"}))
    seen = observation(np.zeros(7))
    assert np.array_equal(up.of(raw(values), seen, Cursor(), 1), down.of(raw(-values), seen, Cursor(), 1))


@pytest.mark.parametrize(("measured", "stays"), [(0.08, OPEN), (0.075, OPEN), (0.045, CLOSED), (0.0, CLOSED)])
def test_before_anything_was_told_it_stays_closed_unless_it_stands_open(measured, stays):
    """Half open it may be around something, and a policy that hesitates must not let it go."""
    gripper = targets(load(PATH, GRIPPER))
    assert (gripper.of(raw(0.5), observation([0] * 6 + [measured]), Cursor(), epoch=1)[:, 6] == stays).all()


def test_without_a_measured_gripper_it_starts_closed():
    """A policy may not have its position among its inputs; nothing is known of it then."""
    text = PATH.read_text().replace("- position.gripper", "- velocity.gripper")
    gripper = targets(loads(text, overrides=GRIPPER))
    assert (gripper.of(raw(0.5), observation([0] * 6 + [0.08]), Cursor(), epoch=1)[:, 6] == CLOSED).all()


def test_a_new_epoch_forgets_what_was_told():
    """After a reset or a new task the same observation gives the same chunk as at first, so that a replay can begin there."""
    gripper, seen = targets(load(PATH, GRIPPER)), observation(np.zeros(7), 10)
    first = gripper.of(raw(0.5), seen, Cursor(), epoch=2)
    gripper.last.chunk = chunk(raw(OPEN).astype(np.float64))
    cursor = Cursor(1, 1, 7, 1, 1, 10.0)
    assert (gripper.of(raw(0.5), seen, cursor, epoch=1)[:, 6] == OPEN).all()
    assert np.array_equal(gripper.of(raw(0.5), seen, cursor, epoch=2), first) and (first[:, 6] == CLOSED).all()


def test_a_chunk_that_was_not_handed_out_leaves_no_trace():
    """A decision may be dropped for its deadline; the gripper never heard of it."""
    gripper, seen = targets(load(PATH, GRIPPER)), observation(np.zeros(7))
    assert (gripper.of(raw(1.0), seen, Cursor(), epoch=1)[:, 6] == OPEN).all()
    assert (gripper.of(raw(0.5), seen, Cursor(), epoch=1)[:, 6] == CLOSED).all()


def test_until_a_chunk_can_act_the_gripper_is_told_what_it_was_told():
    """Counted from where the player is in the last chunk, not from its stamp: it may have paused. Between two rows the later
    counts, for the player is on its way to it."""
    gripper = targets(load(PATH, GRIPPER))
    gripper.last.chunk = chunk(raw(np.where(np.arange(HORIZON) < 9, OPEN, CLOSED)).astype(np.float64))
    for lag_ns, opened in ((0, 5), (1 * MS, 4)):
        got = gripper.of(raw(0.5), observation(np.zeros(7), 20), Cursor(1, 1, 7, 1, 1, 4.0, lag_ns), epoch=1)[:, 6]
        assert (got == np.where(np.arange(HORIZON) < opened, OPEN, CLOSED)).all()
    got = gripper.of(raw(1.0), observation(np.zeros(7), 20), Cursor(1, 1, 7, 1, 1, 9.0), epoch=1)[:, 6]
    assert (got == np.where(np.arange(HORIZON) < SURE, CLOSED, OPEN)).all()


def test_a_player_that_is_not_in_the_last_chunk_is_where_time_says():
    """It holds, or the chunk is on its way; what was told last in this epoch still counts, past its end its last row."""
    gripper = targets(load(PATH, GRIPPER))
    gripper.last.chunk = chunk(raw(np.where(np.arange(HORIZON) < 9, OPEN, CLOSED)).astype(np.float64), seq=2)
    for cursor in (Cursor(), Cursor(1, 1, 7, 1, 1, 3.0)):
        got = gripper.of(raw(0.5), observation(np.zeros(7), 5), cursor, epoch=1)[:, 6]
        assert (got == np.where(np.arange(HORIZON) < 4, OPEN, CLOSED)).all()
        assert (gripper.of(raw(0.5), observation(np.zeros(7), 100), cursor, epoch=1)[:, 6] == CLOSED).all()
