#!/usr/bin/env bash
# The long measurements behind the README's figures: many hours on 2 cores, half an hour on 16. Results as JSON in out/bars/.
set -euo pipefail
flashrt=$(cd "$1" && pwd)/bin/flashrt
cd "$(dirname "$0")/.."
mkdir -p out/bars
vla="config/tabletop_vla.contract.yaml --set stages.vision.overlap=null --episodes 400"
fresh="--set policy.checkpoint=builtin-fresh --set policy.allow_stale=true"
# What lower rates cost, for weights trained on stale vision and for the ablation.
"$flashrt" eval $vla --set stages.vision.every=1,2,4,8 --json out/bars/stale.json
"$flashrt" eval $vla $fresh --set stages.vision.every=1,2,4,8 --json out/bars/fresh.json
"$flashrt" eval --from out/bars/stale.json --from out/bars/fresh.json --plot out/bars/rates.png
# Does it look, and does it listen?
"$flashrt" eval $vla --set stages.vision.every=1 --tasks pick,place --controls --json out/bars/controls.json
"$flashrt" eval config/color_servo.contract.yaml --expert --episodes 100 --json out/bars/expert.json
"$flashrt" eval config/color_servo.contract.yaml --tasks pick,place --episodes 100 --json out/bars/color_servo.json
"$flashrt" bench load --seconds 20 --json out/bars/camera_load.json
"$flashrt" bench loop --seconds 60 --rate 200 --fifo --json out/bars/loop.json
"$flashrt" drill --rounds 3 --out out/bars/drill
scripts/strategies.sh "$(dirname "$flashrt")/.."
"$flashrt" demo --out out/bars/demo
