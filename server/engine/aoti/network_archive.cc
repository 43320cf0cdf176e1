#include "engine/aoti/network_archive.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "engine/aoti/torch_exceptions.h"
#include "nlohmann/json.hpp"

namespace deform::engine {
namespace {

// Packages hold one network, under the name that torch gives it when none is asked for.
constexpr std::string_view kNetworkFolder = "data/aotinductor/model/";
constexpr std::string_view kConstantsFolder = "data/constants/";
constexpr size_t kLargestMetadataBytes = 1 << 20;
constexpr size_t kPieceBytes = 4 << 20;

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool StartsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

std::string_view FileName(std::string_view record) { return record.substr(record.rfind('/') + 1); }

// Source code serves people alone, and holds the paths of the machine that compiled it.
bool NeededAtRunTime(std::string_view record) {
  return !EndsWith(record, ".cpp") && !EndsWith(record, ".h") && !EndsWith(record, ".o");
}

}  // namespace

struct NetworkArchive::Reader {
  explicit Reader(const std::string& path) : stream(path) {}
  caffe2::serialize::PyTorchStreamReader stream;
};

NetworkArchive::NetworkArchive(std::unique_ptr<Reader> reader) : reader_(std::move(reader)) {}
NetworkArchive::NetworkArchive(NetworkArchive&&) noexcept = default;
NetworkArchive::~NetworkArchive() = default;

absl::StatusOr<NetworkArchive> NetworkArchive::Open(const std::string& path) {
  std::unique_ptr<Reader> reader;
  const absl::Status opened =
      CatchExceptions("archive_unreadable", "", [&] { reader = std::make_unique<Reader>(path); });
  if (!opened.ok()) return absl::FailedPreconditionError("is not a whole .pt2 archive");
  NetworkArchive archive(std::move(reader));
  DEFORM_RETURN_IF_ERROR(archive.ReadContents());
  return archive;
}

absl::Status NetworkArchive::ReadContents() {
  std::vector<std::string> all;
  const absl::Status listed =
      CatchExceptions("archive_unreadable", "", [&] { all = reader_->stream.getAllRecords(); });
  if (!listed.ok()) return absl::FailedPreconditionError("is not a whole .pt2 archive");
  for (std::string& record : all) {
    if (StartsWith(record, kNetworkFolder) || StartsWith(record, kConstantsFolder))
      records_.push_back(std::move(record));
  }
  const auto is_library = [](const std::string& record) {
    return StartsWith(record, kNetworkFolder) && EndsWith(record, ".so");
  };
  const auto libraries = std::count_if(records_.begin(), records_.end(), is_library);
  if (libraries == 0) return absl::FailedPreconditionError("holds no network");
  if (libraries > 1) return absl::FailedPreconditionError("holds more than one network");
  library_ = *std::find_if(records_.begin(), records_.end(), is_library);

  // "X.wrapper.so" has its metadata in "X.wrapper_metadata.json".
  const std::string metadata_record = library_.substr(0, library_.size() - 3) + "_metadata.json";
  std::string text;
  const absl::Status read = CatchExceptions("archive_unreadable", "", [&] {
    text.resize(
        std::min(reader_->stream.getRecordSize(metadata_record), kLargestMetadataBytes + 1));
    if (text.size() <= kLargestMetadataBytes)
      reader_->stream.getRecord(metadata_record, text.data(), text.size());
  });
  const nlohmann::json metadata = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!read.ok() || !metadata.is_object())
    return absl::FailedPreconditionError("doesn't say for which machine it was compiled");
  for (const auto& item : metadata.items()) {
    if (item.value().is_string()) metadata_[item.key()] = item.value().get<std::string>();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> NetworkArchive::Extract(const std::string& folder) {
  std::vector<char> piece(kPieceBytes);
  for (const std::string& record : records_) {
    if (!NeededAtRunTime(record)) continue;
    // Constants go beside the library, where the network looks for them.
    const std::string path = folder + "/" + std::string(FileName(record));
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wbx"),
                                                               std::fclose);
    if (!file) return absl::InternalError("can't be written to the temporary directory");
    bool written = true;
    const absl::Status read = CatchExceptions("archive_unreadable", "", [&] {
      const size_t size = reader_->stream.getRecordSize(record);
      auto pieces = reader_->stream.createChunkReaderIter(record, size, kPieceBytes);
      for (size_t done = 0; done < size && written;) {
        const size_t got = pieces.next(piece.data());
        if (got == 0) throw std::runtime_error("the record ends early");
        written = std::fwrite(piece.data(), 1, got, file.get()) == got;
        done += got;
      }
    });
    if (!read.ok()) return absl::FailedPreconditionError("is not a whole .pt2 archive");
    if (!written || std::fflush(file.get()) != 0)
      return absl::InternalError("doesn't fit in the temporary directory");
  }
  return folder + "/" + std::string(FileName(library_));
}

}  // namespace deform::engine
