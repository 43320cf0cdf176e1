# cmake -DROOT=kernels -DOUTPUT=FILE -P embed_sources.cmake: the device code as text inside the
# library, for the run-time compiler.
file(GLOB device_code RELATIVE ${ROOT} ${ROOT}/*/*.cuh ${ROOT}/*/*_cuda.h ${ROOT}/*/*_grid.h
  ${ROOT}/common/dtype.h)
list(FILTER device_code EXCLUDE REGEX "^common/.*_cuda.h")  # host code
file(GLOB replacements RELATIVE ${ROOT}/common/rtc ${ROOT}/common/rtc/*.h)
set(entries "")
function(embed name path)
  file(READ ${path} text)
  if(text MATCHES "\\)deform\"")
    message(FATAL_ERROR "${path} ends the literal that it is embedded as")
  endif()
  set(entries "${entries}      {\"${name}\", R\"deform(${text})deform\"},\n" PARENT_SCOPE)
endfunction()
foreach(name IN LISTS device_code)
  embed(${name} ${ROOT}/${name})
endforeach()
foreach(name IN LISTS replacements)
  embed(${name} ${ROOT}/common/rtc/${name})
endforeach()
file(WRITE ${OUTPUT}.new "// Made by embed_sources.cmake.
#include \"jit/embedded_sources.h\"

namespace deform::ops {

const std::vector<std::pair<std::string, std::string>>& embedded_sources() {
  static const std::vector<std::pair<std::string, std::string>> sources = {
${entries}  };
  return sources;
}

}  // namespace deform::ops
")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUTPUT}.new ${OUTPUT})
