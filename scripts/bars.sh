#!/usr/bin/env bash
# The long measurements behind the README's figures: about an hour on 2 cores. Results as JSON in out/bars/.
set -euo pipefail
flashrt=$(cd "$1" && pwd)/bin/flashrt
cd "$(dirname "$0")/.."
mkdir -p out/bars
"$flashrt" eval --expert --tasks pick,place,belt --episodes 100 --json out/bars/expert.json
"$flashrt" eval --controls --episodes 100 --json out/bars/color_servo.json
"$flashrt" bench load --seconds 20 --json out/bars/camera_load.json
"$flashrt" demo --out out/bars/demo
