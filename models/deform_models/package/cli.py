"""The command `deform-package`."""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from deform_models.errors import PackagingError

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; 0 when it went well, 1 with a message on stderr when it was refused."""
    options = _parser().parse_args(arguments)
    # Threads that wait busily fight over few cores; read when torch is loaded, here and below.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGTERM, _leave)
    try:
        return options.run(options)
    except PackagingError as error:
        print(f"deform-package: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("deform-package: interrupted, nothing was written", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="deform-package", description="Packages models for deform-server."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="makes a package from a Hugging Face folder")
    build.add_argument("checkpoint", type=Path, help="config.json, model.safetensors, …")
    build.add_argument("--out", type=Path, required=True, help="model_repository/NAME/VERSION")
    build.add_argument("--name", type=_name, required=True, help="letters, digits, - and _")
    build.add_argument("--categories", type=Path, help="COCO categories with thing and stuff")
    build.add_argument("--description")
    build.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    build.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    build.add_argument("--cpu-isa", choices=("native", "avx2", "avx512"), default="native")
    build.add_argument("--mode", choices=("exact", "fit"), help="how pictures meet the size")
    build.add_argument("--height", type=_positive, help="pixels")
    build.add_argument("--width", type=_positive, help="pixels")
    build.add_argument("--max-batch", type=_positive, default=8)
    build.add_argument("--compat", choices=("DEFAULT", "HF"), default="DEFAULT")
    build.add_argument("--score-threshold", type=_share, default=0.5)
    build.add_argument("--mask-threshold", type=_share, default=0.5)
    build.add_argument("--overlap-threshold", type=_share, default=0.8)
    build.add_argument("--max-results", type=_positive, default=100)
    build.add_argument("--force", action="store_true", help="replaces a package at --out")
    build.add_argument(
        "--reuse", action="store_true", help="does nothing if the package at --out is up to date"
    )
    build.set_defaults(run=_build)
    inspect = commands.add_parser("inspect", help="prints what a package holds")
    inspect.add_argument("package", type=Path)
    inspect.set_defaults(run=_inspect)
    verify = commands.add_parser("verify", help="checks a package's schema and checksums")
    verify.add_argument("package", type=Path)
    verify.set_defaults(run=_verify)
    return parser


def _build(options: argparse.Namespace) -> int:
    from deform_models.package import manifest, toolchain
    from deform_models.package.build import BuildRequest, PostprocessDefaults, build_package

    # Remarks of the compiler stack about itself: the checks of this code say what matters.
    warnings.filterwarnings("ignore")
    logging.getLogger("torch").setLevel(logging.ERROR)
    warning = toolchain.choose_compiler()
    if warning:
        print(f"deform-package: {warning}", file=sys.stderr)
    if not manifest.schema_checked():
        print(
            "deform-package: note: jsonschema isn't installed, so package.json is checked for "
            "consistency but not against its JSON schema",
            file=sys.stderr,
        )
    began = time.monotonic()
    outcome = build_package(
        BuildRequest(
            checkpoint=options.checkpoint,
            out=options.out,
            name=options.name,
            categories=options.categories,
            device=options.device,
            dtype=options.dtype,
            cpu_isa=options.cpu_isa,
            mode=options.mode,
            height=options.height,
            width=options.width,
            max_batch=options.max_batch,
            description=options.description,
            postprocess=PostprocessDefaults(
                options.compat,
                options.score_threshold,
                options.mask_threshold,
                options.overlap_threshold,
                options.max_results,
            ),
            force=options.force,
            reuse=options.reuse,
        )
    )
    print(f"{options.out}: {outcome} in {time.monotonic() - began:.1f} s")
    return 0


def _inspect(options: argparse.Namespace) -> int:
    from deform_models.package import manifest
    from deform_models.package.describe import describe

    print(describe(manifest.read_manifest(options.package)))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from deform_models.package import manifest

    checked = manifest.verify_package(options.package)
    schema = "schema and " if manifest.schema_checked() else ""
    print(f"{options.package}: {schema}checksums hold, files: {', '.join(checked['files'])}")
    return 0


def _name(text: str) -> str:
    if not _NAME.match(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}: letters, digits, - and _, at most 128, starting with a letter or digit"
        )
    return text


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} isn't from 0 to 1")
    return value


def _leave(signal_number: int, _frame: FrameType | None) -> None:
    # An exception, so that a half-made package is cleared away.
    raise SystemExit(128 + signal_number)
