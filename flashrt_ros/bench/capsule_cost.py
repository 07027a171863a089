"""What a capsule costs: wall time of taking one and of going back to one, on this machine.

The clock runs on the host around the call and the wait for the device, identity and records included. With `--shape pi05` the
buffers are those of pi0.5 in bfloat16 with two cameras (keys and values of 18 layers, 968 positions), filled by stages that compute
nothing: only their size matters here.

    flashrt bench capsule --device cuda --shape pi05 --json out/capsule.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Callable, Mapping, Sequence

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from flashrt_ros import policies
from flashrt_ros.bench.machine import machine
from flashrt_ros.capsule.record import Digests, Outside, Place, Record
from flashrt_ros.capsule.ring import Ring
from flashrt_ros.chunk.chunk import Cursor
from flashrt_ros.contract.load import load, loads
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.spec import BufferSpec, PolicySpec, StageSpec
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.boundary import Boundary
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.policies.base import Policy
from flashrt_ros.resources import DEFAULT_CONTRACT, find

LAYERS, POSITIONS, HEAD = 18, 968, 256  # of pi0.5's prefix: 3 x 256 image tokens and 200 of text, as LeRobot lays them out
JOINTS = tuple(f"joint_{i}" for i in range(7))
CONTRACT = """
contract: 1
policy: {type: pi05_shape}
decision: {rate_hz: 20, deadline_ms: 50}
inputs:
  base: {channel: {topic: base, type: sensor_msgs/msg/Image}, image: {size: [224, 224]}, max_age_ms: 100}
  wrist: {channel: {topic: wrist, type: sensor_msgs/msg/Image}, image: {size: [224, 224]}, max_age_ms: 100}
  joints: {channel: {topic: joint_states, type: sensor_msgs/msg/JointState}, select: [SELECT], max_age_ms: 50}
  tokens: {channel: {topic: task, type: std_msgs/msg/String, qos: latched}, default: ""}
stages: {vision: {every: 4, max_age_ms: 400, overlap: {commit_after: 1}}, prefix: {}, action: {every: 1}}
outputs:
  - {name: arm, controller: {topic: arm/joint_trajectory, type: trajectory_msgs/msg/JointTrajectory}, select: [JOINTS], representation: joint, step_ms: 20}
limits: {position: {POSITION}, velocity: 2.0, boundary_jump: 1.0}
""".replace("SELECT", ", ".join(f"position.{j}" for j in JOINTS)).replace("JOINTS", ", ".join(JOINTS)).replace("POSITION", ", ".join(f"{j}: [-3, 3]" for j in JOINTS))


class Shape(Policy):
    """Buffers of pi0.5's sizes, and stages that fill them with one number."""

    def __init__(self) -> None:
        image = (224, 224, 3)
        self.spec = PolicySpec(
            type="pi05_shape",
            buffers=(
                BufferSpec("base", image, "uint8", "input"), BufferSpec("wrist", image, "uint8", "input"),
                BufferSpec("joints", (len(JOINTS),), "float32", "input"),  # unlike pi0.5: else old keys and values would not be kept
                BufferSpec("tokens", (200,), "int32", "input", timeless=True),
                BufferSpec("noise", (50, len(JOINTS)), "float32", "input", timeless=True),
                BufferSpec("vision_tokens", (512, 2048), "bfloat16", "derived"),
                BufferSpec("prefix_kv", (LAYERS, 2, POSITIONS, HEAD), "bfloat16", "derived"),
                BufferSpec("chunk", (50, len(JOINTS)), "float32", "output"),
            ),
            stages=(
                StageSpec("vision", ("base", "wrist"), ("vision_tokens",)),
                StageSpec("prefix", ("vision_tokens", "tokens"), ("prefix_kv",)),
                StageSpec("action", ("prefix_kv", "joints", "noise"), ("chunk",)),
            ),
            action="action", chunk="chunk", joints=JOINTS, noise="noise", trained_stale=True,
        )

    def run(self, stage: str, reads: Mapping[str, torch.Tensor], writes: Mapping[str, torch.Tensor]) -> None:
        for out in writes.values():
            out.fill_(0.5)

    def encode_text(self, text: str) -> np.ndarray:
        return np.zeros(200, np.int32)

    def weights_digest(self) -> str:
        return "0" * 64


