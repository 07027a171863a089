#!/usr/bin/env bash
# Builds the checkout with colcon, the environment's ROS as underlay, and tries what it installed.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
venv=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH="$venv/bin:$PATH" AMENT_PREFIX_PATH="$venv" CMAKE_PREFIX_PATH="$venv" FLASHRT_INSTALLED=1
cd "$work"

listed=$(colcon --log-base log list --base-paths "$checkout")
grep -q 'ros\.ament_cmake' <<<"$listed" || { echo "colcon list says '$listed', not ros.ament_cmake: package.xml is invalid"; exit 1; }
colcon --log-base log build --base-paths "$checkout" --event-handlers console_stderr- --cmake-args -G Ninja \
  -DPython3_EXECUTABLE="$venv/bin/python" -DBUILD_TESTING=OFF

installed=$work/install/flashrt_ros
for program in policy_node player_node sim_node flashrt; do
  test -x "$installed/lib/flashrt_ros/$program" || { echo "$program is not in lib/flashrt_ros"; exit 1; }
done
set +u; . install/setup.bash; set -u
python - "$installed" <<'PY'
import sys
import flashrt_ros, flashrt_ros.msg, flashrt_ros.srv
import flashrt_ros.ros.policy_node
from flashrt_ros.resources import find
for path in (flashrt_ros.__file__, flashrt_ros.msg.__file__, str(find("config/fastdds.xml"))):
    assert path.startswith(sys.argv[1]), f"{path} is not in the install space"
PY
"$installed/lib/flashrt_ros/flashrt" plan "$installed/share/flashrt_ros/config/tabletop_vla.contract.yaml" >/dev/null
echo "colcon: built, installed and imported from the install space"
