"""The demo of `./dev demo`: serve the shapes model, segment pictures, leave overlays to look at.

Without pictures of the user's own it makes some: generated scenes and photographs that
scikit-image ships, as JPEG and PNG. Everything goes through the real server and the real client.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent))
import server_process  # noqa: E402
from server_process import ServerProcess  # noqa: E402

SCENE_SEEDS = (10_000_000, 10_000_003, 10_000_007, 10_000_012)
PHOTOGRAPHS = ("coffee", "astronaut", "chelsea")


def write_sample_pictures(folder: Path) -> list[Path]:
    """Generated held-out scenes and real photographs, as JPEG and PNG by turns."""
    from deform_models.shapes.scenes import generate_scene
    from skimage import data

    folder.mkdir(parents=True, exist_ok=True)
    pictures = [(f"scene_{seed}", generate_scene(seed).image) for seed in SCENE_SEEDS]
    pictures += [(name, getattr(data, name)()) for name in PHOTOGRAPHS]
    written = []
    for index, (name, pixels) in enumerate(pictures):
        path = folder / f"{name}.{'png' if index % 2 else 'jpg'}"
        Image.fromarray(pixels).save(path, **({} if index % 2 else {"quality": 95}))
        written.append(path)
    return written


def main() -> int:
    """Runs the demo; the exit code is the client's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", nargs="*", type=Path, help="pictures or folders of them")
    parser.add_argument("--build", type=Path, required=True, help="the CMake build folder")
    parser.add_argument("--repository", type=Path, required=True, help="the model repository")
    parser.add_argument("--out", type=Path, required=True, help="where the results go")
    arguments = parser.parse_args()
    server_process.BUILD = arguments.build

    shutil.rmtree(arguments.out, ignore_errors=True)
    arguments.out.mkdir(parents=True)
    pictures = arguments.pictures or write_sample_pictures(arguments.out / "pictures")
    print(f"starting deform-server on {arguments.repository}", file=sys.stderr)
    with ServerProcess(repository=arguments.repository) as server:
        print(f"ready on {server.grpc_address}", file=sys.stderr)
        code = subprocess.call(
            [str(arguments.build / "bin/deform-client"), "segment", *map(str, pictures)]
            + ["--address", server.grpc_address, "--task", "panoptic", "--model", "shapes"]
            + ["--out", str(arguments.out)]
        )
    for path in sorted(arguments.out.glob("*.overlay.png")):
        print(f"  {path}")
    print(f"JSON: {arguments.out / 'results.json'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
