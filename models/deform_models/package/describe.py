"""A package for a person to read."""

from __future__ import annotations

from typing import Any


def describe(manifest: dict[str, Any]) -> str:
    """A table of what a package holds; `manifest` has been checked."""
    preprocess, postprocess = manifest["preprocess"], manifest["postprocess"]
    labels = manifest["labels"]
    things = sum(label["is_thing"] is True for label in labels)
    stuff = sum(label["is_thing"] is False for label in labels)
    known = f" ({things} things, {stuff} stuff)" if things + stuff else ""
    rows = [
        ("name", manifest["name"]),
        ("architecture", manifest["architecture"]),
        ("description", manifest.get("description", "–")),
        ("tasks", ", ".join(manifest["tasks"])),
        ("labels", f"{len(labels)}{known}: {_names(labels)}"),
        (
            "picture",
            f"{preprocess['mode']} {preprocess['height']}×{preprocess['width']}, "
            f"mean {_numbers(preprocess['mean'])}, std {_numbers(preprocess['std'])}",
        ),
        (
            "thresholds",
            f"score {postprocess['score_threshold']:g}, mask {postprocess['mask_threshold']:g}, "
            f"overlap {postprocess['overlap_mask_area_threshold']:g}, "
            f"at most {postprocess['max_results']}, compat {postprocess['compat']}",
        ),
        ("queries, classes", f"{manifest['num_queries']}, {manifest['num_classes']}"),
        ("batch", f"1 to {manifest['max_batch']}"),
    ]
    rows += [("input", _tensor(tensor)) for tensor in manifest["inputs"]]
    rows += [("output", _tensor(tensor)) for tensor in manifest["outputs"]]
    for artifact in manifest["artifacts"]:
        machine = artifact["isa"] or f"sm_{artifact['sm']}"
        rows.append(("artifact", artifact["file"]))
        rows.append(
            (
                "",
                f"{artifact['device']} {machine}, {artifact['dtype']}, torch {artifact['torch']}, "
                f"calls {', '.join(artifact['ops']) or 'no operators'}",
            )
        )
        rows.append(
            ("", f"{artifact['bytes'] / 1e6:.1f} MB, compiled in {artifact['compile_seconds']} s")
        )
    for report in manifest["parity"]:
        batches = ", ".join(map(str, report["batch"]))
        rows.append(("parity", f"batches {batches}: {parity_line(report)}"))
    width = max(len(key) for key, _ in rows)
    return "\n".join(f"{key:<{width}}  {value}" for key, value in rows)


def parity_line(report: dict[str, Any]) -> str:
    """The largest difference of each output, in words."""
    rows = [f"{name} {value:.2g}" for name, value in report["max_abs_difference"].items()]
    if report.get("threshold_sensitive"):
        rows.append(f"{report['threshold_sensitive']} of {report['pictures']} at a threshold")
    return "largest differences: " + ", ".join(rows)


def _names(labels: list[dict[str, Any]]) -> str:
    more = f", … {len(labels) - 12} more" if len(labels) > 12 else ""
    return ", ".join(label["name"] for label in labels[:12]) + more


def _numbers(values: list[float]) -> str:
    return "/".join(f"{value:.3g}" for value in values)


def _tensor(tensor: dict[str, Any]) -> str:
    sides = ", ".join("B" if side == -1 else str(side) for side in tensor["shape"])
    return f"{tensor['name']} {tensor['dtype']} [{sides}]"
