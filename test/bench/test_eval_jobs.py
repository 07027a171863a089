"""What `flashrt eval` is about to run. A comparison is worth nothing if its rows did not face the same scenes, or scenes that
were trained on."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.bench.jobs import (
    BLACK, CONTROLS, HELD_OUT_PAIRS, MEASURED, POLICY, WRONG, EvaluationError, Job, Setting, contract_name, kinds_of, latency_of,
    plan, seeds_of, settings, strategy_of, sweep,
)
from flashrt_ros.policies.instruction import HELD_OUT, KINDS, Instruction, is_held_out, parse
from flashrt_ros.policies.tabletop_cell import COLOURS
from flashrt_ros.sim.layout import draw_instruction, draw_layout

PATH = Path("arm.contract.yaml")
seeds = st.integers(10_000, 1_000_000)


def job(condition: str, kind: str, seed: int) -> Job:
    return Job(Setting("arm", condition=condition), PATH, kind, seed)


def test_every_row_faces_the_same_scenes():
    chosen = settings([PATH], sweep(["stages.vision.every=1,2,4"]), CONTROLS, 40.0, "cpu")
    jobs = plan(chosen, ["pick", "place"], range(10_000, 10_005))
    faced = {}
    for each in jobs:
        faced.setdefault((each.setting, each.kind), []).append(each.seed)
    assert len(faced) == 3 * (2 * 3 + 1) and all(its == list(range(10_000, 10_005)) for its in faced.values())


def test_jobs_of_a_setting_stand_together():
    """A worker that changes the setting builds engine, world and graphics context anew."""
    order = [each.setting for each in plan(settings([PATH], sweep(["a=1,2"]), CONTROLS, 40.0, "cpu"), KINDS, range(3))]
    assert sum(a != b for a, b in zip(order, order[1:])) == len(set(order)) - 1 == 7


@given(seeds)
def test_a_held_out_pair_comes_in_the_scene_of_its_seed(seed):
    """The same cubes and bins in the same places: what differs is what is asked for."""
    asked = job(HELD_OUT_PAIRS, "place", seed).instruction
    drawn = job(POLICY, "place", seed).instruction
    assert is_held_out(asked) and asked.kind == "place"
    ours, theirs = draw_layout(asked, seed), draw_layout(drawn, seed)
    assert ours.cubes == theirs.cubes and ours.bins == theirs.bins


def test_held_out_pairs_all_occur_and_are_a_quarter_of_what_is_drawn():
    """So ordinary evaluation scenes ask for them, too, and training must leave them out by itself."""
    asked = [job(HELD_OUT_PAIRS, "place", seed).instruction for seed in range(10_000, 10_004)]
    assert {(i.colour, i.bin) for i in asked} == HELD_OUT
    drawn = [draw_instruction("place", seed) for seed in range(10_000, 10_900)]
    assert 0.2 < sum(map(is_held_out, drawn)) / len(drawn) < 0.3


def test_training_still_sees_every_colour_as_a_cube_and_as_a_bin():
    """Else held-out pairs would test an unseen colour, not a new combination."""
    trained = [Instruction("place", cube, bin_) for cube in COLOURS for bin_ in COLOURS if (cube, bin_) not in HELD_OUT]
    assert {i.colour for i in trained} == {i.bin for i in trained} == set(COLOURS)
    assert not any(map(is_held_out, trained)) and not is_held_out(Instruction("pick", "red"))


@given(st.sampled_from(KINDS), seeds)
def test_a_wrong_instruction_names_another_cube_and_nothing_else(kind, seed):
    wrong = job(WRONG, kind, seed)
    told = parse(wrong.told)
    assert told.colour != wrong.instruction.colour and (told.kind, told.bin) == (wrong.instruction.kind, wrong.instruction.bin)
    assert wrong.instruction == job(POLICY, kind, seed).instruction
    assert job(POLICY, kind, seed).told is None and job(BLACK, kind, seed).told is None


@pytest.mark.parametrize(("first", "count", "words"), [
    (9_999, 5, "belong to training"), (0, 5, "--training-seeds"), (10_000, 0, "at least 1"), (-1, 5, "begin at 0")])
def test_seeds_that_prove_nothing_are_refused(first, count, words):
    """A success in a scene of training may be one by heart."""
    with pytest.raises(EvaluationError, match=words):
        seeds_of(first, count)


def test_training_seeds_run_when_they_are_asked_for():
    assert seeds_of(7, 3, training=True) == range(7, 10) and seeds_of(10_000, 2) == range(10_000, 10_002)


def test_several_sweeps_make_the_product():
    assert sweep(["a.b=1,2", "c=x"]) == [(("a.b", "1"), ("c", "x")), (("a.b", "2"), ("c", "x"))]
    assert sweep([]) == [()]


def test_commas_within_brackets_belong_to_the_value():
    assert sweep(["limits.position.elbow=[0, 2],[0, {a: 1, b: 2}]"]) == [
        (("limits.position.elbow", "[0, 2]"),), (("limits.position.elbow", "[0, {a: 1, b: 2}]"),)]


@pytest.mark.parametrize("texts", [["every"], ["=1"], ["every="], ["every=1,,2"], ["every=1,1"], ["every=1", "every=2"]])
def test_a_sweep_that_says_nothing_or_twice_is_refused(texts):
    with pytest.raises(EvaluationError, match=r"--set every|--set =1"):
        sweep(texts)


def test_two_contracts_of_one_name_are_refused():
    """Their rows could not be told apart."""
    assert contract_name(Path("a/color_servo.contract.yaml")) == "color_servo" and contract_name(Path("mine.yaml")) == "mine"
    with pytest.raises(EvaluationError, match="are called arm"):
        settings([Path("a/arm.yaml"), Path("b/arm.contract.yaml")], [()], [POLICY], 40.0, "cpu")


def test_latency_is_milliseconds_or_measured():
    assert latency_of("12.5") == 12.5 and latency_of("measured") == MEASURED
    for text in ("-1", "nan", "fast", "1e9"):
        with pytest.raises(EvaluationError, match="--latency"):
            latency_of(text)


def test_a_strategy_is_one_that_the_player_has():
    chosen = settings([PATH], [()], [POLICY], 40.0, "cpu", strategy_of("ensemble"))
    assert chosen[0][0].strategy == "ensemble"
    for text in ("average", ""):
        with pytest.raises(EvaluationError, match="--strategy .*latest, ensemble, rtc"):
            strategy_of(text)


def test_an_unknown_task_is_refused_with_the_known_ones():
    assert kinds_of("place,pick,place") == ["place", "pick"]
    with pytest.raises(EvaluationError, match="'dance'.*pick, place, belt"):
        kinds_of("pick,dance")
