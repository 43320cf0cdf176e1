"""The compiler behind packages: which one, for which instructions, linked how."""

from __future__ import annotations

import subprocess

import pytest
from deform_models.errors import PackagingError
from deform_models.package import toolchain
from torch._inductor import cpp_builder, cpu_vec_isa


def shared_object(folder, *flags):
    source = folder / "model.cpp"
    source.write_text(
        '#include <string>\nextern "C" int size(const char* s) '
        '{ return std::string(s, 40).append("x").size(); }\n'
    )
    library = folder / "model.so"
    subprocess.run(
        ["/usr/bin/g++", "-shared", "-fPIC", str(source), "-o", str(library), *flags], check=True
    )
    return library


def test_a_library_that_takes_the_runtime_from_the_system_is_accepted(tmp_path):
    toolchain.check_shared_object(shared_object(tmp_path))


def test_a_library_with_its_own_c_plus_plus_runtime_is_refused(tmp_path):
    with pytest.raises(PackagingError, match="statically"):
        toolchain.check_shared_object(shared_object(tmp_path, "-static-libstdc++"))


def test_a_library_that_asks_for_torch_by_name_is_refused(tmp_path):
    stub = tmp_path / "libtorch_cpu.so"
    subprocess.run(["/usr/bin/g++", "-shared", "-x", "c++", "/dev/null", "-o", stub], check=True)
    flags = ("-Wl,--no-as-needed", f"-L{tmp_path}", "-ltorch_cpu")
    with pytest.raises(PackagingError, match=r"asks for libtorch_cpu.so by name"):
        toolchain.check_shared_object(shared_object(tmp_path, *flags))


def test_the_distributions_compiler_is_chosen_where_none_is_named(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    assert toolchain.choose_compiler() is None
    assert toolchain.os.environ["CXX"] == "/usr/bin/g++"
    assert toolchain.os.environ["CC"] == "/usr/bin/gcc"


def test_another_compiler_is_warned_about_and_a_missing_one_refused(monkeypatch, tmp_path):
    other = tmp_path / "g++"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    assert "not the distribution's" in toolchain.choose_compiler()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(PackagingError, match="no compiler no-such-compiler"):
        toolchain.choose_compiler()


@pytest.mark.parametrize(("isa", "level"), [("avx2", "x86-64-v3"), ("avx512", "x86-64-v4")])
def test_code_is_made_for_the_named_instructions_not_for_this_processor(isa, level):
    with toolchain.instruction_set(isa):
        flags, _ = cpp_builder._get_optimization_cflags("/usr/bin/g++")
        assert f"march={level}" in flags and "march=native" not in flags
        picked = cpu_vec_isa.pick_vec_isa()
        assert str(picked) == isa
        # The level has to hold every instruction that the vector code is told it may use.
        command = ["/usr/bin/g++", f"-march={level}", "-Q", "--help=target"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        enabled = {line.split()[0] for line in text.splitlines() if "[enabled]" in line}
        assert set(picked.build_arch_flags().split()) <= enabled
    flags, _ = cpp_builder._get_optimization_cflags("/usr/bin/g++")
    assert "march=native" in flags
