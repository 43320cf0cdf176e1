#include "engine/aoti/backend_fallbacks.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/aoti/torch_exceptions.h"

namespace deform::engine {

std::vector<prometheus::MetricFamily> BackendFallbacks::Collect() const {
  prometheus::MetricFamily family{
      "deform_backend_fallbacks_total",
      "Calls of an operator that didn't get the first choice of backend",
      prometheus::MetricType::Counter,
      {}};
  // deform::fallback_counts() -> (str[] ops, str[] from, str[] to, str[] reasons, int[] calls)
  const auto counts = c10::Dispatcher::singleton().findSchema({"deform::fallback_counts", ""});
  if (!counts) return {};
  const absl::Status read =
      CatchExceptions("fallbacks_unread", "the op library's counts can't be read", [&] {
        torch::jit::Stack results;
        counts->callBoxed(results);
        const std::vector<int64_t> calls = results.at(4).toIntVector();
        const auto text = [&](size_t column, size_t row) {
          return results.at(column).toListRef().at(row).toStringRef();
        };
        for (size_t row = 0; row < calls.size(); ++row) {
          prometheus::ClientMetric metric;
          metric.label = {{"op", text(0, row)},
                          {"from", text(1, row)},
                          {"to", text(2, row)},
                          {"reason", text(3, row)}};
          metric.counter.value = static_cast<double>(calls[row]);
          family.metric.push_back(std::move(metric));
        }
      });
  if (!read.ok()) return {};
  return {std::move(family)};
}

}  // namespace deform::engine
