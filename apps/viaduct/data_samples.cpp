#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "config/load.h"
#include "data.h"
#include "data/blended_dataset.h"
#include "data/conversation_dataset.h"
#include "data/dataset_builder.h"
#include "data/dataset_files.h"
#include "data/document_ends.h"
#include "data/gpt_dataset.h"
#include "number_checks.h"
#include "override_scope.h"
#include "run/packing_settings.h"
#include "run/run_config.h"
#include "run/setup.h"

namespace viaduct::cli {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  std::vector<std::string> config;  // at most one file, and overrides
  std::string split, num_samples;
  int64_t count = -1;
  bool indices = false, json = false;
};

OverrideScope scope() {
  return {"viaduct data samples",
          {"dataset", "tokenizer", "model.seq_length", "model.hf_config", "model.vocab_size",
           "checkpoint.pretrained_checkpoint"}};
}

// The dataset section of a training configuration: the file's other sections are read too, and
// refused if they are wrong, but only the fields that decide the rows have an effect.
DataSetup read_settings(const std::vector<std::string>& words) {
  ConfigInput input;
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos) {
      input.overrides.push_back(word);
    } else {
      VIADUCT_CHECK(ConfigError, input.file.empty(), "two configuration files: {} and {}",
                    input.file.string(), word);
      input.file = word;
    }
  }
  scope().check(input.overrides);
  RunConfig config;
  const Schema schema = run_schema(config);
  Problems problems;
  ConfigOutcome outcome = read_config(schema, input, problems);
  check_states(schema, DeviceKind::cpu, outcome, problems);
  outcome.notes.clear();  // of settings that are not about rows
  apply_packing(config, outcome, problems);
  problems.throw_if_any();
  for (const std::string& note : outcome.notes)
    if (note.starts_with("dataset.")) log_warning("{}", note);
  return prepare_data(std::move(config));
}

// "200,20,0": samples per split; "null" or nothing means one epoch.
std::optional<int64_t> samples_asked(const std::string& text, Split split) {
  std::vector<std::optional<int64_t>> sizes;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    const bool number = error == std::errc{} && end == part.data() + part.size() && size >= 0;
    VIADUCT_CHECK(
        ConfigError, number || part.empty() || part == "null",
        "--num-samples {}: '{}' is not a number of samples; expected three such as 1000,50,0", text,
        part);
    sizes.push_back(number ? std::optional(size) : std::nullopt);
  }
  VIADUCT_CHECK(ConfigError, sizes.size() <= kSplitCount,
                "--num-samples {}: {} numbers, expected three", text, sizes.size());
  sizes.resize(kSplitCount);
  return sizes[static_cast<size_t>(split)];
}

ordered_json sample_json(const SampleSource& source, int64_t index) {
  const Sample row = source.get(index);
  std::vector<int> mask(row.loss_mask.begin(), row.loss_mask.end());
  ordered_json json{{"index", index},
                    {"tokens", row.tokens},
                    {"labels", row.labels},
                    {"loss_mask", std::move(mask)},
                    {"position_ids", row.position_ids}};
  if (!row.padding.empty()) json["cu_seqlens"] = row.cu_seqlens;
  return json;
}

ordered_json values_of(const IndexArray& array) {
  ordered_json values = ordered_json::array();
  for (int64_t i = 0; i < array.size(); ++i) values.push_back(array[i]);
  return values;
}

ordered_json dataset_json(const ConversationDataset& dataset) {
  const ConversationIndex& index = dataset.index();
  ordered_json conversations = ordered_json::array(), rows = ordered_json::array();
  for (int64_t i = 0; i < index.parts(); ++i) {
    const auto [sequence, offset] = index.part(i);
    conversations.push_back({sequence, offset});
  }
  for (int64_t row = 0; row < index.rows(); ++row) rows.push_back(index.row(row).first);
  rows.push_back(index.parts());
  const auto asked = dataset.num_samples();
  return {{"prefix", dataset.dataset().prefix()},
          {"documents", {dataset.documents().first, dataset.documents().end}},
          {"num_samples", asked ? ordered_json(*asked) : ordered_json()},
          {"conversation_index", std::move(conversations)},
          {"row_index", std::move(rows)}};
}

