#include "app/config.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "app/config_reader.h"
#include "base/error.h"

namespace deform::app {
namespace {

using config::v1::ServerConfig;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Fields = std::set<std::string>;

const ConfigSurroundings kSurroundings = {.binary_folder = "/opt/deform/bin", .cpu_share = 6};

ServerConfig FromJson(const std::string& json) {
  ServerConfig message;
  const absl::Status status = ReadConfigJson(json, message);
  EXPECT_TRUE(status.ok()) << status;
  return message;
}

absl::StatusOr<Config> Resolve(const std::string& json) {
  return ResolveConfig(FromJson(json), kSurroundings);
}

Fields FaultyFields(const absl::Status& status) {
  Fields fields;
  const auto details = base::GetErrorDetails(status);
  if (!details) return fields;
  for (const auto& violation : details->field_violations) fields.insert(violation.field);
  return fields;
}

TEST(ConfigTest, NothingSetGivesTheDocumentedDefaults) {
  const auto config = Resolve("{}");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model_repository, "model_repository");
  EXPECT_EQ(config->device, "auto");
  EXPECT_EQ(config->op_library, "/opt/deform/bin/../lib/libdeform_ops.so");
  EXPECT_EQ(config->grpc_address.host, "127.0.0.1");
  EXPECT_EQ(config->grpc_address.port, 8001);
  EXPECT_EQ(config->admin_address.port, 8002);
  EXPECT_EQ(config->ports_file, "");
  EXPECT_EQ(config->max_batch, 8);
  EXPECT_EQ(config->max_queue_delay, milliseconds(2));
  EXPECT_EQ(config->queue_capacity, 128);
  EXPECT_EQ(config->default_deadline, seconds(30));
  EXPECT_EQ(config->longest_deadline, seconds(120));
  EXPECT_EQ(config->max_pixels, 50'000'000);
  EXPECT_EQ(config->max_receive_bytes, 32 << 20);
  EXPECT_EQ(config->max_send_bytes, 64 << 20);
  EXPECT_EQ(config->worker_threads, 6);
  EXPECT_EQ(config->intra_op_threads, 0);
  EXPECT_EQ(config->drain_delay, seconds(10));
  EXPECT_EQ(config->shutdown_grace, seconds(125));
  EXPECT_EQ(config->log_level, base::LogLevel::kInfo);
}

TEST(ConfigTest, WhatIsSetIsTaken) {
  const auto config = Resolve(R"({
    "model_repository": "m", "device": "cuda", "op_library": "", "grpc_address": "[::1]:0",
    "admin_address": "0.0.0.0:9", "ports_file": "p", "max_batch": 4, "max_queue_delay": "0.0005s",
    "default_deadline": "1s", "longest_deadline": "1s", "max_pixels": "100",
    "max_receive_bytes": 2048, "max_send_bytes": 4096, "worker_threads": 3, "intra_op_threads": 2,
    "drain_delay": "0s", "shutdown_grace": "0s", "log_level": "error"})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model_repository, "m");
  EXPECT_EQ(config->device, "cuda:0");
  EXPECT_EQ(config->op_library, "");
  EXPECT_EQ(config->grpc_address.host, "::1");
  EXPECT_EQ(config->grpc_address.port, 0);
  EXPECT_EQ(config->admin_address.host, "0.0.0.0");
  EXPECT_EQ(config->ports_file, "p");
  EXPECT_EQ(config->max_batch, 4);
  EXPECT_EQ(config->max_queue_delay, std::chrono::microseconds(500));
  EXPECT_EQ(config->queue_capacity, 64);  // follows max_batch
  EXPECT_EQ(config->max_pixels, 100);
  EXPECT_EQ(config->max_receive_bytes, 2048);
  EXPECT_EQ(config->max_send_bytes, 4096);
  EXPECT_EQ(config->worker_threads, 3);
  EXPECT_EQ(config->intra_op_threads, 2);
  EXPECT_EQ(config->drain_delay, seconds(0));
  EXPECT_EQ(config->shutdown_grace, seconds(0));
  EXPECT_EQ(config->log_level, base::LogLevel::kError);
}

TEST(ConfigTest, AllFaultsAreToldTogether) {
  const auto config = Resolve(R"({
    "model_repository": "", "device": "tpu", "grpc_address": "8001", "admin_address": "::1:2",
    "max_batch": 0, "max_queue_delay": "-1s", "queue_capacity": 0, "default_deadline": "0s",
    "longest_deadline": "7200s", "max_pixels": 0, "max_receive_bytes": "4294967296",
    "max_send_bytes": 1, "worker_threads": 100000, "drain_delay": "90000s", "log_level": "loud"})");
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FaultyFields(config.status()),
            (Fields{"model_repository", "device", "grpc_address", "admin_address", "max_batch",
                    "max_queue_delay", "queue_capacity", "default_deadline", "longest_deadline",
                    "max_pixels", "max_receive_bytes", "max_send_bytes", "worker_threads",
                    "drain_delay", "log_level"}));
  for (const std::string& field : FaultyFields(config.status())) {
    EXPECT_NE(config.status().message().find(field + ": "), absl::string_view::npos) << field;
  }
}

