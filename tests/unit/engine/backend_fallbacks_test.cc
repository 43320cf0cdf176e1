#include "engine/aoti/backend_fallbacks.h"

#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

namespace deform::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Texts = std::vector<std::string>;
using Counts = std::tuple<Texts, Texts, Texts, Texts, std::vector<int64_t>>;

Counts& Counted() {
  static Counts counts;
  return counts;
}
Counts Read() { return Counted(); }

std::string Exposed() {
  return prometheus::TextSerializer().Serialize(BackendFallbacks().Collect());
}

TEST(BackendFallbacks, WithoutAnOpLibraryThereIsNothing) {
  EXPECT_THAT(BackendFallbacks().Collect(), IsEmpty());
}

// With an op library, as far as this looks at it.
TEST(BackendFallbacks, CountsOfTheOpLibraryAreOneSeriesForEachReason) {
  torch::Library library(torch::Library::FRAGMENT, "deform", std::nullopt, __FILE__, __LINE__);
  library.def("fallback_counts() -> (str[] ops, str[] from_, str[] to, str[] reasons, int[] calls)",
              Read);
  EXPECT_THAT(Exposed(), Not(HasSubstr("deform_backend_fallbacks_total{")));
  Counted() = {
      {"msda", "conv"}, {"cuda", "cuda"}, {"jit", "jit"}, {"disabled", "SM \"7.5\""}, {3, 40}};
  EXPECT_THAT(Exposed(),
              HasSubstr("deform_backend_fallbacks_total{op=\"msda\",from=\"cuda\",to=\"jit\","
                        "reason=\"disabled\"} 3"));
  EXPECT_THAT(Exposed(), HasSubstr("reason=\"SM \\\"7.5\\\"\"} 40"));
  EXPECT_THAT(Exposed(), HasSubstr("# TYPE deform_backend_fallbacks_total counter"));
  // Columns of unequal length come from another library than this was written for.
  Counted() = {{"msda"}, {}, {}, {}, {1}};
  EXPECT_THAT(BackendFallbacks().Collect(), IsEmpty());
}

}  // namespace
}  // namespace deform::engine
