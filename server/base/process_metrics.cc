#include "base/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

namespace deform::base {
namespace {

std::optional<double> CpuSeconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::optional<double> ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  double total_pages = 0, resident_pages = 0;
  if (!(file >> total_pages >> resident_pages)) return std::nullopt;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::optional<double> OpenFileDescriptors() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error))
    ++count;
  if (error) return std::nullopt;
  return count - 1;  // one of them is the iterator's own
}

std::optional<double> StartTimeSeconds() {
  std::ifstream stat_file("/proc/self/stat");
  std::string stat;
  std::getline(stat_file, stat);
  // The second field is the program's name in brackets, which may hold spaces and brackets.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double start_ticks = 0;  // since boot
  if (!(fields >> start_ticks)) return std::nullopt;

  std::ifstream kernel_file("/proc/stat");
  for (std::string line; std::getline(kernel_file, line);) {
    if (line.rfind("btime ", 0) == 0)
      return std::stod(line.substr(6)) + start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return std::nullopt;
}

void Append(const char* name, const char* help, prometheus::MetricType type,
            std::optional<double> value, std::vector<prometheus::MetricFamily>& families) {
  if (!value) return;
  prometheus::ClientMetric metric;
  if (type == prometheus::MetricType::Counter) {
    metric.counter.value = *value;
  } else {
    metric.gauge.value = *value;
  }
  families.push_back({name, help, type, {metric}});
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  using prometheus::MetricType;
  std::vector<prometheus::MetricFamily> families;
  Append("process_cpu_seconds_total", "User and system CPU time spent", MetricType::Counter,
         CpuSeconds(), families);
  Append("process_resident_memory_bytes", "Resident memory", MetricType::Gauge, ResidentBytes(),
         families);
  Append("process_open_fds", "Open file descriptors", MetricType::Gauge, OpenFileDescriptors(),
         families);
  Append("process_start_time_seconds", "Start of the process since the Unix epoch",
         MetricType::Gauge, StartTimeSeconds(), families);
  return families;
}

}  // namespace deform::base
