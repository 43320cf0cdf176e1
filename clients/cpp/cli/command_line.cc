#include "cli/command_line.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <map>

#include "absl/time/time.h"
#include "cli/exit_code.h"

namespace deform::client {
namespace {

using segmentation::v1::Compat;
using segmentation::v1::MaskEncoding;
using segmentation::v1::SegmentOptions;
using segmentation::v1::Task;

// The stock check lets NaN through.
std::string CheckFraction(const std::string& text) {
  float value = 0;
  if (!CLI::detail::lexical_cast(text, value) || !(value >= 0 && value <= 1)) {
    return "must be a number from 0 to 1, not " + text;
  }
  return {};
}

std::string CheckAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (colon == 0 || port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos || std::stoi(port) == 0 ||
      std::stoi(port) > 65535) {
    return "must be HOST:PORT, not " + text;
  }
  return {};
}

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration <= absl::ZeroDuration() ||
      duration > absl::Hours(24)) {
    return "must be a time such as 500ms, 30s or 2m, not " + text;
  }
  return {};
}

void AddConnectionOptions(CLI::App* command, ConnectionArguments& connection,
                          const std::string& timeout_help) {
  command
      ->add_option("--address", connection.address,
                   "Where the server listens [" + connection.address + "]")
      ->check(CheckAddress)
      ->option_text("HOST:PORT");
  command
      ->add_option_function<std::string>(
          "--timeout",
          [&connection](const std::string& text) {
            absl::Duration duration;
            absl::ParseDuration(text, &duration);
            connection.timeout = absl::ToChronoNanoseconds(duration);
          },
          timeout_help + " [30s]")
      ->check(CheckDuration)
      ->option_text("TIME");
}

// An option whose words stand for values of an enum.
template <typename Enum>
CLI::Option* AddChoice(CLI::App* command, const std::string& name, const std::string& help,
                       const std::map<std::string, Enum>& choices, std::function<void(Enum)> set) {
  std::string words;
  for (const auto& [word, value] : choices) words += (words.empty() ? "" : "|") + word;
  return command
      ->add_option_function<std::string>(
          name, [choices, set](const std::string& word) { set(choices.at(word)); }, help)
      ->check(CLI::IsMember(choices))
      ->option_text(words);
}

void AddThreshold(CLI::App* command, const std::string& name, const std::string& help,
                  std::function<void(float)> set) {
  command->add_option_function<float>(name, set, help)->check(CheckFraction)->option_text("0..1");
}

void AddSegment(CLI::App* command, SegmentArguments& arguments) {
  command
      ->add_option("FILES", arguments.files, "Pictures, and folders that are searched for pictures")
      ->required()
      ->option_text("...");
  command
      ->add_option("--out", arguments.out,
                   "Folder for results.json and overlays [" + arguments.out.string() + "]")
      ->option_text("DIR");
  command->add_option("--model", arguments.model, "Model to ask [the only one]")
      ->option_text("NAME");
  AddChoice<Task>(command, "--task", "What to ask for [the model's first]",
                  {{"instance", Task::TASK_INSTANCE},
                   {"semantic", Task::TASK_SEMANTIC},
                   {"panoptic", Task::TASK_PANOPTIC},
                   {"detection", Task::TASK_DETECTION}},
                  [&arguments](Task task) { arguments.task = task; });

  SegmentOptions& options = arguments.options;
  AddThreshold(command, "--score-threshold", "Least score of a segment",
               [&options](float value) { options.set_score_threshold(value); });
  AddThreshold(command, "--mask-threshold", "Least probability of a mask's pixel",
               [&options](float value) { options.set_mask_threshold(value); });
  AddThreshold(command, "--overlap-threshold", "Least part of a panoptic mask that others leave it",
               [&options](float value) { options.set_overlap_mask_area_threshold(value); });
  command
      ->add_option_function<unsigned>(
          "--max-results", [&options](unsigned value) { options.set_max_results(value); },
          "At most this many segments a picture")
      ->check(CLI::Range(1u, 1'000'000u))
      ->option_text("N");
  command
      ->add_option_function<std::vector<std::string>>(
          "--label",
          [&options](const std::vector<std::string>& labels) {
            options.mutable_labels()->Assign(labels.begin(), labels.end());
          },
          "Keep only this label; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text("NAME");
  AddChoice<Compat>(command, "--compat", "Whose post-processing rules [the model's]",
                    {{"default", Compat::COMPAT_DEFAULT}, {"hf", Compat::COMPAT_HF}},
                    [&options](Compat compat) { options.set_compat(compat); });
  AddChoice<MaskEncoding>(command, "--mask-encoding", "How masks travel [coco-rle]",
                          {{"coco-rle", MaskEncoding::MASK_ENCODING_COCO_RLE},
                           {"png", MaskEncoding::MASK_ENCODING_PNG},
                           {"none", MaskEncoding::MASK_ENCODING_NONE}},
                          [&options](MaskEncoding value) { options.set_mask_encoding(value); });

  command
      ->add_option(
          "--concurrency", arguments.concurrency,
          "Pictures on their way at a time [" + std::to_string(arguments.concurrency) + "]")
      ->check(CLI::Range(1, 256))
      ->option_text("N");
  command->add_flag("--json-only", arguments.json_only, "Write results.json alone, no pictures");
  AddConnectionOptions(command, arguments.connection, "For each picture, retries included");
  command->callback([&arguments] {
    if (arguments.json_only &&
        arguments.options.mask_encoding() == MaskEncoding::MASK_ENCODING_PNG) {
      throw CLI::ValidationError("--json-only", "would lose the masks of --mask-encoding png");
    }
  });
}

}  // namespace

std::variant<Command, int> ParseCommandLine(int argc, const char* const* argv, Console& console) {
  CLI::App app("Segments pictures with a deform-server.", "deform-client");
  app.require_subcommand(1);
  app.set_version_flag("--version", "deform-client " DEFORM_VERSION);
  app.get_formatter()->column_width(38);

  SegmentArguments segment;
  CLI::App* segment_command = app.add_subcommand(
      "segment", "Segment pictures: overlays, COCO results and a table of what was found");
  AddSegment(segment_command, segment);

  ModelsArguments models;
  CLI::App* models_command =
      app.add_subcommand("models", "List the models, or describe one with its labels");
  models_command->add_option("NAME", models.name, "The model to describe");
  AddConnectionOptions(models_command, models.connection, "For each call");

  HealthArguments health;
  CLI::App* health_command = app.add_subcommand(
      "health", "Whether it serves: exit code 0 if so, 1 if not, 2 without an answer");
  health_command->add_option("SERVICE", health.service,
                             "A service, or models/NAME [the server as a whole]");
  health_command->add_flag("--watch", health.watch, "Print each change until the server goes");
  AddConnectionOptions(health_command, health.connection, "For the answer");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, console.out, console.err);
    return code == 0 ? kExitOk : kExitUsage;
  }
  if (segment_command->parsed()) return Command(std::move(segment));
  if (models_command->parsed()) return Command(std::move(models));
  return Command(std::move(health));
}

}  // namespace deform::client
