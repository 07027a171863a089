"""What a seed draws: every scene holds all colours, apart, in reach and within the stated ranges."""

import os
import subprocess
import sys
from dataclasses import asdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.policies import tabletop_cell as cell
from flashrt_ros.policies.instruction import KINDS, Instruction, InstructionError
from flashrt_ros.policies.tabletop_arm import HOME, inverse
from flashrt_ros.sim.episode import LIMIT_NS
from flashrt_ros.sim.layout import SPACING, Belt, draw_instruction, draw_layout

seeds = st.integers(0, 2**32 - 1)


@given(st.sampled_from(KINDS), seeds)
def test_every_scene_holds_all_colours_apart_and_in_reach(kind, seed):
    """A cube that is absent, touching another or out of reach would make failures of scenes, not of policies."""
    instruction = draw_instruction(kind, seed)
    layout = draw_layout(instruction, seed)
    assert set(layout.cubes) == set(layout.bins) == set(cell.COLOURS)
    for a, b in combinations(layout.cubes.values(), 2):
        assert np.hypot(a[0] - b[0], a[1] - b[1]) >= SPACING
    for a, b in combinations(layout.bins.values(), 2):
        assert abs(a[1] - b[1]) >= cell.BIN_INNER + 2 * cell.BIN_WALL
    for x, y in layout.bins.values():
        inverse(np.array([x, y, 0.2]), 0.0, HOME)
    for colour, (x, y, z, yaw) in layout.cubes.items():
        if colour == instruction.colour or colour not in layout.on_belt:
            inverse(np.array([x, y, z]), yaw, HOME)
        on_strip = abs(x - cell.BELT_X) < cell.BELT_WIDTH / 2
        assert on_strip == (colour in layout.on_belt)
        assert z == pytest.approx((cell.BELT_Z if on_strip else cell.TABLE_Z) + cell.CUBE / 2)


@given(seeds)
def test_the_belt_runs_for_its_task_only_with_the_named_cube_and_another_on_it(seed):
    """The named cube starts up the belt, so that it comes past the arm; for the other tasks the belt stands still, empty."""
    instruction = draw_instruction("belt", seed)
    layout = draw_layout(instruction, seed)
    assert cell.BELT_SPEED[0] <= layout.belt.speed <= cell.BELT_SPEED[1]
    assert instruction.colour in layout.on_belt and len(layout.on_belt) == 2
    assert layout.cubes[instruction.colour][1] < 0
    for kind in ("pick", "place"):
        still = draw_layout(draw_instruction(kind, seed), seed)
        assert still.belt == Belt(0.0, ()) and not still.on_belt


@given(seeds)
def test_the_belt_runs_and_rests_in_turn_for_longer_than_any_episode(seed):
    """It runs at first, each span is within its range, and so the first rest comes before a grasp can be done: no episode
    can be won as if the belt ran for ever."""
    belt = draw_layout(draw_instruction("belt", seed), seed).belt
    spans = np.diff([0.0, *belt.switches])
    for range_, drawn in ((cell.BELT_RUNS, spans[0::2]), (cell.BELT_RESTS, spans[1::2])):
        assert np.all((drawn > range_[0] - 1e-9) & (drawn < range_[1] + 1e-9))
        assert len(set(drawn)) == len(drawn)  # no rhythm to learn by heart
    assert len(belt.switches) // 2 * (cell.BELT_RUNS[0] + cell.BELT_RESTS[0]) * 1e9 > LIMIT_NS
    assert belt.switches[1] < 2.5


@given(st.lists(st.floats(0.01, 20), max_size=12, unique=True).map(sorted), st.floats(0, 21))
def test_a_belt_runs_until_its_first_switch_and_changes_at_each(switches, seconds):
    """At a switch the new velocity holds already."""
    belt = Belt(0.1, tuple(switches))
    for at in (seconds, *switches):
        passed = sum(switch <= at for switch in switches)
        assert belt.velocity(at) == (0.0 if passed % 2 else 0.1)
    assert Belt(0.0, tuple(switches)).velocity(seconds) == 0.0


@given(st.sampled_from(KINDS), seeds)
def test_a_seed_draws_one_layout(kind, seed):
    """Every value of it."""
    instruction = draw_instruction(kind, seed)
    first = asdict(draw_layout(instruction, seed))
    draw_layout(instruction, seed + 1)
    assert draw_instruction(kind, seed) == instruction
    np.testing.assert_equal(asdict(draw_layout(instruction, seed)), first)


def test_other_processes_draw_the_same():
    """An evaluation spreads its seeds over processes, whose sets of strings are in different orders."""
    code = ("from flashrt_ros.sim.layout import draw_instruction, draw_layout\n"
            "for k in ('pick', 'place', 'belt'):\n"
            "    layout = draw_layout(draw_instruction(k, 17), 17)\n"
            "    print(layout.cubes, sorted(layout.on_belt), layout.bins, layout.belt, layout.lamp, layout.lamp_level,\n"
            "          layout.ambient_level, layout.shift, layout.turn)")
    said = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                           env=os.environ | {"PYTHONHASHSEED": hash_seed}).stdout for hash_seed in ("1", "2")]
    assert "Belt(speed=0." in said[0] and said[0] == said[1]


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_draw_every_colour(kind):
    """The colours come from the seed when only the kind is given, and none is left out."""
    drawn = [draw_instruction(kind, seed) for seed in range(60)]
    assert {i.colour for i in drawn} == set(cell.COLOURS)
    assert {i.bin for i in drawn} == (set(cell.COLOURS) if kind == "place" else {None})


def test_the_instruction_changes_no_place_off_the_belt():
    """The same seed with another colour named is the same scene: wrong instructions can be tried on it."""
    red, blue = (draw_layout(Instruction("pick", colour), 7) for colour in ("red", "blue"))
    assert red.cubes == blue.cubes and red.bins == blue.bins


def test_the_belt_runs_alike_whichever_cube_is_named():
    """Then instructions can be compared on the same belt, too."""
    red, blue = (draw_layout(Instruction("belt", colour), 7) for colour in ("red", "blue"))
    assert red.belt == blue.belt != draw_layout(Instruction("belt", "red"), 8).belt


def test_an_unknown_kind_is_refused():
    """By name, with the kinds there are."""
    with pytest.raises(InstructionError, match="juggle.*pick, place, belt"):
        draw_instruction("juggle", 0)
