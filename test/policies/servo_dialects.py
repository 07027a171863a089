"""color_servo as policies whose numbers mean something else than positions, for tests of what makes positions of them."""

import numpy as np
import torch

from flashrt_ros.policies.color_servo import ColorServo


class DeltaServo(ColorServo):
    """The arm's columns of its chunk are deltas from the joints that it was given. said [32, 7]: the positions that the last
    chunk means. while_deciding(): called at the end of every action, while the decision is not over."""

    def __init__(self, choice, device="cpu"):
        super().__init__(choice, device)
        self.said = np.zeros((32, 7))
        self.while_deciding = lambda: None

    def run(self, stage, reads, writes):
        super().run(stage, reads, writes)
        if stage == "action":
            self.said = writes["chunk"].double().numpy().copy()
            writes["chunk"][:, :6] -= reads["joints"][:6]
            self.while_deciding()


class HesitantServo(ColorServo):
    """The gripper's column of its chunk is about 1 where the fingers are to close and about 0 where they are to be open, off by
    0.55 from row to row."""

    def run(self, stage, reads, writes):
        super().run(stage, reads, writes)
        if stage == "action":
            width = writes["chunk"][:, 6]
            width.copy_((width < 0.079) + 0.55 * (-1.0) ** torch.arange(len(width)))
