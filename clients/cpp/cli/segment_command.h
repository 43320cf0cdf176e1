#pragma once

#include "base/clock.h"
#include "cli/command_line.h"
#include "cli/console.h"
#include "deform/segmentation/v1/segmentation.grpc.pb.h"

namespace deform::client {

// `deform-client segment`: sends the pictures' bytes as they are, writes results.json and, unless
// told not to, an overlay for each into the folder, prints what was found in each picture in the
// order of the pictures. A picture that fails is reported and the others go on. Gives the exit
// code.
int RunSegment(const SegmentArguments& arguments,
               segmentation::v1::Segmentation::StubInterface& stub, const base::Clock& clock,
               Console& console);

}  // namespace deform::client
