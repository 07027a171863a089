#!/usr/bin/env bash
# The long measurements behind the README's figures: about an hour on 2 cores. Results as JSON in out/bars/.
set -euo pipefail
flashrt=$(cd "$1" && pwd)/bin/flashrt
cd "$(dirname "$0")/.."
mkdir -p out/bars
"$flashrt" eval config/color_servo.contract.yaml --expert --episodes 100 --json out/bars/expert.json
"$flashrt" eval config/color_servo.contract.yaml --tasks pick,place --controls --episodes 100 --json out/bars/color_servo.json
"$flashrt" bench load --seconds 20 --json out/bars/camera_load.json
"$flashrt" demo --out out/bars/demo
