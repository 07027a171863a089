"""The records of all worlds, on the training device: a ring over rounds from which batches are drawn. torch only."""

from __future__ import annotations

import numpy as np
import torch

from flashrt_ros.train.record import PERIOD_S, RECORD

KEPT = ("frames", "joints", "label", "words", "points", "geometry", "geometry_known", "frame_age")


class Ring:
    """rounds: how many are kept. Row [world, round % rounds]."""

    def __init__(self, worlds: int, rounds: int, device: torch.device) -> None:
        self.rounds, self.count = rounds, 0
        self.device = device
        self._columns = {}
        for name in KEPT:
            base, shape = RECORD[name].subdtype or (RECORD[name], ())
            dtype = torch.from_numpy(np.empty(0, base)).dtype
            self._columns[name] = torch.zeros((worlds, rounds, *shape), dtype=dtype, device=device)
        self._first = torch.zeros((worlds, rounds), dtype=torch.int64, device=device)  # round of the episode's first decision
        self._now_first = torch.zeros(worlds, dtype=torch.int64, device=device)

    def __len__(self) -> int:
        """Records held."""
        return min(self.count, self.rounds) * len(self._now_first)

    def add(self, records: np.ndarray) -> dict[str, torch.Tensor]:
        """Append one round; returns its columns on the device, none of which shares memory with records."""
        at = self.count % self.rounds
        out = {}
        for name in KEPT:
            out[name] = torch.from_numpy(records[name].copy()).to(self.device)
            self._columns[name][:, at] = out[name]
        begun = torch.from_numpy(records["first"].astype(bool)).to(self.device)
        self._now_first[begun] = self.count
        self._first[:, at] = self._now_first
        self.count += 1
        return out

    def labels(self) -> torch.Tensor:
        """All labels as offsets from the joints, float32 [records, 32, 7]."""
        held = slice(0, min(self.count, self.rounds))
        return (self._columns["label"][:, held] - self._columns["joints"][:, held, None]).flatten(0, 1)

    def draw(self, batch: int, max_stale: int, fresh_share: float, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """`batch` records, and as `seen_*` those of the decision whose vision they act on: fresh_share of them their own,
        the others from 1 to max_stale decisions earlier (no earlier than the episode's start). age [B, 1]: in s."""
        def integers(high: int) -> torch.Tensor:
            return torch.randint(high, (batch,), generator=generator, device=self.device)

        oldest = max(0, self.count - self.rounds)
        world, moment = integers(len(self._now_first)), oldest + integers(self.count - oldest)
        at = moment % self.rounds
        stale = torch.zeros_like(moment)
        if max_stale:
            fresh = torch.rand(batch, generator=generator, device=self.device) < fresh_share
            stale = torch.where(fresh, 0, 1 + integers(max_stale))
        begun = self._first[world, at].clamp_min(oldest)
        then = torch.maximum(moment - stale, begun)
        out = {name: self._columns[name][world, at] for name in ("joints", "label", "words")}
        seen = {f"seen_{name}": self._columns[name][world, then % self.rounds] for name in KEPT if name not in ("label", "words")}
        out["age"] = ((moment - then) * PERIOD_S + seen.pop("seen_frame_age"))[:, None]
        return out | seen
