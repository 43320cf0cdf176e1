#pragma once

namespace deform::client {

constexpr int kExitOk = 0;
// A picture failed, a service isn't serving, a model isn't there.
constexpr int kExitFailed = 1;
// `health`: no answer from the server.
constexpr int kExitUnreachable = 2;
// The command line can't be understood (EX_USAGE of sysexits.h).
constexpr int kExitUsage = 64;

}  // namespace deform::client