def measure(pipeline: Pipeline, policy: Policy, device: str, rounds: int) -> dict[str, object]:
    """Milliseconds of each of `rounds` snapshots and restores, and what lies in a capsule."""
    engine = Engine(pipeline, policy, device)
    engine.warm_up()
    ring = Ring(engine, pipeline.contract.rollback.depth)
    digests = Digests("c" * 64, policy.weights_digest(), engine.engine_digest())
    wait = torch.cuda.synchronize if engine.device.type == "cuda" else lambda: None
    times: dict[str, list[float]] = {"snapshot": [], "restore, live": [], "restore, exact": []}
    parent = ""
    for k in range(rounds + 20):
        seen = _observation(pipeline, k)
        engine.decide(seen)

        def record(boundary: Boundary) -> Record:
            inputs = {name: (given.stamp_ns, given.crc) for name, given in seen.inputs.items() if given.crc is not None}
            return Record(parent, digests, Place(1, 1, k + 1, 0, 1), boundary, Outside("task", Cursor(), inputs), None, engine.stage_ms)

        capsule = _timed(times["snapshot"], wait, lambda: ring.take(record))
        parent = capsule.record.id
        _timed(times["restore, live"], wait, lambda: ring.rewind(capsule))
        _timed(times["restore, exact"], wait, lambda: ring.load(capsule))
    engine.close()
    return {"device": torch.cuda.get_device_name() if engine.device.type == "cuda" else "cpu", "bytes": engine.slab.memory.numel(),
            "buffers": len(engine.slab.regions), "rounds": rounds, "ms": {what: _figures(t[20:]) for what, t in times.items()}}


def _timed(times: list[float], wait: Callable[[], None], call: Callable):
    wait()
    began = time.perf_counter_ns()
    result = call()
    wait()
    times.append((time.perf_counter_ns() - began) / 1e6)
    return result


def _figures(times: Sequence[float]) -> dict[str, float]:
    return {f"p{q}": round(float(np.percentile(times, q)), 4) for q in (50, 95, 99)}


def _observation(pipeline: Pipeline, k: int) -> Observation:
    now_ns, values = k * pipeline.period_ns, {}
    for buffer in pipeline.spec.buffers:
        if buffer.kind == "input" and buffer.name not in dict(pipeline.spec.ages):
            value = np.full(buffer.shape, k % 7, np.dtype(buffer.dtype))
            ident = 1 if buffer.timeless and buffer.name not in pipeline.spec.engine_filled else k + 1
            values[buffer.name] = InputValue(value, ident, None if buffer.timeless else now_ns, k)
    return Observation(k, now_ns, values)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="flashrt bench capsule", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=["tabletop_vla", "pi05"], default="tabletop_vla", help="whose buffers (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1000, metavar="N")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.shape == "pi05":
        policy = Shape()
        pipeline = verify(loads(CONTRACT, "pi05_shape"), policy.spec)
    else:
        contract = load(find(DEFAULT_CONTRACT))
        policy = policies.load(contract.policy, options.device)
        pipeline = verify(contract, policy.spec)
    found = measure(pipeline, policy, options.device, options.rounds)
    table = Table(title=f"a capsule of {options.shape}: {found['bytes'] / 1e6:.2f} MB in {found['buffers']} buffers, on {found['device']}")
    table.add_column("wall clock on the host, device awaited")
    for q in ("p50", "p95", "p99"):
        table.add_column(f"{q}, ms", justify="right")
    for what, figures in found["ms"].items():
        table.add_row(what, *(f"{figures[q]:.4f}" for q in ("p50", "p95", "p99")))
    Console().print(table)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": machine(), "shape": options.shape, **found}, indent=1))
        print(f"figures: {options.json}")
    return 0
