"""Ready kernels from an index behind a URL: what is fetched, and what is refused."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import threading
from pathlib import Path

import pytest
import torch
from deform_ops import kernel_index
from deform_ops.errors import KernelDownloadError

FILES = {
    "msda-sm90-00ff.cubin": b"for Hopper",
    "attn-sm90-0123.cubin": b"as well",
    "msda-sm80-00ff.cubin": b"for Ampere",
}


def sums(files: dict[str, bytes]) -> str:
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder and remembers what was asked for."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/kernels"


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path.rsplit("/", 1)[1])
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", f"ftp://127.0.0.1{self.path}")
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def index(tmp_path) -> Path:
    folder = tmp_path / "served" / "kernels"
    folder.mkdir(parents=True)
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    (folder / "SHA256SUMS").write_text(sums(FILES))
    return folder


@pytest.fixture
def server(index, monkeypatch):
    monkeypatch.setenv("DEFORM_OPS_ALLOW_INSECURE", "1")
    with Server(index.parent) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_files_for_the_gpus_at_hand_are_copied_with_their_sums(server, tmp_path):
    copy = kernel_index.fetch_index(server.url + "/", tmp_path / "copy", [90])
    names = ["msda-sm90-00ff.cubin", "attn-sm90-0123.cubin"]
    assert {path.name for path in copy.iterdir()} == {*names, "SHA256SUMS"}
    assert (copy / "SHA256SUMS").read_text() == sums({name: FILES[name] for name in names})
    assert all((copy / name).read_bytes() == FILES[name] for name in names)


def test_files_that_are_there_are_not_fetched_again_and_damaged_ones_are(server, tmp_path):
    copy = kernel_index.fetch_index(server.url, tmp_path / "copy", [90])
    (copy / "attn-sm90-0123.cubin").write_bytes(b"damaged")
    server.asked.clear()
    kernel_index.fetch_index(server.url, copy, [90])
    assert server.asked == ["SHA256SUMS", "attn-sm90-0123.cubin"]
    assert (copy / "attn-sm90-0123.cubin").read_bytes() == FILES["attn-sm90-0123.cubin"]


def test_file_that_differs_from_its_sum_is_refused_and_not_kept(server, index, tmp_path):
    (index / "msda-sm90-00ff.cubin").write_bytes(b"something else")
    with pytest.raises(
        KernelDownloadError, match="msda-sm90-00ff.cubin isn't what SHA256SUMS says"
    ):
        kernel_index.fetch_index(server.url, tmp_path / "copy", [90])
    assert list((tmp_path / "copy").iterdir()) == []


def test_listed_name_that_leaves_the_folder_is_passed_over(server, index, tmp_path):
    bad = {"../msda-sm90-00ff.cubin": b"up", "msda-sm90-00ff.cubin/../x": b"y", "readme": b"z"}
    (index / "SHA256SUMS").write_text(sums(bad))
    copy = kernel_index.fetch_index(server.url, tmp_path / "copy", [90])
    assert server.asked == ["SHA256SUMS"]
    assert [path.name for path in copy.iterdir()] == ["SHA256SUMS"]


def test_plain_http_is_refused_unless_allowed(server, monkeypatch, tmp_path):
    monkeypatch.delenv("DEFORM_OPS_ALLOW_INSECURE")
    with pytest.raises(KernelDownloadError, match="DEFORM_OPS_ALLOW_INSECURE=1 allows plain HTTP"):
        kernel_index.fetch_index(server.url, tmp_path / "copy", [90])
    assert server.asked == []


@pytest.mark.parametrize("scheme", ["ftp", "file"])
def test_other_schemes_are_refused(scheme, server, tmp_path):
    with pytest.raises(KernelDownloadError, match=f"{scheme}:// isn't https"):
        kernel_index.fetch_index(f"{scheme}://127.0.0.1/x", tmp_path / "copy", [90])


def test_redirect_to_what_would_be_refused_is_refused(server, tmp_path):
    url = server.url.replace("/kernels", "/moved")
    with pytest.raises(KernelDownloadError, match="ftp:// isn't https"):
        kernel_index.fetch_index(url, tmp_path / "copy", [90])


def test_missing_index_names_the_variable_to_unset(server, tmp_path):
    with pytest.raises(KernelDownloadError, match="404.*unset DEFORM_OPS_INDEX"):
        kernel_index.fetch_index(server.url + "/nowhere", tmp_path / "copy", [90])


def test_variable_names_the_copy_once_it_is_fetched(server, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: [(9, 0), (8, 0)][index])
    monkeypatch.setenv("DEFORM_OPS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DEFORM_OPS_INDEX", server.url)
    kernel_index.use_index()
    folder = Path(os.environ["DEFORM_OPS_INDEX"])
    assert folder.parent == tmp_path / "cache" / "index"
    assert {path.name for path in folder.iterdir()} == {*FILES, "SHA256SUMS"}
    server.asked.clear()
    kernel_index.use_index()
    assert server.asked == []


@pytest.mark.parametrize("value", [None, "/a/folder"])
def test_folder_is_left_to_the_library(value, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    if value is None:
        monkeypatch.delenv("DEFORM_OPS_INDEX", raising=False)
    else:
        monkeypatch.setenv("DEFORM_OPS_INDEX", value)
    kernel_index.use_index()
    assert os.environ.get("DEFORM_OPS_INDEX") == value
