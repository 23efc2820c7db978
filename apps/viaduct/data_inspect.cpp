#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "data.h"
#include "data/dataset_files.h"
#include "data/indexed_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "existing_output.h"
#include "number_checks.h"

namespace viaduct::cli {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  std::string prefix;
  bool tokens = false, json = false;
};

// Tokens of a sequence as JSON numbers: whole ones, except for files of floating-point values.
ordered_json sequence_json(const IndexedDataset& dataset, int64_t sequence) {
  const size_t length = static_cast<size_t>(dataset.sequence_length(sequence));
  if (is_float_token(dataset.token_type())) {
    std::vector<double> values(length);
    dataset.read(sequence, 0, std::span<double>(values));
    return values;
  }
  std::vector<int64_t> values(length);
  dataset.read(sequence, 0, std::span<int64_t>(values));
  return values;
}

ordered_json describe(const IndexedDataset& dataset, bool tokens) {
  ordered_json result{{"dtype", token_type_name(dataset.token_type())},
                      {"sequence_count", dataset.sequence_count()},
                      {"document_count", dataset.document_count()},
                      {"total_tokens", dataset.total_tokens()}};
  ordered_json lengths = ordered_json::array(), documents = ordered_json::array(), modes;
  for (int64_t i = 0; i < dataset.sequence_count(); ++i)
    lengths.push_back(dataset.sequence_length(i));
  for (int64_t i = 0; i <= dataset.document_count(); ++i)
    documents.push_back(dataset.document_start(i));
  if (dataset.has_modes()) {
    for (int64_t i = 0; i < dataset.sequence_count(); ++i)
      modes.push_back(int{dataset.sequence_mode(i)});
  }
  result["sequence_lengths"] = std::move(lengths);
  result["document_indices"] = std::move(documents);
  result["sequence_modes"] = std::move(modes);
  if (tokens) {
    ordered_json sequences = ordered_json::array();
    for (int64_t i = 0; i < dataset.sequence_count(); ++i)
      sequences.push_back(sequence_json(dataset, i));
    result["sequences"] = std::move(sequences);
  }
  return result;
}

void print_table(const IndexedDataset& dataset, bool tokens) {
  int64_t shortest = 0, longest = 0;
  for (int64_t i = 0; i < dataset.sequence_count(); ++i) {
    const int64_t length = dataset.sequence_length(i);
    shortest = i == 0 ? length : std::min(shortest, length);
    longest = std::max(longest, length);
  }
  fmt::print("{}\n", dataset.prefix());
  fmt::print("  type       {}\n", token_type_name(dataset.token_type()));
  fmt::print("  documents  {}\n", dataset.document_count());
  fmt::print("  sequences  {} of {} to {} tokens{}\n", dataset.sequence_count(), shortest, longest,
             dataset.has_modes() ? ", with modes" : "");
  fmt::print("  tokens     {} ({})\n", dataset.total_tokens(),
             format_bytes(dataset.total_tokens() * token_type_bytes(dataset.token_type())));
  for (int64_t i = 0; tokens && i < dataset.sequence_count(); ++i) {
    fmt::print("{}: {}\n", i, sequence_json(dataset, i).dump());
  }
}

int run(const Arguments& arguments) {
  check_dataset_files({arguments.prefix}, "viaduct data inspect");
  const IndexedDataset dataset(arguments.prefix);
  if (arguments.json) {
    fmt::print("{}\n", describe(dataset, arguments.tokens).dump());
  } else {
    print_table(dataset, arguments.tokens);
  }
  return 0;
}

}  // namespace

Subcommand add_data_inspect(CLI::App& data) {
  CLI::App* app = data.add_subcommand("inspect", "Show what an indexed data set holds");
  auto arguments = std::make_shared<Arguments>();
  app->add_option("PREFIX", arguments->prefix, "Path of the files without .bin / .idx")->required();
  app->add_flag("--tokens", arguments->tokens, "Also print all sequences");
  app->add_flag("--json", arguments->json, "One JSON document");
  app->footer("Example:\n  viaduct data inspect data/shakespeare --json");
  return {app, [arguments] { return run(*arguments); }};
}

Subcommand add_data_merge(CLI::App& data) {
  struct Merge {
    std::vector<std::string> inputs;
    std::string output;
    bool overwrite = false;
  };
  CLI::App* app = data.add_subcommand("merge", "Merge several indexed data sets into one");
  auto arguments = std::make_shared<Merge>();
  app->add_option("--input", arguments->inputs, "Prefixes of the data sets, in order")->required();
  app->add_option("--output", arguments->output, "Prefix of the files to write")
      ->check(new_path())
      ->required();
  add_overwrite(*app, arguments->overwrite);
  app->footer("Example:\n  viaduct data merge --input data/part1 data/part2 --output data/all");
  return {app, [arguments] {
            const std::string& output = arguments->output;
            check_dataset_files(arguments->inputs, "--input");
            check_new_dataset(output, arguments->overwrite);
            merge_indexed_datasets({arguments->inputs.begin(), arguments->inputs.end()}, output);
            const IndexedDataset merged(output);
            fmt::print("{}.bin, {}.idx: {}, {} from {}\n", output, output,
                       counted(merged.document_count(), "document"),
                       counted(merged.total_tokens(), "token"),
                       counted(static_cast<int64_t>(arguments->inputs.size()), "data set"));
            return 0;
          }};
}

}  // namespace viaduct::cli
