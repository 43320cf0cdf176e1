"""A request's time by stage, and pictures a second, against Hugging Face in Python on this machine.

Real server, real gRPC client; pictures are held-out scenes as JPEG. Closed loop: each client asks
again when answered. The peer is the same checkpoint in Hugging Face transformers (processor, eager
model, post-processing), one picture at a time, with as many threads as torch takes by itself.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import io
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/e2e")]
STAGES = ("decode", "preprocess", "queue", "compute", "postprocess")


def jpeg_scenes(count: int) -> list[bytes]:
    """Held-out scenes as JPEG of quality 95."""
    from deform_models.shapes.scenes import generate_scene
    from PIL import Image

    encoded = []
    for index in range(count):
        buffer = io.BytesIO()
        Image.fromarray(generate_scene(10_000_000 + index).image).save(buffer, "JPEG", quality=95)
        encoded.append(buffer.getvalue())
    return encoded


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of them lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def closed_loop(address: str, pictures: list[bytes], clients: int, requests: int) -> dict:
    """`clients` clients, `requests` requests each; times in milliseconds."""
    import grpc
    from answers import ask

    def client(number: int) -> list[tuple[float, object]]:
        options = [("grpc.use_local_subchannel_pool", 1)]
        seen = []
        with grpc.insecure_channel(address, options=options) as channel:
            for step in range(requests):
                began = time.perf_counter()
                answer = ask(channel, pictures[(number + step) % len(pictures)], "PANOPTIC")
                seen.append((1e3 * (time.perf_counter() - began), answer))
        return seen

    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        seen = [item for part in pool.map(client, range(clients)) for item in part]
    elapsed = time.perf_counter() - began
    times = [item[0] for item in seen]
    row = {
        "clients": clients,
        "requests": len(seen),
        "pictures_per_second": len(seen) / elapsed,
        "p50_ms": statistics.median(times),
        "p99_ms": percentile(times, 0.99),
        "mean_batch": statistics.mean(answer.times.batch_size for _, answer in seen),
    }
    for stage in STAGES:
        row[f"{stage}_ms"] = statistics.median(
            1e3 * getattr(answer.times, stage).ToTimedelta().total_seconds() for _, answer in seen
        )
    return row


def hugging_face(pictures: list[bytes], rounds: int) -> dict:
    """The peer: decode, processor, model, post-processing in Python; medians in milliseconds."""
    import reference_model
    import torch
    from PIL import Image

    model, processor = reference_model.loaded()
    stuff = reference_model.stuff_labels()
    times = []
    for step in range(rounds + 2):
        began = time.perf_counter()
        image = Image.open(io.BytesIO(pictures[step % len(pictures)])).convert("RGB")
        with torch.inference_mode():
            inputs = processor(images=image, return_tensors="pt")
            outputs = model(pixel_values=inputs["pixel_values"])
            processor.post_process_panoptic_segmentation(
                outputs, label_ids_to_fuse=stuff, target_sizes=[image.size[::-1]]
            )
        times.append(1e3 * (time.perf_counter() - began))
    return {"p50_ms": statistics.median(times[2:]), "requests": rounds}


def main() -> None:
    """Prints the table; with --json writes it too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--requests", type=int, default=20, help="per client")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    arguments = parser.parse_args()

    import server_process

    server_process.BUILD = arguments.build
    server_process.generate_stubs()
    pictures = jpeg_scenes(16)
    peer = hugging_face(pictures, arguments.requests)
    with server_process.ServerProcess() as server:
        closed_loop(server.grpc_address, pictures, 2, 3)
        rows = [
            closed_loop(server.grpc_address, pictures, clients, arguments.requests)
            for clients in arguments.clients
        ]
    print(f"Hugging Face eager in Python: {peer['p50_ms']:.1f} ms a picture (median)")
    header = ["clients", "pictures/s", "against HF", "p50 ms", "p99 ms", "batch"]
    print("  ".join(f"{name:>11}" for name in [*header, *(f"{stage} ms" for stage in STAGES)]))
    for row in rows:
        row["ratio_to_hugging_face"] = row["pictures_per_second"] * peer["p50_ms"] / 1e3
        cells = [
            f"{row['clients']}",
            f"{row['pictures_per_second']:.1f}",
            f"{row['ratio_to_hugging_face']:.2f} x",
            f"{row['p50_ms']:.1f}",
            f"{row['p99_ms']:.1f}",
            f"{row['mean_batch']:.2f}",
            *(f"{row[f'{stage}_ms']:.2f}" for stage in STAGES),
        ]
        print("  ".join(f"{cell:>11}" for cell in cells))
    if arguments.json:
        machine = {"processor": platform.processor() or platform.machine(), "cpus": os.cpu_count()}
        arguments.json.write_text(
            json.dumps({"machine": machine, "hugging_face": peer, "server": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
