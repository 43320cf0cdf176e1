#include "base/logging.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <mutex>

namespace deform::base {
namespace {

std::atomic<LogLevel> lowest_level{LogLevel::kInfo};
std::mutex write_mutex;  // held for a whole line, which may take several writes

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

// Length of the well-formed UTF-8 sequence that `text` begins with, or 0 (Unicode 15, table 3-7).
size_t Utf8SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto continues = [&](size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xBF; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;   // no over-long forms
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;  // no surrogates
    return byte(1) >= low && byte(1) <= high && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;  // nothing above U+10FFFF
    return byte(1) >= low && byte(1) <= high && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
      continue;
    }
    const unsigned char c = text[0];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20 || c == 0x7F) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      out += escaped;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  out += '"';
}

void AppendValue(const LogValue& value, std::string& out) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    AppendJsonString(*text, out);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    out += std::to_string(*integer);
  } else if (const auto* boolean = std::get_if<bool>(&value)) {
    out += *boolean ? "true" : "false";
  } else if (const double number = std::get<double>(value); std::isfinite(number)) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number);
    out.append(digits, end.ptr);
  } else {
    out += "null";  // JSON has no NaN and no infinities
  }
}

void AppendTime(std::string& out) {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
  const std::time_t seconds = now_us / 1000000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  const size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  out.append(text, size);
  std::snprintf(text, sizeof(text), ".%06dZ", static_cast<int>(now_us % 1000000));
  out += text;
}

}  // namespace

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (level < lowest_level.load(std::memory_order_relaxed)) return;
  std::string line = "{\"time\":\"";
  AppendTime(line);
  line += "\",\"level\":\"";
  line += LevelName(level);
  line += "\",\"event\":";
  AppendJsonString(event, line);
  for (const auto& [name, value] : fields) {
    line += ',';
    AppendJsonString(name, line);
    line += ':';
    AppendValue(value, line);
  }
  line += "}\n";

  std::lock_guard lock(write_mutex);
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // nobody can be told that the log is gone
    rest.remove_prefix(written);
  }
}

void SetLogLevel(LogLevel level) { lowest_level.store(level, std::memory_order_relaxed); }

}  // namespace deform::base
