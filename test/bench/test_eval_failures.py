"""Why an episode failed, from made-up records: one for each cause, and its nearest neighbours. The counts decide what is mended
next, so a cause must mean what it says."""

from dataclasses import replace

import numpy as np
import pytest

from flashrt_ros.bench.failures import CAUSES, Record, cause
from flashrt_ros.policies.instruction import Instruction

START = {"red": (0.25, 0.0, 0.02), "green": (0.30, 0.15, 0.02), "blue": (0.25, -0.15, 0.02), "yellow": (0.32, -0.05, 0.02)}
BINS = {"red": (0.57, -0.195, 0.0), "green": (0.57, -0.065, 0.0), "blue": (0.57, 0.065, 0.0), "yellow": (0.57, 0.195, 0.0)}
HOME, OPEN, AROUND_CUBE, CLOSED = (0.24, 0.3, 0.30), 0.08, 0.04, 0.026
ABOVE, AT, UP = (0.25, 0.0, 0.11), (0.25, 0.0, 0.02), (0.25, 0.0, 0.12)
PICK, PLACE = Instruction("pick", "red"), Instruction("place", "red", "blue")


def record(*moments: tuple, instruction: Instruction = PICK, refused: int = 0) -> Record:
    """moments: (tool, opening, where the red cube is, {other colour: where it is}); what is left out stays as it was."""
    tools, openings, cubes = [], [], []
    now = dict(START)
    for tool, opening, *rest in ((HOME, OPEN), *moments):
        now = now | ({"red": rest[0]} if rest and rest[0] else {}) | (rest[1] if len(rest) > 1 else {})
        tools.append(tool), openings.append(opening), cubes.append(now)
    columns = {colour: np.array([c[colour] for c in cubes]) for colour in START}
    displaced = {colour: np.maximum.accumulate(np.linalg.norm(columns[colour] - START[colour], axis=1))
                 for colour in START if colour != "red"}
    return Record(instruction, np.array(tools), np.array(openings), columns, displaced,
                  {colour: np.array(at) for colour, at in BINS.items()}, decisions=len(tools) - 1, refused=refused)


GRASP = [(ABOVE, OPEN), (AT, OPEN), (AT, AROUND_CUBE)]
CARRIED = [*GRASP, (UP, AROUND_CUBE, UP), ((0.57, 0.065, 0.12), AROUND_CUBE, (0.57, 0.065, 0.12))]
GREEN = START["green"]
RECORDS = {
    "no chunk": [record((HOME, OPEN), (HOME, OPEN), (HOME, OPEN), refused=2)],
    "wrong cube moved": [
        # lifted, and dragged off
        record((GREEN, OPEN), (GREEN, AROUND_CUBE), ((0.30, 0.15, 0.07), AROUND_CUBE, None, {"green": (0.30, 0.15, 0.07)})),
        record((GREEN, OPEN), (GREEN, 0.05), ((0.34, 0.15, 0.02), 0.05, None, {"green": (0.34, 0.15, 0.02)})),
    ],
    "another cube was pushed": [
        record((GREEN, OPEN), ((0.34, 0.15, 0.02), OPEN, None, {"green": (0.34, 0.15, 0.02)})),
        # knocked over with the named cube in the hand: the fingers are closed, but not for this one
        record(*GRASP, (UP, AROUND_CUBE, UP), (GREEN, AROUND_CUBE, GREEN, {"green": (0.34, 0.17, 0.02)})),
    ],
    "never reached the cube": [
        record((HOME, OPEN)),
        record(((0.25, 0.05, 0.02), OPEN), ((0.25, 0.05, 0.02), CLOSED)),  # closed, but 5 cm beside it
    ],
    "hovered": [record((ABOVE, OPEN), (ABOVE, OPEN), ((0.25, 0.0, 0.06), CLOSED))],
    "closed beside it": [
        record((ABOVE, OPEN), ((0.25, 0.025, 0.02), OPEN), ((0.25, 0.025, 0.02), CLOSED)),
        record((AT, OPEN), (AT, CLOSED, (0.25, 0.04, 0.02)), (UP, CLOSED)),  # squeezed out of the fingers
    ],
    "dropped it": [
        record(*GRASP, (UP, AROUND_CUBE, UP), (UP, CLOSED, AT)),
        record(*GRASP, (UP, AROUND_CUBE, UP), (UP, CLOSED, AT), (AT, OPEN)),  # and about to try again
        record(*GRASP, (UP, AROUND_CUBE, UP), (UP, OPEN, AT), instruction=PLACE),  # on the way, far from any bin
    ],
    "missed the bin": [
        record(*CARRIED, ((0.57, 0.115, 0.06), AROUND_CUBE, (0.57, 0.115, 0.06)), ((0.57, 0.115, 0.06), OPEN, (0.57, 0.13, 0.02)),
               instruction=PLACE),
        record(*CARRIED, ((0.57, -0.065, 0.05), AROUND_CUBE, (0.57, -0.065, 0.05)),
               ((0.57, -0.065, 0.05), OPEN, (0.57, -0.065, 0.03)), instruction=PLACE),  # into the green one
    ],
    "ran out of time": [
        record(*CARRIED, instruction=PLACE),  # on its way
        record(*GRASP, (UP, CLOSED, AT), (AT, OPEN), (AT, AROUND_CUBE), (UP, AROUND_CUBE, UP)),  # a second try, lifted too late
        record((ABOVE, OPEN), (AT, OPEN)),  # down, and never closed
    ],
}


@pytest.mark.parametrize(("expected", "made_up"), [(name, r) for name, records in RECORDS.items() for r in records])
def test_the_cause_is_named(expected, made_up):
    assert cause(made_up) == expected


def test_each_cause_has_a_record():
    assert set(RECORDS) == set(CAUSES)


def test_a_cube_that_rides_the_belt_is_not_displaced_by_it():
    """`displaced` is measured from where the belt would have carried it, and decides, not the way it went."""
    riding = record((HOME, OPEN, None, {"green": (0.30, 0.55, 0.02)}))
    still = replace(riding, displaced={colour: np.zeros(2) for colour in riding.displaced})
    assert cause(riding) == "another cube was pushed" and cause(still) == "never reached the cube"


def test_half_of_the_decisions_refused_is_not_yet_the_cause():
    assert cause(record((HOME, OPEN), (HOME, OPEN), refused=1)) == "never reached the cube"
