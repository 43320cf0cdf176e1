// What every operator's CPU backend needs to run its kernels: which instruction set, and scratch.
#pragma once

#include <ATen/Version.h>

#include <cstddef>
#include <memory>
#include <new>
#include <string>

namespace deform::ops {

// The best of a kernel's variants that this processor runs, or that ATEN_CPU_CAPABILITY allows:
// torch reads both.
template <class Kernel>
Kernel select_cpu_kernel(Kernel plain, Kernel avx2, Kernel avx512) {
  const std::string capability = at::get_cpu_capability();
  if (capability.find("AVX512") == 0) return avx512;
  if (capability.find("AVX2") == 0) return avx2;
  return plain;
}

// Of kernels::NAME_plain, NAME_avx2 and NAME_avx512, as far as this library was built with them.
#ifdef DEFORM_CPU_X86
#define DEFORM_SELECT_CPU_KERNEL(name)                              \
  ::deform::ops::select_cpu_kernel(::deform::kernels::name##_plain, \
                                   ::deform::kernels::name##_avx2,  \
                                   ::deform::kernels::name##_avx512)
#else
#define DEFORM_SELECT_CPU_KERNEL(name) (&::deform::kernels::name##_plain)
#endif

constexpr std::size_t kCpuScratchAlignment = 64;

struct AlignedDelete {
  void operator()(void* block) const {
    ::operator delete (block, std::align_val_t{kCpuScratchAlignment});
  }
};
using CpuScratch = std::unique_ptr<void, AlignedDelete>;

// Uninitialised memory for one call of a kernel.
inline CpuScratch cpu_scratch(std::size_t bytes) {
  return CpuScratch(::operator new (bytes, std::align_val_t{kCpuScratchAlignment}));
}

}  // namespace deform::ops