TEST(ConfigTest, AddressesAreAHostAndAPort) {
  for (const char* address : {"", ":1", "localhost", "localhost:", "localhost:x", "localhost:65536",
                              "localhost:-1", "::1:80", "[::1]", "[]:1", "a]:1"}) {
    const auto config = ResolveConfig(
        FromJson(R"({"admin_address": ")" + std::string(address) + "\"}"), kSurroundings);
    EXPECT_EQ(FaultyFields(config.status()), Fields{"admin_address"}) << address;
  }
}

TEST(ConfigTest, DevicesAreKnownOnes) {
  for (const char* device : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"}) {
    const auto config =
        ResolveConfig(FromJson(R"({"device": ")" + std::string(device) + "\"}"), kSurroundings);
    EXPECT_EQ(FaultyFields(config.status()), Fields{"device"}) << device;
  }
  EXPECT_EQ(Resolve(R"({"device": "cuda:3"})")->device, "cuda:3");
}

TEST(ConfigTest, GrpcStaysOnLoopbackUnlessAllowed) {
  for (const char* host : {"0.0.0.0", "[::]", "192.168.0.1", "example.org", "128.0.0.1"}) {
    const std::string address = std::string(host) + ":8001";
    const auto refused = Resolve(R"({"grpc_address": ")" + address + "\"}");
    EXPECT_EQ(FaultyFields(refused.status()), Fields{"grpc_address"}) << host;
    EXPECT_NE(refused.status().message().find("insecure"), absl::string_view::npos);
    EXPECT_TRUE(Resolve(R"({"insecure": true, "grpc_address": ")" + address + "\"}").ok()) << host;
  }
  for (const char* host : {"localhost", "127.0.0.1", "127.255.0.9", "[::1]"}) {
    EXPECT_TRUE(Resolve(R"({"grpc_address": ")" + std::string(host) + ":0\"}").ok()) << host;
  }
}

TEST(ConfigTest, ThePortsAreTwo) {
  const auto same = Resolve(R"({"grpc_address": "localhost:7", "admin_address": "localhost:7"})");
  EXPECT_EQ(FaultyFields(same.status()), Fields{"admin_address"});
  EXPECT_TRUE(Resolve(R"({"grpc_address": "localhost:0", "admin_address": "localhost:0"})").ok());
}

TEST(ConfigTest, TheDefaultDeadlineIsWithinTheLongest) {
  const auto config = Resolve(R"({"default_deadline": "3s", "longest_deadline": "2s"})");
  EXPECT_EQ(FaultyFields(config.status()), Fields{"default_deadline"});
}

TEST(ReadConfigJsonTest, UnknownSettingsAndWrongTypesAreAllNamed) {
  ServerConfig message;
  const absl::Status status = ReadConfigJson(
      R"({"max_batches": 3, "maxBatch": 3, "max_batch": "many", "insecure": "yes",
          "max_queue_delay": 2, "device": [1], "worker_threads": -1, "queue_capacity": 7})",
      message);
  EXPECT_EQ(FaultyFields(status), (Fields{"max_batches", "maxBatch", "max_batch", "insecure",
                                          "max_queue_delay", "device", "worker_threads"}));
  EXPECT_EQ(message.queue_capacity(), 7u);  // what is right is read all the same
}

TEST(ReadConfigJsonTest, WhatIsNoJsonObjectIsRefused) {
  for (const char* text : {"", "{", "[]", "3", "null", R"({"max_batch": 1)", "max_batch: 1"}) {
    ServerConfig message;
    EXPECT_FALSE(ReadConfigJson(text, message).ok()) << text;
  }
}

TEST(ApplyFlagsTest, FlagsTakeTextAndWinOverTheFile) {
  ServerConfig message = FromJson(R"({"max_batch": 2, "device": "cpu"})");
  const absl::Status status = ApplyFlags({{"max_batch", "16"},
                                          {"insecure", "true"},
                                          {"max_queue_delay", "0.004s"},
                                          {"max_pixels", "123456789012"}},
                                         message);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(message.max_batch(), 16u);
  EXPECT_EQ(message.device(), "cpu");
  EXPECT_TRUE(message.insecure());
  EXPECT_EQ(message.max_queue_delay().nanos(), 4'000'000);
  EXPECT_EQ(message.max_pixels(), 123456789012u);
}

TEST(ApplyFlagsTest, FlagsOfAWrongTypeAreAllNamed) {
  ServerConfig message;
  EXPECT_EQ(FaultyFields(ApplyFlags(
                {{"max_batch", "x"}, {"insecure", "maybe"}, {"drain_delay", "2ms"}}, message)),
            (Fields{"max_batch", "insecure", "drain_delay"}));
}

TEST(SettingsTest, EverySettingIsExplained) {
  const auto settings = Settings();
  EXPECT_EQ(settings.size(), static_cast<size_t>(ServerConfig::descriptor()->field_count()));
  for (const Setting& setting : settings) EXPECT_NE(setting.help, "") << setting.name;
}

}  // namespace
}  // namespace deform::app
