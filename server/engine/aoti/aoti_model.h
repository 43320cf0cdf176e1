#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/aoti/network_archive.h"
#include "engine/model.h"

namespace deform::engine {

// Where and as what a network runs.
struct NetworkSpec {
  std::string device;     // "cpu" or "cuda:N"
  int device_index = -1;  // N, or -1
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  int max_batch = 1;
};

// Extracts the network of `archive` to a temporary folder, opens it and puts it on its device. The
// folder goes with the Model where that runs on a GPU, and before this returns otherwise. The
// Status' message is short, reads on from the file's name, and holds no path. Not thread-safe:
// networks are made one at a time.
absl::StatusOr<std::unique_ptr<Model>> MakeAotiModel(NetworkSpec spec, NetworkArchive& archive);

}  // namespace deform::engine
