"""What `flashrt bench loop` says of the errors that it was given: a bar that is judged on wrong percentiles is worth nothing."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.bench.loop_rows import Row, parse_bare, parse_cyclictest, table
from flashrt_ros.ros.wake_ups import BIN_NS, BINS, WakeUps, percentile

MS = 1_000_000


def recorded(errors_ns):
    wake_ups = WakeUps()
    for error in errors_ns:
        wake_ups.add(error)
    return wake_ups


@given(st.lists(st.integers(0, 90 * MS), min_size=1, max_size=300))
def test_percentiles_are_never_flattering(errors):
    """The histogram rounds up, and by one bin at most: p99 of it is not below that of the errors themselves."""
    summary = recorded(errors).summary()
    for name, share in (("p50_ms", 50), ("p99_ms", 99), ("p999_ms", 99.9)):
        exact = np.percentile(errors, share, method="inverted_cdf") * 1e-6
        assert exact <= summary[name] + 1e-9 <= exact + BIN_NS * 1e-6 + 2e-9
    assert summary["ticks"] == len(errors) and summary["max_ms"] == pytest.approx(max(errors) * 1e-6)


@given(st.lists(st.integers(0, 90 * MS), max_size=100))
def test_the_share_of_late_ticks(errors):
    """2 ms and a fraction of a bin more count as late: the other way would hide it."""
    late = recorded(errors).summary()["late"]
    assert late == pytest.approx(np.mean([error >= 2 * MS for error in errors]) if errors else 0.0)


def test_memory_is_bounded_and_the_longest_is_kept():
    """A player runs for days: what is beyond the last bin is counted in it, and taken for as late as the latest of all."""
    wake_ups = recorded([3600 * 1000 * MS, 5 * MS, BINS * BIN_NS + MS])
    assert wake_ups.histogram() == {5010: 1, 3_600_000_000: 2}
    assert wake_ups.summary()["max_ms"] == 3_600_000
    wake_ups.clear()
    assert wake_ups.histogram() == {} and wake_ups.summary()["ticks"] == 0 and wake_ups.summary()["p99_ms"] == 0


def test_a_log_line_tells_a_person_enough():
    assert str(recorded([10_000] * 98 + [3 * MS] * 2)) == (
        "wake-up error of 100 control ticks: p50 0.02, p99 3.01, p99.9 3.01, max 3.00 ms; 2.00% over 2 ms")


def test_the_bar_is_p99_under_two_milliseconds():
    """One late tick in a hundred is allowed, two are not."""
    assert Row("a", {100: 99, 5000: 1}).met
    assert not Row("a", {100: 98, 5000: 2}).met
    assert not Row("a", {}).met, "nothing was measured"


def test_a_refused_priority_is_told_and_not_judged():
    text = table([Row("player", {100: 99, 5000: 1}, 4.9, 0.97, 1.5), Row("player, SCHED_FIFO", {}, note="not measured: refused")])
    rows = text.splitlines()[1:]
    assert rows[0].split() == ["player", "100", "97%", "0.10", "0.10", "5.00", "4.9", "1.00%", "1.5", "met"]
    assert "refused" in rows[1] and "met" not in rows[1].split()


def test_a_reference_tells_what_the_machine_cost_its_work():
    record = {"wake_ups": json.loads(recorded([20_000, 40_000]).to_json()), "work": recorded([500_000] * 9 + [8 * MS]).summary()}
    row = Row("reference", **parse_bare(json.dumps(record)))
    assert row.bins == {30: 1, 50: 1} and row.max_ms == pytest.approx(0.04) and "p99 8.01" in row.note
    assert row.note in table([row])


def test_cyclictest_is_read():
    """Its bins are named by their lower edge, ours by their upper."""
    text = ("# /dev/cpu_dma_latency set to 0us\n# Histogram\n000003 000000\n000004 000007\n000012 000001\n"
            "# Total: 000000008\n# Max Latencies: 01234\n")
    read = parse_cyclictest(text)
    assert read == {"bins": {5: 7, 13: 1}, "max_ms": 1.234} and percentile(read["bins"], 0.5) == 5


def test_the_picture_names_what_was_not_measured(tmp_path):
    from flashrt_ros.bench.loop_plot import draw

    rows = [Row("player", {100: 99, 5000: 1}, 4.9, 0.97), Row("player, SCHED_FIFO", {}, note="refused")]
    draw(rows, 200.0, {"cpu": "2 x a test", "date": "today"}, tmp_path / "deep" / "loop.png")
    assert (tmp_path / "deep" / "loop.png").read_bytes().startswith(b"\x89PNG")
