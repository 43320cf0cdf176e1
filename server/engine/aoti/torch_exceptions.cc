#include "engine/aoti/torch_exceptions.h"

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "base/logging.h"

namespace deform::engine {

absl::Status StatusOfCurrentException(std::string_view event, std::string_view message) {
  std::string text = "unknown exception";
  try {
    throw;
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
  }
  base::Log(base::LogLevel::kError, event, {{"error", text}});
  return absl::InternalError(absl::string_view(message.data(), message.size()));
}

}  // namespace deform::engine
