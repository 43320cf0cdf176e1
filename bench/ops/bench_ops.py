"""The operators beside their peers: the tables of bench_msda, bench_attn and bench_conv in one run.

On the CPU on one thread and on all; with ``--gpu`` on the current CUDA device, beside the floors.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import bench_attn
import bench_conv
import bench_msda
import torch

ROOT = Path(__file__).resolve().parents[2]
TABLES = {"msda": bench_msda, "attn": bench_attn, "conv": bench_conv}


def main() -> int:
    """Prints the wanted operators' tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ops", nargs="*", metavar="OP", help="msda, attn or conv; default: all")
    parser.add_argument("--gpu", action="store_true", help="on the current CUDA device")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each CPU figure")
    arguments = parser.parse_args()
    unknown = set(arguments.ops) - set(TABLES)
    if unknown:
        parser.error(f"no such operator: {', '.join(sorted(unknown))}")
    if arguments.gpu and not torch.cuda.is_available():
        print("no GPU", file=sys.stderr)
        return 1
    library = os.environ.get("DEFORM_OPS_LIBRARY") or ROOT / "build/lib/libdeform_ops.so"
    torch.ops.load_library(str(library))
    result: dict[str, object] = {"torch": torch.__version__}
    for op in arguments.ops or TABLES:
        table = TABLES[op]
        print(f"\n{op}: {table.__doc__.splitlines()[0]}", flush=True)
        with torch.no_grad():
            result[op] = table.bench_cuda() if arguments.gpu else table.bench_cpu(arguments.seconds)
        if arguments.json:  # after each: a run that is cut short leaves what it had
            arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
