#!/usr/bin/env bash
# Installs the package with pip into an empty environment: the core and the CLI without ROS, then the ROS side.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" -m venv "$work/venv"
cd "$work"
install() { venv/bin/python -m pip install --quiet -c "$checkout/requirements/base.txt" -c "$checkout/requirements/kilted.txt" "$@"; }

install "$checkout"
venv/bin/python - <<'PY'
import sys
import flashrt_ros
assert "torch" not in sys.modules and "rclpy" not in sys.modules, "importing the package must be light"
import flashrt_ros.engine.engine, flashrt_ros.player.player
try:
    import rclpy
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("rclpy came without the ros extra")
PY
venv/bin/flashrt plan venv/share/flashrt_ros/config/tabletop_vla.contract.yaml >/dev/null

install "$checkout[ros,sim]"
venv/bin/flashrt messages
venv/bin/python -c "import flashrt_ros.msg, flashrt_ros.srv, flashrt_ros.ros.policy_node, flashrt_ros.sim.world"
echo "pip: core and CLI without ROS, then the ROS side with compiled messages"
