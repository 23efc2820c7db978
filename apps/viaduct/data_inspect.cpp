#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "checkpoint/model_folder.h"
#include "data.h"
#include "data/dataset_files.h"
#include "data/image_files.h"
#include "data/indexed_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "data/score_mask.h"
#include "data/tokenizer/tokenizer.h"
#include "data/vocabulary_check.h"
#include "existing_output.h"
#include "masked_text.h"
#include "number_checks.h"

namespace viaduct::cli {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  std::string prefix, tokenizer, rows;
  bool tokens = false, json = false, text = false;
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

/// The share of tokens that are learned; nothing without a mask.
std::optional<double> learned_share(const std::string& prefix) {
  if (!has_mask(prefix)) return std::nullopt;
  const ScoreMask mask(std::make_shared<const IndexedDataset>(prefix),
                       std::make_shared<const IndexedDataset>(mask_prefix(prefix)));
  return mask.scored_share(0, IndexedDataset(prefix).sequence_count());
}

ordered_json describe(const IndexedDataset& dataset, bool tokens) {
  ordered_json result{{"dtype", token_type_name(dataset.token_type())},
                      {"sequence_count", dataset.sequence_count()},
                      {"document_count", dataset.document_count()},
                      {"total_tokens", dataset.total_tokens()}};
  if (const auto share = learned_share(dataset.prefix())) result["learned_share"] = *share;
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
  const std::string lengths = shortest == longest
                                  ? counted(longest, "token")
                                  : fmt::format("{} to {} tokens", shortest, longest);
  fmt::print("  sequences  {} of {}{}\n", dataset.sequence_count(), lengths,
             dataset.has_modes() ? ", with modes" : "");
  fmt::print("  tokens     {} ({})\n", dataset.total_tokens(),
             format_bytes(dataset.total_tokens() * token_type_bytes(dataset.token_type())));
  if (const auto share = learned_share(dataset.prefix()))
    fmt::print("  learned    {:.1f} % of the tokens\n", 100 * *share);
  if (has_images(dataset.prefix())) {
    const IndexedDataset images(images_prefix(dataset.prefix()));
    fmt::print("  pictures   {} in the rows\n", counted(images.total_tokens(), "place"));
  }
  for (int64_t i = 0; tokens && i < dataset.sequence_count(); ++i) {
    fmt::print("{}: {}\n", i, sequence_json(dataset, i).dump());
  }
}

/// "3:5", "3:", ":5" or "3" of `count` rows.
std::pair<int64_t, int64_t> parse_rows(const std::string& text, int64_t count) {
  if (text.empty()) return {0, count};
  const auto number = [&](std::string_view part, int64_t otherwise) {
    if (part.empty()) return otherwise;
    int64_t value = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    VIADUCT_CHECK(ConfigError,
                  error == std::errc() && end == part.data() + part.size() && value >= 0,
                  "--rows {}: expected a range of rows like 0:3", text);
    return value;
  };
  const size_t colon = text.find(':');
  const int64_t begin = number(std::string_view(text).substr(0, colon), 0);
  const int64_t end = colon == std::string::npos
                          ? begin + 1
                          : number(std::string_view(text).substr(colon + 1), count);
  VIADUCT_CHECK(ConfigError, begin < end && begin < count,
                "--rows {}: no such rows; the data set has {}, 0 to {}", text, count, count - 1);
  return {begin, std::min(end, count)};
}

/// The texts of sequences, with what is learned marked where there is a mask.
void print_texts(const Arguments& arguments, const IndexedDataset& dataset) {
  const Tokenizer tokenizer = open_tokenizer(arguments.tokenizer);
  check_tokenizer(dataset, {&tokenizer, arguments.tokenizer});
  const auto [begin, end] = parse_rows(arguments.rows, dataset.sequence_count());
  const std::string mask_prefix = dataset.prefix() + ".mask";
  std::optional<IndexedDataset> masks;
  if (std::filesystem::exists(mask_prefix + ".idx")) {
    masks.emplace(mask_prefix);
    VIADUCT_CHECK(IoError, masks->sequence_count() == dataset.sequence_count(),
                  "{}: {}, but {} has {}: the mask belongs to other data", mask_prefix,
                  counted(masks->sequence_count(), "sequence"), dataset.prefix(),
                  dataset.sequence_count());
  }
  for (int64_t row = begin; row < end; ++row) {
    const auto length = static_cast<size_t>(dataset.sequence_length(row));
    std::vector<int64_t> values(length), learned(length);
    dataset.read(row, 0, std::span<int64_t>(values));
    if (masks) {
      VIADUCT_CHECK(IoError, masks->sequence_length(row) == dataset.sequence_length(row),
                    "{}: sequence {} has {}, expected {}: the mask belongs to other data",
                    mask_prefix, row, counted(masks->sequence_length(row), "element"), length);
      masks->read(row, 0, std::span<int64_t>(learned));
    }
    std::vector<int32_t> ids;
    for (const int64_t value : values) {
      VIADUCT_CHECK(ConfigError, value >= 0 && value < tokenizer.vocab_size(),
                    "{}: sequence {} has the token {}, and the tokenizer {} has {}: it is another "
                    "one's",
                    dataset.prefix(), row, value, arguments.tokenizer, tokenizer.vocab_size());
      ids.push_back(static_cast<int32_t>(value));
    }
    const std::vector<uint8_t> mask(learned.begin(), learned.end());
    const auto scored =
        std::count_if(mask.begin(), mask.end(), [](uint8_t one) { return one != 0; });
    fmt::print("row {}: {}{}\n{}\n", row, counted(static_cast<int64_t>(length), "token"),
               masks ? fmt::format(", {} learned", scored) : std::string(),
               masked_text(tokenizer, ids, mask, shows_colours(STDOUT_FILENO)));
  }
}

int run(const Arguments& arguments) {
  check_dataset_files({arguments.prefix}, "viaduct data inspect");
  VIADUCT_CHECK(ConfigError, arguments.text == !arguments.tokenizer.empty(),
                "--text and --tokenizer DIR belong together");
  VIADUCT_CHECK(ConfigError, arguments.rows.empty() || arguments.text, "--rows needs --text");
  const IndexedDataset dataset(arguments.prefix);
  if (arguments.text) {
    VIADUCT_CHECK(ConfigError, !is_float_token(dataset.token_type()),
                  "{}: its elements are floating-point values, no tokens", arguments.prefix);
    print_texts(arguments, dataset);
    return 0;
  }
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
  auto* json = app->add_flag("--json", arguments->json, "One JSON document");
  auto* text = app->add_flag("--text", arguments->text,
                             "Print rows as text; of conversations, what is learned is in colour "
                             "(in brackets where standard output is no terminal)");
  app->add_option("--tokenizer", arguments->tokenizer,
                  "--text: folder with tokenizer files, or FILE.gguf")
      ->check(not_empty());
  app->add_option("--rows", arguments->rows, "--text: rows like 0:3; without it, all")
      ->check(not_empty());
  json->excludes(text);
  app->footer(
      "Example:\n  viaduct data inspect data/shakespeare --json\n  viaduct data inspect data/chats "
      "--text --tokenizer models/smollm2 --rows 0:3");
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
