"""What becomes of the chunk before when a new one is entered: the motion under each strategy, and when nothing of it counts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from player_scenes import HOME, MS, START_NS, TICK_NS, Run, accepted, active_player, assert_limits, slide

from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.chunk.splice import STRATEGIES, Ensemble
from flashrt_ros.player.command import State
from flashrt_ros.player.memory import Memory
from flashrt_ros.player.player import PlayerError, PlayerParameters

SWING = np.array([0.5, 0.3, 0.005])


def swing(t_ns) -> np.ndarray:
    """Positions [..., 3] of a smooth motion, at most 0.6 rad/s and 1.2 rad/s^2."""
    return HOME + (1 - np.cos(1.5e-9 * np.asarray(t_ns, dtype=float)))[..., None] * SWING / 2


def still(where, start_ns, **fields) -> Chunk:
    return slide(start_ns, where, (0, 0, 0), **fields)


def motions(strategies, scene, **parameters) -> list[np.ndarray]:
    """The commanded positions of one scene under each strategy."""
    runs = [Run(active_player(strategy=strategy, **parameters)) for strategy in strategies]
    for run in runs:
        scene(run)
        assert_limits(run.positions(), run.velocities())
    return [run.positions() for run in runs]


def test_the_ensemble_goes_to_the_weighted_mean():
    """Three chunks that say three poses for now: the arm rests at their mean, the oldest counting most."""
    run = Run(active_player(strategy="ensemble", ensemble_decay=0.5, expiry_ms=1000))
    poses = [HOME + [0.01 * i, -0.02 * i, 0] for i in range(3)]
    for seq, pose in enumerate(poses):
        accepted(run.player.offer(still(pose, run.now_ns, seq=seq, base=run.player.cursor), run.now_ns))
        run.ticks(1)
    run.ticks(15)
    weights = np.exp(-0.5 * np.arange(3))
    np.testing.assert_allclose(run.positions()[-1], weights @ poses / weights.sum(), atol=1e-6)
    assert_limits(run.positions(), run.velocities())


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(step_ms=st.integers(15, 60), late=st.lists(st.integers(0, 3), min_size=3, max_size=8), misdated_ms=st.integers(-90, 90))
def test_chunks_of_one_motion_are_played_as_that_motion(strategy, step_ms, late, misdated_ms):
    """However long each was under way (up to where the one that it is based on is long replaced), wrong as the stamps may be:
    what was played is counted."""
    run = Run(active_player(strategy=strategy))
    accepted(run.player.offer(sampled(0, step_ms, run.now_ns), run.now_ns))
    bases = []
    for seq, decisions in enumerate(late, start=1):
        run.ticks(3)
        bases.append(run.player.cursor)
        base = bases[max(0, len(bases) - 1 - decisions)]
        chunk = sampled(base.tick * TICK_NS, step_ms, run.now_ns + misdated_ms * MS, seq=seq, base=base)
        accepted(run.player.offer(chunk, run.now_ns))
    run.ticks(6)
    said = swing(TICK_NS * np.arange(1, len(run.commands) + 1))
    np.testing.assert_allclose(run.positions()[9:], said[9:], atol=0.002)


def sampled(from_ns, step_ms, start_ns, steps=40, **fields) -> Chunk:
    """Of the swing, from a moment of it on."""
    positions = swing(from_ns + np.arange(steps) * step_ms * MS)
    return replace(still(HOME, start_ns, steps=steps, step_ns=step_ms * MS, **fields), positions=positions)


def continued(run, frozen, then, seq=1) -> Chunk:
    """Decided now, for an arm that plays a slide of speed (0.5, -0.2, 0): its next `frozen` steps, and from there `then`."""
    step = run.player.cursor.step
    rows = HOME + (step + np.arange(40))[:, None] * 0.02 * np.array([0.5, -0.2, 0])
    rows[frozen:] = rows[frozen - 1] + np.arange(1, 41 - frozen)[:, None] * 0.02 * np.asarray(then)
    return replace(still(HOME, run.now_ns, steps=40, seq=seq, base=run.player.cursor), positions=rows, frozen_prefix=frozen)


@pytest.mark.parametrize("played", [3, 20])
@pytest.mark.parametrize("under_way", [0, 2, 5])
def test_over_a_frozen_prefix_the_motion_is_the_planned_one_to_the_bit(played, under_way):
    """Though the chunk before is still fading in (3 ticks): a policy that continues counts on the motion that was planned,
    and a second fade would change it. After it the new chunk is followed."""
    runs = [Run(active_player(strategy="rtc", expiry_ms=2000)) for _ in range(2)]
    for run in runs:
        accepted(run.player.offer(slide(run.now_ns), run.now_ns))
        run.ticks(played)
    twin, run = runs
    chunk = continued(run, 10, (0.1, 0.1, 0))
    for each in runs:
        each.ticks(under_way)
    accepted(run.player.offer(chunk, run.now_ns))
    for each in runs:
        each.ticks(9 - under_way)
    assert np.array_equal(run.positions(), twin.positions()) and np.array_equal(run.velocities(), twin.velocities())
    run.ticks(14)
    np.testing.assert_allclose(run.positions()[-1], chunk.positions[23], atol=1e-6)
    assert_limits(run.positions(), run.velocities())
    assert run.player.counters["frozen_ignored"] == 0


def test_a_prefix_that_was_not_planned_is_treated_as_any_chunk():
    """The policy continued what never was: fading over it is all that is left to do, and the operator is told."""
    def scene(run):
        accepted(run.player.offer(slide(run.now_ns), run.now_ns))
        run.ticks(12)
        chunk = continued(run, 10, (0.1, 0.1, 0))
        chunk.positions[6, 0] += 0.03
        accepted(run.player.offer(chunk, run.now_ns))
        run.ticks(25)
        assert run.player.counters["frozen_ignored"] == 1

    latest, rtc = motions(("latest", "rtc"), scene)
    assert np.array_equal(latest, rtc)


@pytest.mark.parametrize(("frozen", "ignored"), [(14, 0), (20, 1)])
def test_a_chunk_that_is_frozen_to_its_last_step_is_played_to_its_end(frozen, ignored):
    """15 ticks are left of the chunk before: what goes beyond them was not planned."""
    run = Run(active_player(strategy="rtc"))
    accepted(run.player.offer(slide(run.now_ns), run.now_ns))
    run.ticks(10)
    chunk = continued(run, frozen, (0, 0, 0))
    accepted(run.player.offer(replace(chunk, positions=chunk.positions[:frozen]), run.now_ns))
    assert run.ticks(frozen - 1).state is State.PLAYING and run.player.counters["frozen_ignored"] == ignored
    np.testing.assert_allclose(run.positions()[-1], chunk.positions[frozen - 1], atol=1e-3)
    run.ticks(20)
    assert run.player.state is State.HOLDING and run.player.counters["ran_out"] == 1
    assert_limits(run.positions(), run.velocities())


@pytest.mark.parametrize("leave", [
    lambda run: (run.player.stop("operator"), run.ticks(1)),
    lambda run: (run.player.epoch(1, 1, run.now_ns), run.ticks(1)),
    lambda run: run.ticks(41),  # the chunk ends
    lambda run: (run.player.stop("rest"), run.ticks(12), run.player.activate(run.now_ns, run.positions()[-1], player_id=7)),
], ids=["stop", "epoch", "end", "activation"])
def test_what_was_left_takes_no_part_in_what_comes(leave):
    """After a stop, the plan of before is what must not be done."""
    def scene(run):
        accepted(run.player.offer(slide(run.now_ns, steps=41), run.now_ns))
        run.ticks(12)
        leave(run)
        chunk = still(HOME + [0.3, 0, 0], run.now_ns, seq=1, epoch=1)
        accepted(run.player.offer(replace(chunk, frozen_prefix=5), run.now_ns))
        run.ticks(20)
        assert run.player.counters["frozen_ignored"] == 1

    latest, *others = motions(STRATEGIES, scene, expiry_ms=900)
    assert all(np.array_equal(latest, other) for other in others)


def test_an_expired_prediction_takes_no_part():
    """What a policy said more than the expiry ago must not steer the arm, by a mean neither: 5 ticks of it are left."""
    run = Run(active_player(strategy="ensemble", expiry_ms=400))
    accepted(run.player.offer(still(HOME, run.now_ns, steps=100), run.now_ns))
    run.ticks(15)
    there = HOME + [0.05, 0, 0]
    accepted(run.player.offer(still(there, run.now_ns, seq=1, steps=100, base=run.player.cursor), run.now_ns))
    run.ticks(19)
    np.testing.assert_allclose(run.positions()[-1], there, atol=1e-6)


def test_a_chunk_says_how_far_it_is_from_what_was_planned():
    """At the moment at which it takes over, after the ticks whose motion is fixed: the measure of how well decisions agree."""
    run = Run(active_player(lead_ms=40))
    accepted(run.player.offer(slide(run.now_ns), run.now_ns))
    run.ticks(20)
    verdict = accepted(run.player.offer(slide(run.now_ns, HOME + [0.2, 0, 0], seq=1, base=run.player.cursor), run.now_ns))
    np.testing.assert_allclose(verdict.jump, np.array([0.2, 0, 0]) - 0.4 * np.array([0.5, -0.2, 0]), atol=1e-9)


@pytest.mark.parametrize("kept", [0, 1, 40])
def test_what_is_remembered_is_bounded(kept):
    """A player runs for days."""
    class Counting(Ensemble):
        def join(self, earlier, new, consumed):
            return replace(new, offset_ns=len(earlier))

    memory = Memory(Counting(memory=3))
    for seq in range(kept):
        memory.keep(still(HOME, START_NS, seq=seq), 0, 50)
    assert memory.splice(still(HOME, START_NS, seq=99), 0, 0).offset_ns == min(kept, 3)
    memory.clear()
    assert memory.splice(still(HOME, START_NS, seq=99), 0, 0).offset_ns == 0


@pytest.mark.parametrize(("parameters", "said"), [
    ({"strategy": "average"}, "strategy is 'average'; allowed: latest, ensemble, rtc"),
    ({"ensemble_decay": np.nan}, "ensemble_decay: .*decay is nan"),
])
def test_a_strategy_that_does_not_exist_is_refused_with_those_that_do(parameters, said):
    """When the node is configured, before anything moves."""
    with pytest.raises(PlayerError, match=said):
        PlayerParameters(**parameters)
