#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace deform::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One value of a log line. Strings are escaped as JSON; invalid UTF-8 becomes U+FFFD.
using LogValue = std::variant<std::string, int64_t, double, bool>;
using LogField = std::pair<std::string_view, LogValue>;

// Writes one JSON object on one line to standard error:
//   {"time":"2026-01-31T12:00:00.123456Z","level":"info","event":"request", …fields}
// `event` is a stable snake_case name. Thread-safe; a line is never torn.
void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

// Lines below `level` are not written. Default: kInfo.
void SetLogLevel(LogLevel level);

}  // namespace deform::base
