#include "engine/aoti/elf_file.h"

#include <elf.h>

#include <cstring>
#include <fstream>

namespace deform::engine {
namespace {

template <typename Header>
bool ReadAt(std::ifstream& file, uint64_t offset, Header* header) {
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(header), sizeof(*header));
  return file.good();
}

}  // namespace

bool IsWholeSharedLibrary(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<uint64_t>(file.tellg());
  Elf64_Ehdr header;
  if (!file || !ReadAt(file, 0, &header)) return false;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN || header.e_machine != EM_X86_64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > size)
    return false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadAt(file, header.e_phoff + i * sizeof(segment), &segment)) return false;
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset) return false;
  }
  return true;
}

}  // namespace deform::engine
