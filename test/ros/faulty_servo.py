"""color_servo with faults on demand: what a broken kernel, a wrong weight or a driver's hiccup does to a chunk."""

import numpy as np

from flashrt_ros import policies
from flashrt_ros.policies.color_servo import ColorServo

NAN, FAR, RAISE, GOOD = "nan", "far", "raise", "good"


class FaultyServo(ColorServo):
    """faults: what becomes of the next runs of the action, one each, first to last; with none left, all are good."""

    def __init__(self, choice, device="cpu"):
        super().__init__(choice, device)
        self.faults = []

    def run(self, stage, reads, writes):
        fault = self.faults.pop(0) if stage == "action" and self.faults else GOOD
        if fault == RAISE:
            raise ValueError("a kernel of the test failed")
        super().run(stage, reads, writes)
        if fault != GOOD:
            writes["chunk"][3, 1] = np.nan if fault == NAN else 100.0


def installed(monkeypatch):
    """The list that will hold the servo of each policy node made from now on."""
    servos = []

    def make(choice, device):
        servos.append(FaultyServo(choice, device))
        return servos[-1]

    monkeypatch.setattr(policies, "load", make)
    return servos
