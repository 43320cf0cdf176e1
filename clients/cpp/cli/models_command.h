#pragma once

#include "cli/command_line.h"
#include "cli/console.h"
#include "deform/segmentation/v1/segmentation.grpc.pb.h"

namespace deform::client {

// `deform-client models [NAME]`: a table of the models, or one with its labels. Gives the exit
// code.
int RunModels(const ModelsArguments& arguments, segmentation::v1::Segmentation::StubInterface& stub,
              Console& console);

}  // namespace deform::client
