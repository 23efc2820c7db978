#include "inference/evaluation_data.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "data/dataset_builder.h"
#include "data/dataset_files.h"
#include "data/image_files.h"
#include "data/score_mask.h"
#include "data/text_check.h"
#include "data/token_windows.h"
#include "data/tokenizer/text_ids.h"
#include "data/vocabulary_check.h"
#include "run/check_conversations.h"
#include "run/run_images.h"
#include "run/template_warnings.h"

namespace viaduct {
namespace {

bool is_data_set(const std::filesystem::path& data) {
  std::error_code ignored;
  return std::filesystem::exists(data.string() + ".idx", ignored);
}

void check_its_tokenizer(const IndexedDataset& dataset, const RunSetup& run) {
  check_tokenizer(dataset,
                  {run.tokenizer ? &*run.tokenizer : nullptr, run.tokenizer_folder.string()});
}

/// Fields of rows of conversations change nothing about a text.
void check_given_fields(const std::filesystem::path& data, const RunSetup& run) {
  std::vector<std::string> given;
  std::ranges::copy_if(run.given, std::back_inserter(given),
                       [](const std::string& name) { return name.starts_with("dataset."); });
  VIADUCT_CHECK(
      ConfigError, given.empty(),
      "{}: for conversations, but --data {} is read as one text: there is no mask ({}.idx, "
      "by viaduct data chat)",
      fmt::join(given, ", "), data.string(), mask_prefix(data.string()));
}

void check_is_text_file(const std::filesystem::path& file) {
  std::error_code error;
  VIADUCT_CHECK(
      MissingPath, std::filesystem::is_regular_file(file, error),
      "--data {}: expected a text file or the prefix of a data set, and there is neither "
      "a file of this name nor {}.idx{}",
      file.string(), file.string(),
      std::filesystem::is_directory(file, error) ? folder_text(file) : nearest_path_text(file));
}

TokenStream read_text(const std::filesystem::path& file, const RunSetup& run) {
  std::filesystem::path prefix = file;
  prefix.replace_extension();
  VIADUCT_CHECK(
      ConfigError, file.extension() != ".bin" || !std::filesystem::exists(prefix.string() + ".idx"),
      "--data {}: is half of a data set; give its prefix, {}", file.string(), prefix.string());
  VIADUCT_CHECK(ConfigError, run.tokenizer.has_value(),
                "--data {}: a text needs a tokenizer, but the model's folder has none "
                "(tokenizer.tokenizer_model can name one)",
                file.string());
  const std::string text = read_file(file);
  check_file_kind(file.string(), text, false);
  check_text(file.string(), text, 0);
  return TokenStream(text_ids(*run.tokenizer, text));
}

}  // namespace

std::shared_ptr<const IndexedDataset> open_conversations(const std::filesystem::path& data) {
  if (!is_data_set(data)) return nullptr;
  check_dataset_files({data.string()}, "--data");
  auto dataset = std::make_shared<const IndexedDataset>(data);
  return has_mask(data.string()) ? std::move(dataset) : nullptr;
}

EvaluatedConversations evaluated(const IndexedDataset& conversations) {
  EvaluatedConversations known{.prefix = conversations.prefix(),
                               .images = has_images(conversations.prefix())};
  for (int64_t i = 0; i < conversations.sequence_count(); ++i)
    known.longest = std::max<int64_t>(known.longest, conversations.sequence_length(i));
  conversations.check_read();
  return known;
}

EvaluationData conversation_data(const IndexedDataset& conversations, const RunSetup& run) {
  check_its_tokenizer(conversations, run);
  check_conversations(run);
  DatasetBuilder builder(run.config.dataset, run.model.vocabulary, nullptr, run_images(run));
  EvaluationData data{.rows = builder.build(Split::valid, std::nullopt), .conversations = 0};
  for (int64_t i = 0; i < conversations.sequence_count(); ++i) {
    const int64_t tokens = conversations.sequence_length(i);
    data.tokens += tokens;
    *data.conversations += tokens > 0 ? 1 : 0;
  }
  if (!run.tokenizer_folder.empty()) {
    const auto warnings = template_warnings(builder, run.tokenizer_folder);
    if (!warnings.empty()) data.warning = warnings.front();
  }
  return data;
}

EvaluationData text_data(const std::filesystem::path& data, const RunSetup& run, int64_t stride) {
  const bool tokenized = is_data_set(data);
  if (!tokenized) check_is_text_file(data);
  VIADUCT_CHECK(ConfigError, !run.model.encoder.any(),
                "--data {}: a text, but the model has an encoder, which is measured by pairs of "
                "input and answer; expected a data set with a mask, as viaduct data chat makes it",
                data.string());
  check_given_fields(data, run);
  const auto windows = [&](TokenStream stream) {
    const int64_t tokens = stream.size();
    return EvaluationData{.rows = std::make_shared<TokenWindows>(
                              std::move(stream), run.config.model.seq_length.value(), stride),
                          .tokens = tokens};
  };
  if (!tokenized) return windows(read_text(data, run));
  auto dataset = std::make_shared<const IndexedDataset>(data);
  check_its_tokenizer(*dataset, run);
  EvaluationData read = windows(TokenStream(std::move(dataset)));
  read.note = fmt::format(
      "--data {}: there is no mask ({}.idx): it is read as one text in which its documents follow "
      "each other, and every token but the first is scored",
      data.string(), mask_prefix(data.string()));
  return read;
}

}  // namespace viaduct
