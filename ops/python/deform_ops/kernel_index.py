"""Ready kernels from an index on a web server, for where nothing can be compiled at run time.

``DEFORM_OPS_INDEX`` names a folder, which the library reads itself, or a URL, which is fetched
here. An index is a file ``SHA256SUMS`` (a digest and a file name on each line) and the files that
it lists, ``NAME-smNN-DIGEST.cubin``.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import torch

from deform_ops.errors import KernelDownloadError

__all__ = ["SUMS", "digest_of", "fetch_index", "use_index", "write_whole"]

_VARIABLE = "DEFORM_OPS_INDEX"
_INSECURE = "DEFORM_OPS_ALLOW_INSECURE"
SUMS = "SHA256SUMS"
"""The manifest's file name."""
_FILE_NAME = re.compile(r"[\w.-]+-sm(\d+)-[0-9a-f]+\.cubin")
_LONGEST_WAIT_S = 30
_LARGEST_FILE_BYTES = 64 << 20


def use_index() -> None:
    """Fetches the index that ``DEFORM_OPS_INDEX`` is a URL of, and lets the variable name the copy.

    Does nothing where it is no URL, or there is no GPU. Has to come before the library's first
    question about run-time kernels, since it reads the variable once.

    Raises:
        KernelDownloadError: if the index can't be had.
    """
    url = os.environ.get(_VARIABLE, "")
    if "://" not in url or not torch.cuda.is_available():
        return
    capabilities = map(torch.cuda.get_device_capability, range(torch.cuda.device_count()))
    architectures = {major * 10 + minor for major, minor in capabilities}
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    folder = fetch_index(url, _cache_folder() / "index" / digest, architectures)
    os.environ[_VARIABLE] = str(folder)


def fetch_index(url: str, folder: Path, architectures: Iterable[int]) -> Path:
    """Copies an index's files for some GPUs to a folder; files that are there already stay.

    Args:
        url: of the index, ``https://``; ``http://`` with ``DEFORM_OPS_ALLOW_INSECURE=1`` only,
            since the sums are worth nothing where anyone on the way can change them.
        folder: made if need be. Any number of processes may fill it at the same time.
        architectures: compute capabilities times 10, as in 90.

    Returns:
        ``folder``.

    Raises:
        KernelDownloadError: naming the variable to unset, if the URL isn't allowed, a file can't be
            fetched or written, or isn't what the sums say.
    """
    wanted = set(architectures)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = []
        for line in _get(url, SUMS).decode().splitlines():
            digest, _, name = line.partition(" ")
            name = name.strip().removeprefix("*")
            match = _FILE_NAME.fullmatch(name)
            if match is None or int(match[1]) not in wanted:
                continue
            path = folder / name
            if not (path.is_file() and digest_of(path.read_bytes()) == digest):
                content = _get(url, name)
                if digest_of(content) != digest:
                    raise ValueError(f"{name} isn't what {SUMS} says")
                write_whole(path, content)
            kept.append(f"{digest}  {name}\n")
        write_whole(folder / SUMS, "".join(kept).encode())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise KernelDownloadError(
            f"the kernel index {url} can't be used: {error}; unset {_VARIABLE} to do without it"
        ) from error
    return folder


def _cache_folder() -> Path:
    """Where the library keeps its kernels, too."""
    named = os.environ.get("DEFORM_OPS_CACHE_DIR")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "deform_ops"


def _check_scheme(url: str) -> None:
    scheme = urlsplit(url).scheme
    if scheme == "https" or (scheme == "http" and os.environ.get(_INSECURE) == "1"):
        return
    hint = f"; {_INSECURE}=1 allows plain HTTP" if scheme == "http" else ""
    raise ValueError(f"{scheme}:// isn't https://{hint}")


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only where its target might have been asked for directly."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: object,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _get(url: str, name: str) -> bytes:
    _check_scheme(url)
    opener = urllib.request.build_opener(_CheckedRedirects())
    with opener.open(f"{url.rstrip('/')}/{name}", timeout=_LONGEST_WAIT_S) as answer:
        content: bytes = answer.read(_LARGEST_FILE_BYTES + 1)
    if len(content) > _LARGEST_FILE_BYTES:
        raise ValueError(f"{name} is larger than {_LARGEST_FILE_BYTES} bytes")
    return content


def digest_of(content: bytes) -> str:
    """SHA-256, as the manifest has it."""
    return hashlib.sha256(content).hexdigest()


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file that appears whole: another process may be reading it."""
    handle, aside = tempfile.mkstemp(dir=path.parent)
    try:
        os.fchmod(handle, 0o644)  # as other files, for a server to read
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(aside, path)
    except OSError:
        Path(aside).unlink(missing_ok=True)
        raise
