"""`flashrt bench loop` for a second: real simulator, policy and player on the system's clock, and a busy process per core."""

import pytest

from flashrt_ros.bench.loop import CONTRACT, Condition, measure
from flashrt_ros.resources import find


@pytest.mark.parametrize("udp", [False, True], ids=["as_always", "without_shared_memory"])
def test_a_short_run_measures_a_player_in_motion(udp, tmp_path):
    """The player plays (without a simulated clock: so the simulator's stamps are the system's), and has counted every point of
    its grid. How late it was depends on the machine, and is not judged."""
    row = measure(Condition("player, stress", stress=True, udp=udp), 1.0, 100.0, find(CONTRACT).resolve(), tmp_path)
    assert row.ticks >= 100 and 0 < row.played <= 1 and row.max_ms > 0
    log = (tmp_path / "player.log").read_text()
    assert "control ticks: p50" in log, "how late the loop was is told at its end"
