# `deform_torch`: the CPU half of an installed PyTorch, found through the Python that has it.
#
# find_package(Torch) is left alone on purpose: without a GPU it fails unless an architecture list
# is set, it defines a dummy protobuf target, and it links CUDA into everything. The server opens
# the CUDA half at run time (docs/adr/0003-cuda-at-run-time.md).
include_guard()

set(DEFORM_PYTHON "" CACHE FILEPATH "Python interpreter whose torch is used")
if(NOT DEFORM_PYTHON)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(DEFORM_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  else()
    find_program(DEFORM_PYTHON python3 REQUIRED)
  endif()
endif()

set(DEFORM_TORCH_DIR "" CACHE PATH "Folder of the torch Python package (found when empty)")
if(NOT DEFORM_TORCH_DIR)
  execute_process(
    COMMAND ${DEFORM_PYTHON} -c
      "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
    OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "No torch in ${DEFORM_PYTHON}: run `./dev setup`, or set DEFORM_TORCH_DIR")
  endif()
  set(DEFORM_TORCH_DIR ${torch_dir} CACHE PATH "" FORCE)
endif()
if(NOT EXISTS ${DEFORM_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "DEFORM_TORCH_DIR=${DEFORM_TORCH_DIR} has no lib/libtorch_cpu.so")
endif()
message(STATUS "torch: ${DEFORM_TORCH_DIR}")

add_library(deform_torch INTERFACE)
target_include_directories(deform_torch SYSTEM INTERFACE
  ${DEFORM_TORCH_DIR}/include
  ${DEFORM_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(deform_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
target_link_libraries(deform_torch INTERFACE
  ${DEFORM_TORCH_DIR}/lib/libtorch_cpu.so ${DEFORM_TORCH_DIR}/lib/libc10.so)
# libtorch_cpu.so names libraries that only its own run path finds.
target_link_options(deform_torch INTERFACE
  -Wl,--allow-shlib-undefined -Wl,-rpath,${DEFORM_TORCH_DIR}/lib)

# ATen takes tens of seconds a unit to parse; users reuse this header with
#   target_precompile_headers(TARGET REUSE_FROM deform_torch_pch)
file(WRITE ${CMAKE_BINARY_DIR}/torch_pch.cc "")
add_library(deform_torch_pch OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/torch_pch.cc)
target_link_libraries(deform_torch_pch PRIVATE deform_torch deform_warnings)
target_precompile_headers(deform_torch_pch PRIVATE <ATen/ATen.h>)
