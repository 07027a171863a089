"""What an evaluation is made of: settings, and the episodes that are run under each. Imports no torch and no mujoco."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Iterable, Sequence

from flashrt_ros.chunk.splice import STRATEGIES
from flashrt_ros.errors import FlashRTError
from flashrt_ros.policies.instruction import HELD_OUT, KINDS, Instruction
from flashrt_ros.policies.tabletop_cell import COLOURS
from flashrt_ros.sim.layout import FIRST_EVALUATION_SEED, draw_instruction

POLICY, BLACK, WRONG, HELD_OUT_PAIRS, EXPERT = "policy", "black images", "wrong instruction", "held-out pairs", "expert"
CONTROLS = (POLICY, BLACK, WRONG, HELD_OUT_PAIRS)
MEASURED = "measured"
_PAIRS = sorted(HELD_OUT)


class EvaluationError(FlashRTError):
    """The evaluation was asked for something that does not exist, or could not be carried through."""


@dataclass(frozen=True)
class Setting:
    """What is held fixed over a row. contract: its name; overrides: (dotted key, YAML text) pairs on top of the file.
    condition: one of CONTROLS or EXPERT. latency: ms from a decision to its chunk's arrival, or MEASURED. strategy: one of
    chunk.splice.STRATEGIES."""

    contract: str
    overrides: tuple[tuple[str, str], ...] = ()
    condition: str = POLICY
    latency: float | str = 40.0
    device: str = "cpu"
    strategy: str = "latest"


@dataclass(frozen=True)
class Job:
    """One episode: a kind of task in the scene of a seed. path: of the contract file."""

    setting: Setting
    path: Path
    kind: str
    seed: int
    threads: int = 1

    @property
    def instruction(self) -> Instruction:
        """What is scored."""
        if self.setting.condition == HELD_OUT_PAIRS:
            return Instruction("place", *_PAIRS[self.seed % len(_PAIRS)])
        return draw_instruction(self.kind, self.seed)

    @property
    def told(self) -> str | None:
        """What the policy is told, where that is something else."""
        return told_wrongly(self.instruction, self.seed) if self.setting.condition == WRONG else None


def told_wrongly(instruction: Instruction, seed: int) -> str:
    """The same instruction with another cube's colour, drawn from the seed."""
    others = [colour for colour in COLOURS if colour != instruction.colour]
    return Instruction(instruction.kind, others[seed % len(others)], instruction.bin).text


def contract_name(path: Path) -> str:
    """`color_servo` of `config/color_servo.contract.yaml`."""
    return path.name.removesuffix(path.suffix).removesuffix(".contract")


def sweep(assignments: Iterable[str]) -> list[tuple[tuple[str, str], ...]]:
    """The product of `KEY=V1,V2,..` texts, the last one varying fastest. Commas within brackets belong to a value."""
    swept = []
    for text in assignments:
        key, equals, values = text.partition("=")
        options = _split(values)
        if not key or not equals or not all(options):
            raise EvaluationError(f"--set {text}: write KEY=V1,V2,.. such as stages.vision.every=1,2,4")
        if len(set(options)) < len(options) or key in (k for k, _ in swept):
            raise EvaluationError(f"--set {text}: a key stands once, with different values")
        swept.append((key, options))
    return [tuple(zip((key for key, _ in swept), values)) for values in product(*(options for _, options in swept))]


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def settings(paths: Sequence[Path], overrides: Sequence[tuple[tuple[str, str], ...]], conditions: Sequence[str],
             latency: float | str, device: str, strategy: str = "latest") -> list[tuple[Setting, Path]]:
    """Every contract with every combination of overrides under every condition, the conditions varying fastest."""
    names = [contract_name(path) for path in paths]
    if twice := {name for name in names if names.count(name) > 1}:
        raise EvaluationError(f"two contracts are called {', '.join(sorted(twice))}: rows bear the name of the file; copy or "
                              "rename one, or give it once and vary a key with --set")
    return [(Setting(name, chosen, condition, latency, device, strategy), path) for name, path in zip(names, paths)
            for chosen in overrides for condition in conditions]


def kinds_of(text: str) -> list[str]:
    """The kinds of task in a text such as `pick,place`."""
    kinds = text.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise EvaluationError(f"--tasks {text}: {', '.join(map(repr, unknown))} is not a kind of task; allowed: {', '.join(KINDS)}")
    return list(dict.fromkeys(kinds))


def seeds_of(first: int, count: int, training: bool = False) -> range:
    """The scenes: those of training are refused unless that is meant."""
    if count < 1:
        raise EvaluationError(f"--episodes {count}: give at least 1")
    if first < 0:
        raise EvaluationError(f"--seed {first}: seeds begin at 0, those of evaluation at {FIRST_EVALUATION_SEED}")
    if first < FIRST_EVALUATION_SEED and not training:
        raise EvaluationError(
            f"--seed {first}: seeds below {FIRST_EVALUATION_SEED} belong to training, so a success there may be one by heart; "
            f"begin at {FIRST_EVALUATION_SEED}, or pass --training-seeds to look at training scenes on purpose")
    return range(first, first + count)


def latency_of(text: str) -> float | str:
    """Milliseconds, or MEASURED."""
    if text == MEASURED:
        return MEASURED
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 10_000:
        raise EvaluationError(f"--latency {text}: give milliseconds from 0 to 10000, or '{MEASURED}' for what each decision "
                              "takes here")
    return value


def strategy_of(text: str) -> str:
    """One of chunk.splice.STRATEGIES."""
    if text not in STRATEGIES:
        raise EvaluationError(f"--strategy {text}: allowed: {', '.join(STRATEGIES)}")
    return text


def plan(chosen: Sequence[tuple[Setting, Path]], kinds: Sequence[str], seeds: Iterable[int], threads: int = 1) -> list[Job]:
    """Every setting over the same scenes, setting by setting: what a worker builds for one serves many jobs in a row.

    Held-out pairs name a bin: only `place` has that condition.
    """
    return [Job(setting, path, kind, seed, threads) for setting, path in chosen for kind in kinds
            if setting.condition != HELD_OUT_PAIRS or kind == "place" for seed in seeds]
