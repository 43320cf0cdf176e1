#include "engine/sha256.h"

#include <openssl/evp.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"

namespace deform::engine {
namespace {

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }

  void Update(const void* bytes, size_t size) { EVP_DigestUpdate(context_.get(), bytes, size); }

  std::string Hex() {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), bytes, &size);
    return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), size));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string Sha256(std::string_view bytes) {
  Digest digest;
  digest.Update(bytes.data(), bytes.size());
  return digest.Hex();
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) return absl::NotFoundError("the file can't be opened");
  Digest digest;
  std::vector<char> piece(1 << 20);
  while (const size_t size = std::fread(piece.data(), 1, piece.size(), file.get()))
    digest.Update(piece.data(), size);
  if (std::ferror(file.get())) return absl::InternalError("the file can't be read");
  return digest.Hex();
}

}  // namespace deform::engine
