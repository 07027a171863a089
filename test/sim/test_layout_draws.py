"""What a seed draws: every scene holds all colours, apart, in reach and within the stated ranges."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.policies import tabletop_cell as cell
from flashrt_ros.policies.instruction import KINDS, Instruction, InstructionError
from flashrt_ros.policies.tabletop_arm import HOME, inverse
from flashrt_ros.sim.layout import SPACING, draw_instruction, draw_layout

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
def test_the_belt_runs_at_the_stated_speeds_and_only_for_its_task(seed):
    """0.02 to 0.06 m/s, the named cube upstream on it with another one; for the other tasks it stands still, empty."""
    instruction = draw_instruction("belt", seed)
    layout = draw_layout(instruction, seed)
    assert cell.BELT_SPEED[0] <= abs(layout.belt_velocity) <= cell.BELT_SPEED[1]
    assert instruction.colour in layout.on_belt and len(layout.on_belt) == 2
    assert layout.cubes[instruction.colour][1] * layout.belt_velocity < 0
    still = draw_layout(draw_instruction("pick", seed), seed)
    assert still.belt_velocity == 0 and not still.on_belt


def test_the_belt_runs_both_ways():
    """A policy that learned one direction only must be found out."""
    directions = {np.sign(draw_layout(draw_instruction("belt", seed), seed).belt_velocity) for seed in range(20)}
    assert directions == {-1.0, 1.0}


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


def test_an_unknown_kind_is_refused():
    """By name, with the kinds there are."""
    with pytest.raises(InstructionError, match="juggle.*pick, place, belt"):
        draw_instruction("juggle", 0)
