#include "app/config_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "app/config_faults.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace deform::app {
namespace {

using config::v1::ServerConfig;
using google::protobuf::FieldDescriptor;
using nlohmann::json;

constexpr std::pair<const char*, const char*> kHelp[] = {
    {"model_repository", "folder of NAME/VERSION/ packages (model_repository)"},
    {"device", "auto, cpu, cuda or cuda:N (auto)"},
    {"op_library", "path of libdeform_ops.so (../lib beside the binary's folder)"},
    {"grpc_address", "HOST:PORT of the gRPC services (127.0.0.1:8001)"},
    {"admin_address", "HOST:PORT of /metrics, /healthz and /readyz (127.0.0.1:8002)"},
    {"insecure", "allow gRPC beyond loopback without TLS (false)"},
    {"ports_file", "file to write {\"grpc_port\", \"admin_port\"} to (none)"},
    {"max_batch", "pictures that run together (8)"},
    {"max_queue_delay", "longest wait for a fuller batch (0.002s)"},
    {"queue_capacity", "requests that may wait for a model (16 * max_batch)"},
    {"default_deadline", "deadline of calls that have none (30s)"},
    {"longest_deadline", "the most that a call's deadline counts (120s)"},
    {"max_pixels", "width * height of the largest picture (50000000)"},
    {"max_receive_bytes", "largest request (33554432)"},
    {"max_send_bytes", "largest answer (67108864)"},
    {"worker_threads", "threads that decode and post-process, 0: the CPU share (0)"},
    {"intra_op_threads", "threads of one run on the CPU, 0: the CPU share (0)"},
    {"drain_delay", "how long to serve on, not ready, after SIGTERM (10s)"},
    {"shutdown_grace", "how long accepted calls may take after that (125s)"},
    {"log_level", "debug, info, warning or error (info)"},
};

std::string Help(const std::string& name) {
  for (const auto& [setting, help] : kHelp) {
    if (name == setting) return help;
  }
  return "";
}

// What a value of the field looks like.
std::string Form(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a time in seconds such as \"0.002s\"";
    default:
      return "a text";
  }
}

// One field at a time: protobuf's parser stops at the first fault.
void ReadField(const std::string& name, const json& value, ServerConfig& config,
               ConfigFaults& faults) {
  const FieldDescriptor* field = ServerConfig::descriptor()->FindFieldByName(name);
  if (field == nullptr) return faults.Add(name, "there is no such setting");
  // protobuf would take "yes" for true.
  const bool is_switch = field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
  ServerConfig read;
  const std::string text = json{{name, value}}.dump(-1, ' ', false, json::error_handler_t::replace);
  if ((is_switch && !value.is_boolean()) ||
      !google::protobuf::util::JsonStringToMessage(text, &read).ok()) {
    return faults.Add(
        name,
        absl::StrCat(value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 100),
                     "; ", Form(*field), " is allowed"));
  }
  config.MergeFrom(read);
}

}  // namespace

absl::Status ReadConfigJson(const std::string& text, ServerConfig& config) {
  ConfigFaults faults;
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& error) {
    faults.Add("", absl::StrCat("the config file is no JSON: fault at byte ", error.byte));
    return faults.ToStatus();
  }
  if (!document.is_object()) {
    faults.Add("", "the config file is to hold one JSON object");
    return faults.ToStatus();
  }
  for (const auto& [name, value] : document.items()) ReadField(name, value, config, faults);
  return faults.ToStatus();
}

absl::Status ApplyFlags(const std::map<std::string, std::string>& flags, ServerConfig& config) {
  ConfigFaults faults;
  for (const auto& [name, text] : flags) {
    // proto3 JSON takes numbers and times as text; only true and false have to be bare.
    const FieldDescriptor* field = ServerConfig::descriptor()->FindFieldByName(name);
    const bool is_switch = field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
    const json value =
        is_switch && (text == "true" || text == "false") ? json(text == "true") : json(text);
    ReadField(name, value, config, faults);
  }
  return faults.ToStatus();
}

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  const auto* descriptor = ServerConfig::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor& field = *descriptor->field(i);
    settings.push_back({.name = field.name(),
                        .is_switch = field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL,
                        .help = Help(field.name())});
  }
  return settings;
}

}  // namespace deform::app
