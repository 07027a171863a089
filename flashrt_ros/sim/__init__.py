"""The built-in simulator. Without a display MuJoCo must be told to render through EGL before it is first imported."""

import os

if "DISPLAY" not in os.environ:
    os.environ.setdefault("MUJOCO_GL", "egl")
