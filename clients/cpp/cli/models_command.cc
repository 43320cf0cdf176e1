#include "cli/models_command.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calls/call_error.h"
#include "calls/model_catalog.h"
#include "cli/exit_code.h"
#include "cli/text_table.h"
#include "drawing/colors.h"

namespace deform::client {
namespace {

using segmentation::v1::GetModelResponse;
using segmentation::v1::Label;
using segmentation::v1::ModelState;
using segmentation::v1::ModelSummary;

constexpr auto kRight = TextTable::Align::kRight;

int Fail(const absl::Status& status, Console& console) {
  console.err << "error: " << ToText(MakeCallError(status)) << "\n";
  return kExitFailed;
}

// "ready" for MODEL_STATE_READY.
std::string StateText(ModelState state) {
  return absl::AsciiStrToLower(ModelState_Name(state).substr(sizeof("MODEL_STATE_") - 1));
}

std::string TasksText(const GetModelResponse& model) {
  std::string text;
  for (const int task : model.tasks()) {
    const auto value = static_cast<segmentation::v1::Task>(task);
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    absl::AsciiStrToLower(Task_Name(value).substr(sizeof("TASK_") - 1)));
  }
  return text;
}

std::string InputText(const GetModelResponse& model) {
  return absl::StrCat(model.input_width(), "×", model.input_height());
}

std::string KindText(const Label& label) {
  return !label.has_is_thing() ? "" : label.is_thing() ? "thing" : "stuff";
}

// The colour as hex digits, after a patch of it where the terminal can show one.
std::string ColorText(const Label& label, bool is_terminal) {
  const Color color = ColorFromRgb24(label.color());
  std::string text = absl::StrFormat("#%02X%02X%02X", color.red, color.green, color.blue);
  if (!is_terminal) return text;
  return absl::StrFormat("\x1b[48;2;%d;%d;%dm  \x1b[0m %s", color.red, color.green, color.blue,
                         text);
}

int ListModels(const ModelCatalog& catalog, Console& console) {
  const absl::StatusOr<std::vector<ModelSummary>> models = catalog.List();
  if (!models.ok()) return Fail(models.status(), console);
  if (models->empty()) {
    console.out << "no models\n";
    return kExitOk;
  }
  TextTable table({{"NAME"},
                   {"VERSION", kRight},
                   {"STATE"},
                   {"TASKS"},
                   {"INPUT"},
                   {"LABELS", kRight},
                   {"DEVICE"}});
  std::vector<std::string> notes;
  for (const ModelSummary& summary : *models) {
    std::vector<std::string> row{summary.name(), absl::StrCat(summary.version()),
                                 StateText(summary.state())};
    const absl::StatusOr<GetModelResponse> model = catalog.Get(summary.name(), summary.version());
    if (model.ok()) {
      row.insert(row.end(), {TasksText(*model), InputText(*model),
                             absl::StrCat(model->labels_size()), model->device()});
    } else {
      row.insert(row.end(), {"-", "-", "-", "-"});
    }
    table.AddRow(std::move(row));
    if (!summary.reason().empty()) {
      notes.push_back(
          absl::StrCat(summary.name(), " version ", summary.version(), ": ", summary.reason()));
    } else if (!model.ok() && summary.state() == ModelState::MODEL_STATE_READY) {
      notes.push_back(absl::StrCat(summary.name(), ": ", ToText(MakeCallError(model.status()))));
    }
  }
  table.Print(console.out, "");
  for (const std::string& note : notes) console.out << note << "\n";
  return kExitOk;
}

int DescribeModel(const ModelCatalog& catalog, const std::string& name, Console& console) {
  const absl::StatusOr<GetModelResponse> model = catalog.Get(name, 0);
  if (!model.ok()) return Fail(model.status(), console);
  const ModelSummary& summary = model->summary();
  std::ostream& out = console.out;
  out << summary.name() << " version " << summary.version() << ", " << StateText(summary.state())
      << "\n";
  if (!summary.reason().empty()) out << summary.reason() << "\n";
  if (!model->description().empty()) out << model->description() << "\n";
  out << "\n";
  const auto print = [&out](const char* key, const std::string& value) {
    out << absl::StrFormat("%-14s%s\n", key, value.empty() ? "-" : value);
  };
  print("architecture", model->architecture());
  print("tasks", TasksText(*model));
  print("input", InputText(*model));
  print("max batch", absl::StrCat(model->max_batch()));
  print("device", model->device());
  print("labels", absl::StrCat(model->labels_size()));
  if (model->labels().empty()) return kExitOk;

  out << "\n";
  TextTable table({{"ID", kRight}, {"CATEGORY", kRight}, {"KIND"}, {"NAME"}, {"COLOR"}});
  for (const Label& label : model->labels()) {
    table.AddRow({absl::StrCat(label.label_id()), absl::StrCat(label.category_id()),
                  KindText(label), label.name(), ColorText(label, console.out_is_terminal)});
  }
  table.Print(out, "  ");
  return kExitOk;
}

}  // namespace

int RunModels(const ModelsArguments& arguments, segmentation::v1::Segmentation::StubInterface& stub,
              Console& console) {
  const ModelCatalog catalog(stub, arguments.connection.timeout);
  return arguments.name.empty() ? ListModels(catalog, console)
                                : DescribeModel(catalog, arguments.name, console);
}

}  // namespace deform::client
