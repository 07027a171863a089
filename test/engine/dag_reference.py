"""A naive interpreter of the refresh and overlap rules, to hold the engine against: no plans, no shadows, no reuse of
memory. It decides each stage when its turn comes, so it needs no notion of what will be written at this boundary."""

from __future__ import annotations

import numpy as np
import torch


class Reference:
    def __init__(self, pipeline, policy):
        self.pipeline, self.policy = pipeline, policy
        self.version = {b: 0 for b in pipeline.buffers}
        self.reset()

    def reset(self):
        self.value = {b: torch.zeros(s.shape) for b, s in self.pipeline.buffers.items()}
        self.stamp = dict.fromkeys(self.value)
        self.ident, self.last, self.seen, self.flying = {}, {}, {}, {}

    def decide(self, seen, late=()):
        """(chunk or None, names of the stages that ran or were launched)."""
        ran, k, now = [], seen.decision, seen.now_ns
        for stage in self.pipeline.stages:
            if stage.name in self.flying and stage.name not in late:
                launched, values, stamp = self.flying[stage.name]
                if launched + stage.commit_after <= k:
                    self._write(values, stamp)
                    del self.flying[stage.name]
        for name, given in seen.inputs.items():
            if self.ident.get(name) != given.ident:
                self.ident[name] = given.ident
                self._write({name: torch.from_numpy(given.value.copy())}, given.stamp_ns)
        for stage in self.pipeline.stages:
            due, urgent = self._due(stage, k, now)
            if due:
                ran.append(stage.name)
                for name, source in self.pipeline.spec.ages if stage == self.pipeline.action else ():
                    self._write({name: torch.tensor([(now - self.stamp[source]) / 1e9])}, None)
                values = {b: torch.zeros_like(self.value[b]) for b in stage.writes}
                self.policy.run(stage.name, {b: self.value[b].clone() for b in stage.reads}, values)
                stamps = [self.stamp[b] for b in stage.reads if b not in stage.writes and self.stamp[b] is not None]
                self.last[stage.name], self.seen[stage.name] = k, dict(self.version)
                self.flying.pop(stage.name, None)
                if stage.commit_after is None or urgent:
                    self._write(values, min(stamps, default=None))
                else:
                    self.flying[stage.name] = (k, values, min(stamps, default=None))
        if any(self._old(stage, now) for stage in self.pipeline.stages):
            return None, ran
        return self.value[self.pipeline.spec.chunk].numpy().copy(), ran

    def _due(self, stage, k, now):
        """(is it due, must it run in the foreground)."""
        if stage.name not in self.last or self._old(stage, now):
            return True, True
        if stage.name == self.pipeline.spec.action:
            return True, True
        if stage.name in self.flying:
            return False, False
        newer = {b for b, v in self.version.items() if v > self.seen[stage.name][b]}
        if stage.every is None and not stage.on_change:
            return bool(newer & set(stage.reads) - set(stage.writes)), False
        by_time = stage.every is not None and k >= self.last[stage.name] + stage.every
        return by_time or bool(newer & set(stage.on_change)), False

    def _old(self, stage, now):
        stamps = [self.stamp[b] for b in stage.writes if self.stamp[b] is not None]
        return stage.max_age_ns is not None and any(now - s > stage.max_age_ns for s in stamps)

    def _write(self, values, stamp):
        for name, value in values.items():
            self.value[name], self.stamp[name] = value, stamp
            self.version[name] += 1


def same_bits(ours: torch.Tensor | np.ndarray, theirs: torch.Tensor | np.ndarray) -> bool:
    """Equality of bytes: of NaNs and signed zeros too."""
    return np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
