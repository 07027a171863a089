"""What every test shares: hypothesis without randomness, and the directories of test helpers on the path."""

import os
import sys
from pathlib import Path

import hypothesis

os.environ.setdefault("MUJOCO_GL", "egl")

# The same examples on every run: a red test is red for everyone. FLASHRT_EXAMPLES widens the search by hand.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, max_examples=int(os.environ.get("FLASHRT_EXAMPLES", "60")),
    suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("repeatable")

for directory in Path(__file__).parent.iterdir():
    if directory.is_dir():
        sys.path.append(str(directory))
