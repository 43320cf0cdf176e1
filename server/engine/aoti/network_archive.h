#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace deform::engine {

// A `.pt2` archive that holds one AOTInductor network. It is looked into here, before torch sees
// any of it, because torch's own loader crashes on archives without a network, compiles source
// code that it finds in one, and leaves its temporary folder behind when it fails.
class NetworkArchive {
 public:
  // Reads the table of contents and the metadata; runs nothing. FAILED_PRECONDITION says what the
  // file is not; the message is short, reads on from the file's name, and holds no path.
  static absl::StatusOr<NetworkArchive> Open(const std::string& path);

  NetworkArchive(NetworkArchive&&) noexcept;
  ~NetworkArchive();

  // What AOTInductor notes about the machine that compiled it (AOTI_DEVICE_KEY, AOTI_CPU_ISA,
  // AOTI_COMPUTE_CAPABILITY, …), and what packaging added.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Writes what the network needs when it runs into `folder`, which is empty; returns the path of
  // its shared library there. INTERNAL when a file can't be written, FAILED_PRECONDITION when one
  // can't be read.
  absl::StatusOr<std::string> Extract(const std::string& folder);

 private:
  struct Reader;

  explicit NetworkArchive(std::unique_ptr<Reader> reader);
  absl::Status ReadContents();

  std::unique_ptr<Reader> reader_;
  std::vector<std::string> records_;  // of the network, with their folder in the archive
  std::string library_;               // the one of them that is a shared library
  std::map<std::string, std::string> metadata_;
};

}  // namespace deform::engine
