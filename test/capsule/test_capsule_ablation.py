"""A capsule that leaves something out is no capsule: the trained policy's decisions go another way after it."""

from __future__ import annotations

from flashrt_ros.bench.ablation import FULL, LAUNCHES, PARTS, ablate


def test_the_full_capsule_repeats_every_bit_and_every_incomplete_one_diverges():
    """From the middle of an episode, over 20 decisions on the same observations. What peers keep, a noise buffer or a cache alone, is not
    enough; one of each kind of content is left out in turn."""
    found = ablate(seed=10_003, at=12, decisions=20)
    assert set(found) == set(PARTS)
    assert (found[FULL] == 0).all()
    for what in PARTS[1:]:
        assert found[what].max() > 0.01, what  # rad: a hundred times what a float32 computation rounds
        assert (found[what] > 0).sum() >= 19, what
    assert found[LAUNCHES][0] == 0  # its run would have been committed one decision later
