#!/usr/bin/env bash
# Proves the CUDA code on a machine with a GPU, from an unpacked gpu-bundle: op tests against the
# reference in every dtype, compute-sanitizer, the shapes model as a CUDA package through
# deform-server, and the op benchmark. Ends with `N passed, N failed`. JSON goes to $OUT (default
# ./gpu-results).
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
results=${OUT:-$root/gpu-results}
mkdir -p "$results"
python=${PYTHON:-python3}
# Packages made by a compiler that links libstdc++ statically crash when loaded.
export CXX=/usr/bin/g++ CC=/usr/bin/gcc
export DEFORM_OPS_LIBRARY=$root/lib/libdeform_ops.so PYTHONPATH=$root/models:$root/ops/python
export PYTHONUNBUFFERED=1
TORCH_LIB=$("$python" -c 'import importlib.util as u, os
print(os.path.join(os.path.dirname(u.find_spec("torch").origin), "lib"))') || exit 1
export TORCH_LIB

passed=0 failed=0
report=()
check() { # check NAME COMMAND…: runs it, counts it, keeps its log
  local name=$1 began=$SECONDS
  shift
  echo "== $name" >&2
  if timeout "${DEFORM_CHECK_SECONDS:-600}" "$@" > "$results/$name.log" 2>&1; then
    passed=$((passed + 1)) report+=("ok      $name $((SECONDS - began)) s: $(tail -n 1 "$results/$name.log")")
  else
    failed=$((failed + 1)) report+=("FAILED  $name $((SECONDS - began)) s")
    tail -n "${DEFORM_LOG_LINES:-40}" "$results/$name.log" >&2
  fi
}

pytest=("$python" -m pytest -q -rs -p no:cacheprovider)
# Side by side where pytest-xdist is: the host has cores to spare, and each test leaves the GPU idle.
"$python" -c "import xdist" 2>/dev/null && pytest+=(-n 8 --dist loadgroup)

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader > "$results/device.txt"
only=${1:-}
run() { [ -z "$only" ] || [[ ",$only," == *",$1,"* ]]; }

run ops && check ops_against_reference "${pytest[@]}" tests/ops
run package && check package_cuda "$python" -m deform_models.package build \
  models/deform_models/shapes/weights --out model_repository/shapes/1 --name shapes \
  --categories models/deform_models/shapes/weights/categories.json --device cuda --force
run server && check shapes_through_server_on_cuda "$python" tests/gpu/serve_shapes.py \
  --json "$results/serve_shapes.json"
run bench && check bench_ops "$python" bench/ops/bench_ops.py --gpu --json "$results/bench_ops_gpu.json"

if run sanitizer; then
  for script in tests/gpu/sanitize_*.py; do
    op=$(basename "$script" .py)
    for tool in memcheck racecheck initcheck synccheck; do
      check "${op}_$tool" compute-sanitizer --tool $tool --error-exitcode 9 "$python" "$script"
    done
  done
fi

cat "$results/device.txt"
printf '%s\n' "${report[@]}"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
