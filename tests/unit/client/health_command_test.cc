#include "fake_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::client {
namespace {

using grpc::health::v1::HealthCheckResponse;
using testing::HasSubstr;

TEST(HealthCommand, ExitsWith0WhenServing) {
  FakeServer server;
  server.health().Set("", HealthCheckResponse::SERVING);
  const ClientRun run = RunClient({"health", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "SERVING\n");
}

TEST(HealthCommand, ExitsWith1WhenNotServing) {
  FakeServer server;
  server.health().Set("", HealthCheckResponse::SERVING);
  server.health().Set("models/shapes", HealthCheckResponse::NOT_SERVING);
  const ClientRun run = RunClient({"health", "models/shapes", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, "NOT_SERVING\n");
}

TEST(HealthCommand, ExitsWith1WhenTheServiceIsUnknown) {
  FakeServer server;
  const ClientRun run = RunClient({"health", "models/nothing", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, "SERVICE_UNKNOWN\n");
}

TEST(HealthCommand, ExitsWith2WhenNobodyAnswers) {
  std::string address;
  { address = FakeServer().address(); }
  const ClientRun run = RunClient({"health", "--address", address});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("UNAVAILABLE"));
  EXPECT_EQ(run.out, "");
}

TEST(HealthCommand, WatchPrintsEachChangeUntilTheServerGoes) {
  FakeServer server;
  server.health().SetChanges({HealthCheckResponse::NOT_SERVING, HealthCheckResponse::SERVING,
                              HealthCheckResponse::NOT_SERVING});
  const ClientRun run = RunClient({"health", "--watch", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "NOT_SERVING\nSERVING\nNOT_SERVING\n");
  EXPECT_THAT(run.err, HasSubstr("going away"));
}

}  // namespace
}  // namespace deform::client