ordered_json dataset_json(const SampleSource& source) {
  if (const auto* rows = dynamic_cast<const ConversationDataset*>(&source))
    return dataset_json(*rows);
  const auto& dataset = dynamic_cast<const GptDataset&>(source);
  const GptIndex& index = dataset.index();
  ordered_json starts = ordered_json::array();
  for (int64_t i = 0; i <= index.samples(); ++i)
    starts.push_back({index.start(i).position, index.start(i).offset});
  const auto asked = dataset.num_samples();
  return {{"prefix", dataset.dataset().prefix()},
          {"documents", {dataset.documents().first, dataset.documents().end}},
          {"num_samples", asked ? ordered_json(*asked) : ordered_json()},
          {"document_index", values_of(index.document_index())},
          {"sample_index", std::move(starts)},
          {"shuffle_index", values_of(index.shuffle_index())}};
}

void add_indices(const SampleSource& source, ordered_json& result) {
  ordered_json datasets = ordered_json::array();
  if (const auto* blend = dynamic_cast<const BlendedDataset*>(&source)) {
    result["dataset_index"] = values_of(blend->dataset_index());
    result["dataset_sample_index"] = values_of(blend->dataset_sample_index());
    for (const auto& part : blend->sources()) datasets.push_back(dataset_json(*part));
  } else if (dynamic_cast<const FileDataset*>(&source) != nullptr) {
    datasets.push_back(dataset_json(source));
  }
  result["datasets"] = std::move(datasets);
}

void print_json(const SampleSource& source, int64_t count, bool indices) {
  ordered_json head{{"length", source.size()}};
  if (indices) add_indices(source, head);
  // Samples are written one by one: there may be many.
  std::string text = head.dump();
  text.pop_back();
  fmt::print("{},\"samples\":[", text);
  for (int64_t i = 0; i < count; ++i)
    fmt::print("{}{}", i == 0 ? "" : ",", sample_json(source, i).dump());
  fmt::print("]}}\n");
}

void print_text(const SampleSource& source, int64_t count) {
  fmt::print("{} of {}\n", counted(source.size(), "sample"),
             counted(source.sequence_length(), "token"));
  for (int64_t i = 0; i < count; ++i) {
    const Sample row = source.get(i);
    fmt::print("{}: {} -> {}\n", i, fmt::join(row.tokens, " "), row.labels.back());
  }
}

int run(const Arguments& arguments) {
  VIADUCT_CHECK(ConfigError, arguments.json || !arguments.indices,
                "--indices: the index arrays are printed only with --json");
  const DataSetup settings = read_settings(arguments.config);
  const DatasetConfig& dataset = settings.dataset;
  const Split split = parse_split_name(arguments.split);
  if (dataset.blend || dataset.blend_per_split) check_dataset_files(dataset);
  // Rows are shown without their pictures.
  DatasetBuilder builder(dataset, settings.vocabulary_size,
                         settings.tokenizer ? &*settings.tokenizer : nullptr,
                         [](const std::string&, int64_t) { return nullptr; });
  const auto source = builder.build(split, samples_asked(arguments.num_samples, split));
  VIADUCT_CHECK(ConfigError, source != nullptr, "the {} split has no data: {}", split_name(split),
                dataset.blend_per_split ? std::string("dataset.blend_per_split has null for it")
                                        : fmt::format("dataset.split is {}", dataset.split));
  for (const std::string& warning : separator_warnings(builder)) log_warning("{}", warning);
  if (dataset.dataloader_type != DataOrder::single) {
    log_warning(
        "dataset.dataloader_type={}: these are the rows by their numbers; a run takes the numbers "
        "in another order in each pass",
        choice_name(dataset.dataloader_type));
  }
  const int64_t count =
      arguments.count < 0 ? source->size() : std::min(arguments.count, source->size());
  if (arguments.json) {
    print_json(*source, count, arguments.indices);
  } else {
    print_text(*source, count);
  }
  return 0;
}

}  // namespace

Subcommand add_data_samples(CLI::App& data) {
  CLI::App* app = data.add_subcommand(
      "samples", "The first samples of a split in the order in which training reads them");
  auto arguments = std::make_shared<Arguments>();
  app->add_option("CONFIG", arguments->config,
                  "A configuration file and overrides section.field=value: " + scope().help());
  app->add_option("--split", arguments->split, "train, valid or test")->required();
  app->add_option("--num-samples", arguments->num_samples,
                  "Number of samples of TRAIN,VALID,TEST in the run; null: one epoch")
      ->required();
  app->add_option("--count", arguments->count, "Number of samples to show; default: all")
      ->check(not_negative());
  app->add_flag("--indices", arguments->indices, "Also print the index arrays (with --json)");
  app->add_flag("--json", arguments->json, "One JSON document");
  app->footer(
      "Example:\n  viaduct data samples dataset.blend=[data/shakespeare] dataset.split=99,1,0 "
      "dataset.sequence_length=256 "
      "--split train --num-samples 1000,10,0 --count 2 --json");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
