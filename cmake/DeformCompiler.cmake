# Compiler launcher, warnings and sanitizers shared by all targets.
include_guard()

find_program(DEFORM_CCACHE ccache)
if(DEFORM_CCACHE)
  foreach(language IN ITEMS C CXX CUDA)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        ${DEFORM_CCACHE})
  endforeach()
endif()

add_library(deform_warnings INTERFACE)
target_compile_options(deform_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter -Wnon-virtual-dtor -Woverloaded-virtual>)

if(DEFORM_SANITIZE)
  add_compile_options(
    $<$<COMPILE_LANGUAGE:CXX,C>:-fsanitize=${DEFORM_SANITIZE}>
    $<$<COMPILE_LANGUAGE:CXX,C>:-fno-omit-frame-pointer>)
  add_link_options($<$<LINK_LANGUAGE:CXX,C>:-fsanitize=${DEFORM_SANITIZE}>)
endif()
