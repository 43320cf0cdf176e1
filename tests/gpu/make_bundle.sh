#!/usr/bin/env bash
# make_bundle.sh BUILD [SM]: dist/gpu-bundle.tar.gz, what a GPU machine needs beside a Python with
# torch, transformers, pytest and scikit-image: server, client, the op library for one SM (default
# 90a), tests, scripts, checkpoint, and the shared libraries these use except libc, the C++
# runtime, the driver and torch. There: tar xzf gpu-bundle.tar.gz && gpu-bundle/tests/gpu/run.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
sm=${2:-90a}
stage=$root/dist/gpu-bundle
limit_mib=60

echo "op library for sm_$sm" >&2
cuda_compiler=$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt" | head -n 1)
[ -n "$cuda_compiler" ] || { echo "make_bundle: this build has no CUDA compiler" >&2; exit 1; }
python=$(sed -n 's/^DEFORM_PYTHON:[A-Z]*=//p' "$build/CMakeCache.txt")
cmake -S "$root" -B "$build/gpu-bundle" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DDEFORM_PYTHON="$python" -DCMAKE_CUDA_COMPILER="$cuda_compiler" \
  -DDEFORM_CUDA_ARCHITECTURES="$sm-real" -DDEFORM_BUILD_SERVER=OFF -DDEFORM_BUILD_CLIENT=OFF \
  -DDEFORM_BUILD_TESTS=OFF >/dev/null
cmake --build "$build/gpu-bundle" --target deform_ops >&2

rm -rf "$stage"
mkdir -p "$stage/bin" "$stage/libexec" "$stage/lib"
cp "$build/bin/deform-server" "$build/bin/deform-client" "$stage/libexec/"
# The libraries beside them are for them alone: Python there has its own.
for program in deform-server deform-client; do
  cat > "$stage/bin/$program" <<'WRAPPER'
#!/usr/bin/env bash
root=$(cd "$(dirname "$0")/.." && pwd)
export LD_LIBRARY_PATH=$root/lib:${TORCH_LIB:?the lib folder of the torch package}
exec "$root/libexec/$(basename "$0")" "$@"
WRAPPER
  chmod +x "$stage/bin/$program"
done
cp "$build/gpu-bundle/lib/libdeform_ops.so" "$stage/lib/"
strip --strip-unneeded "$stage"/libexec/* "$stage/lib/libdeform_ops.so"

# ldd names each library with the path it was found at; torch's own folder stays out.
for program in "$stage"/libexec/*; do ldd "$program"; done |
  awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libpthread|libdl|librt|libutil|ld-linux[^/]*|libstdc\+\+|libgcc_s|libresolv)\.so' |
  grep -vE '/lib(torch|c10|cuda|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nvJitLink|nvrtc|nvshmem|cufile|gomp)[^/]*\.so' |
  xargs -r cp -Lt "$stage/lib"

(cd "$root" && git ls-files --cached --others --exclude-standard \
    dev models ops/python docs/ops tests/ops tests/gpu tests/support tests/e2e/answers_compare.py \
    tests/e2e/reference_model.py bench/ops bench/service pytest.ini) |
  grep -v '/__pycache__/' | tar -C "$root" -cf - -T - | tar -C "$stage" -xf -

tar -C "$root/dist" -czf "$root/dist/gpu-bundle.tar.gz" gpu-bundle
mib=$(( $(stat -c %s "$root/dist/gpu-bundle.tar.gz") / 1048576 ))
echo "dist/gpu-bundle.tar.gz: $mib MiB" >&2
[ "$mib" -le "$limit_mib" ] || { echo "make_bundle: over $limit_mib MiB" >&2; exit 1; }
