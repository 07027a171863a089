"""Which observations reach each stage at once, without a slower stage between. Pure Python."""

from __future__ import annotations

from typing import Mapping

from flashrt_ros.contract.age import hold
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.refresh import own_state


def fresh_inputs(pipeline: Pipeline) -> Mapping[str, tuple[str, ...]]:
    """Stage -> the inputs that age (images, joints) whose newest value it sees whenever it runs, in declaration order.

    An input reaches a stage that reads it, and goes on through every stage that takes up each new value of it at once
    (a hold of zero, see age.py). If none reaches the action, running it again only resamples the same belief.
    """
    reached: dict[str, set[str]] = {
        b.name: {b.name} for b in pipeline.spec.buffers if b.kind == "input" and not b.timeless
    }
    fresh = {}
    for stage in pipeline.stages:
        reads = [b for b in stage.reads if b not in own_state(stage)]
        seen = set().union(*(reached.get(b, ()) for b in reads))
        fresh[stage.name] = tuple(b.name for b in pipeline.spec.buffers if b.name in seen)
        passed_on = set().union(*(reached.get(b, ()) for b in reads if hold(stage, b) == 0))
        reached.update(dict.fromkeys(stage.writes, passed_on))
    return fresh
