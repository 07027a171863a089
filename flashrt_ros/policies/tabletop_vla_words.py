"""The words that tabletop_vla knows, and an instruction as their indices. numpy only."""

from __future__ import annotations

import numpy as np

from flashrt_ros.policies.instruction import parse

WORDS = ("", "pick", "put", "up", "the", "red", "green", "blue", "yellow", "cube", "bin", "in", "from", "moving", "belt")
TEXT = 8  # words of the longest instruction


def encode(text: str) -> np.ndarray:
    """int32 [8]: indices of an instruction's words, 0 behind its end. Blank text is no instruction: all 0.

    Raises InstructionError for any other text that is no instruction.
    """
    words = parse(text).text.split() if text.strip() else []
    return np.array([WORDS.index(word) for word in words] + [0] * (TEXT - len(words)), np.int32)
