#include "cli/segment_command.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "calls/model_catalog.h"
#include "calls/segment_calls.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/picture_files.h"
#include "cli/progress.h"
#include "cli/text_table.h"
#include "results/coco_results.h"
#include "results/output_names.h"

namespace deform::client {
namespace {

namespace fs = std::filesystem;
using segmentation::v1::GetModelResponse;
using segmentation::v1::SegmentRequest;
using segmentation::v1::SegmentResponse;

constexpr char kResultsFile[] = "results.json";

std::string Count(size_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

void PrintSegments(const fs::path& file, const SegmentResponse& response, base::Duration elapsed,
                   std::ostream& out) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count();
  out << file.string() << "  " << response.width() << "×" << response.height() << "  "
      << Count(response.segments_size(), "segment") << "  " << milliseconds << " ms\n";
  if (response.segments().empty()) return;
  constexpr auto kRight = TextTable::Align::kRight;
  TextTable table({{"LABEL"},
                   {"SCORE", kRight},
                   {"X", kRight},
                   {"Y", kRight},
                   {"WIDTH", kRight},
                   {"HEIGHT", kRight},
                   {"AREA", kRight}});
  for (const auto& segment : response.segments()) {
    const auto pixels = [](float value) { return absl::StrFormat("%.1f", value); };
    table.AddRow({segment.label(), absl::StrFormat("%.3f", segment.score()),
                  pixels(segment.box().x()), pixels(segment.box().y()),
                  pixels(segment.box().width()), pixels(segment.box().height()),
                  GroupedNumber(segment.area())});
  }
  table.Print(out, "  ");
}

// How one picture ended, with its files written.
struct PictureResult {
  std::optional<SegmentResponse> response;
  ResultFiles files;
  std::optional<CallError> error;  // of the call, or of writing its files
  base::Duration elapsed{};
};

// Takes results as they come and reports them in the order of the pictures. Thread-safe.
class Report {
 public:
  Report(const std::vector<fs::path>& pictures, const GetModelResponse& model,
         const base::Clock& clock, Console& console)
      : pictures_(pictures),
        console_(console),
        coco_(model),
        progress_(console, clock, pictures.size()),
        waiting_(pictures.size()) {}

  void Add(size_t index, PictureResult result) {
    const std::lock_guard lock(mutex_);
    const bool failed = result.error.has_value();
    waiting_[index] = std::move(result);
    if (next_ < waiting_.size() && waiting_[next_]) progress_.Hide();
    for (; next_ < waiting_.size() && waiting_[next_]; ++next_) {
      Write(pictures_[next_], *waiting_[next_]);
      waiting_[next_].reset();
    }
    console_.out.flush();
    progress_.Advance(failed);
  }

  const CocoResults& coco() const { return coco_; }
  size_t failed() const { return failed_; }

 private:
  void Write(const fs::path& picture, const PictureResult& result) {
    if (result.response) {
      PrintSegments(picture, *result.response, result.elapsed, console_.out);
      coco_.AddPicture(picture.string(), *result.response, result.files);
    }
    if (result.error) {
      ++failed_;
      console_.err << "failed: " << picture.string() << ": " << ToText(*result.error) << "\n";
      coco_.AddFailure(picture.string(), *result.error);
    }
  }

  const std::vector<fs::path>& pictures_;
  Console& console_;
  std::mutex mutex_;
  CocoResults coco_;
  Progress progress_;
  std::vector<std::optional<PictureResult>> waiting_;
  size_t next_ = 0;
  size_t failed_ = 0;
};

// Everything that has to hold before the first picture is sent.
struct Plan {
  std::vector<fs::path> pictures;
  std::vector<std::string> names;  // of their results
  GetModelResponse model;
  LabelColors colors;
};

absl::StatusOr<Plan> MakePlan(const SegmentArguments& arguments, const ModelCatalog& catalog) {
  Plan plan;
  DEFORM_ASSIGN_OR_RETURN(plan.pictures, FindPictures(arguments.files));
  plan.names = NameOutputs(plan.pictures);
  std::error_code error;
  fs::create_directories(arguments.out, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("can't make the folder ", arguments.out.string()));
  }
  std::string name = arguments.model;
  if (name.empty()) {
    DEFORM_ASSIGN_OR_RETURN(name, catalog.OnlyName());
  }
  DEFORM_ASSIGN_OR_RETURN(plan.model, catalog.Get(name, 0));
  for (const auto& label : plan.model.labels()) plan.colors.Set(label.label_id(), label.color());
  return plan;
}

}  // namespace

int RunSegment(const SegmentArguments& arguments,
               segmentation::v1::Segmentation::StubInterface& stub, const base::Clock& clock,
               Console& console) {
  const ModelCatalog catalog(stub, arguments.connection.timeout);
  const absl::StatusOr<Plan> plan = MakePlan(arguments, catalog);
  if (!plan.ok()) {
    console.err << "error: " << ToText(MakeCallError(plan.status())) << "\n";
    return kExitFailed;
  }

  Report report(plan->pictures, plan->model, clock, console);
  const auto make_request = [&](size_t index) -> absl::StatusOr<SegmentRequest> {
    SegmentRequest request;
    DEFORM_ASSIGN_OR_RETURN(*request.mutable_encoded(), ReadFile(plan->pictures[index]));
    request.set_model(plan->model.summary().name());
    request.set_task(arguments.task);
    *request.mutable_options() = arguments.options;
    return request;
  };
  const auto on_done = [&](size_t index, SegmentOutcome outcome) {
    PictureResult result;
    result.elapsed = outcome.elapsed;
    if (!outcome.response) {
      result.error = std::move(outcome.error);
    } else if (!arguments.json_only) {
      absl::StatusOr<ResultFiles> files =
          WritePictureFiles(arguments.out, plan->names[index], outcome.request.encoded(),
                            *outcome.response, plan->colors);
      if (files.ok()) {
        result.files = *std::move(files);
      } else {
        result.error = MakeCallError(files.status());
      }
    }
    result.response = std::move(outcome.response);
    report.Add(index, std::move(result));
  };
  SegmentCallOptions options;
  options.concurrency = arguments.concurrency;
  options.timeout = arguments.connection.timeout;
  SegmentCalls(stub, clock, options).Run(plan->pictures.size(), make_request, on_done);

  const absl::Status written = WriteFile(arguments.out / kResultsFile, report.coco().ToJson());
  if (!written.ok()) {
    console.err << "error: " << ToText(MakeCallError(written)) << "\n";
    return kExitFailed;
  }
  console.err << Count(plan->pictures.size(), "picture") << ", " << report.failed()
              << " failed; results in " << arguments.out.string() << "\n";
  return report.failed() == 0 ? kExitOk : kExitFailed;
}

}  // namespace deform::client
