#include "run/grown_vocabulary.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/extend_vocabulary.h"
#include "data/tokenizer/new_tokens.h"
#include "model/family.h"

namespace viaduct {
namespace {

/// The text of a token; nothing for an id without one.
std::optional<std::string> text_of(const Tokenizer& tokenizer, int64_t row) {
  const auto id = static_cast<int32_t>(row);
  if (!tokenizer.token(id)) return std::nullopt;
  const AddedToken* added = tokenizer.added_tokens().find(id);
  return added != nullptr ? added->content : tokenizer.decode({&id, 1});
}

/// The texts that the run's own tokenizer has for rows from `begin` to `end`.
std::vector<std::pair<int64_t, std::string>> texts_of_rows(const Tokenizer& tokenizer,
                                                           int64_t begin, int64_t end) {
  std::vector<std::pair<int64_t, std::string>> texts;
  for (int64_t row = begin; row < std::min<int64_t>(end, tokenizer.vocab_size()); ++row)
    if (auto text = text_of(tokenizer, row)) texts.emplace_back(row, std::move(*text));
  return texts;
}

/// Whether the run has another tokenizer than the model that it starts from, which has one.
bool has_other_tokenizer(const RunSetup& setup) {
  std::error_code none;
  const std::filesystem::path& models = setup.pretrained->path;
  return setup.tokenizer && setup.config.tokenizer.tokenizer_model && has_tokenizer(models) &&
         !std::filesystem::equivalent(setup.tokenizer_folder, models, none);
}

/// Tokens of the run's tokenizer that the model's lacks, in rows that the model has: nothing sets
/// these rows for them.
void note_rows_without_start(RunSetup& setup, int64_t rows) {
  std::optional<Tokenizer> models;
  try {
    models.emplace(open_tokenizer(setup.pretrained->path));
  } catch (const Error&) {
    return;  // the run may have its own just because this one cannot be read
  }
  std::vector<std::string> tokens;
  for (int64_t row = 0; row < std::min<int64_t>(rows, setup.tokenizer->vocab_size()); ++row) {
    if (models->token(static_cast<int32_t>(row))) continue;
    if (auto text = text_of(*setup.tokenizer, row)) tokens.push_back(std::move(*text));
  }
  if (tokens.empty()) return;
  setup.notes.push_back(fmt::format(
      "tokenizer.tokenizer_model: {} that the tokenizer of {} does not have: {}; their rows are "
      "those that the model has beyond its tokenizer, as they are there, which is likely untrained "
      "(viaduct convert --add-tokens lets them start as the mean of their pieces)",
      counted(std::ssize(tokens), "token"), setup.pretrained->path.string(), shown_tokens(tokens)));
}

/// Whether the files of the run's adapter have the rows of new tokens.
bool has_tables(const RunSetup& setup) {
  const std::string& table = model_family(setup.model.family).names.token_embedding;
  return setup.config.peft.adapter && setup.config.peft.resolved.trained.contains(table);
}

/// The new rows that stay as they begin beside adapters; empty: none.
std::string frozen_rows(const RunSetup& setup) {
  if (!setup.config.peft.any() || setup.config.train.skip_train) return "";
  const TensorNames& names = model_family(setup.model.family).names;
  const std::set<std::string>& trained = setup.config.peft.resolved.trained;
  const bool table = trained.contains(names.token_embedding);
  const bool head = setup.model.tied_embeddings ? table : trained.contains(names.head);
  if (table && head) return "";
  return table ? "those of the head" : head ? "those of the embedding" : "they";
}

}  // namespace

void take_new_rows(RunSetup& setup, int64_t rows) {
  const int64_t wanted = setup.model.vocabulary;
  const std::string where = setup.pretrained->path.string();
  VIADUCT_CHECK(ConfigError, wanted >= rows,
                "model.vocab_size: {}, but the model in {} has {} tokens; expected {} or more: no "
                "token is left out",
                wanted, where, rows, rows);
  setup.stored_vocabulary = rows;
  if (has_other_tokenizer(setup) && !has_tables(setup)) note_rows_without_start(setup, rows);
  if (wanted == rows) return;
  std::vector<std::pair<int64_t, std::string>> texts;
  if (setup.tokenizer && setup.config.tokenizer.tokenizer_model && has_tokenizer(where))
    texts = texts_of_rows(*setup.tokenizer, rows, wanted);
  std::vector<NewRow> of_texts;
  if (!texts.empty()) of_texts = rows_of_texts(open_tokenizer(where), texts, rows, setup.notes);
  setup.new_rows = rows_like_all(rows, wanted);
  for (NewRow& row : of_texts) setup.new_rows[static_cast<size_t>(row.row - rows)] = std::move(row);
  const int64_t others = wanted - rows - std::ssize(texts);
  std::string start = texts.empty()
                          ? ""
                          : "the mean of the rows of the pieces into which the tokenizer of " +
                                where + " cuts the text of their token";
  if (others > 0 && !texts.empty())
    start += fmt::format(", and {} without a token as ", counted(others, "row"));
  if (others > 0) start += "the mean of all rows";
  if (has_tables(setup)) start = "the adapter has them";
  const std::string frozen = frozen_rows(setup);
  setup.notes.push_back(fmt::format(
      "model.vocab_size: {}, and the model in {} has {}: the {} of the embedding and of the head "
      "start as {}{}{}",
      wanted, where, rows, counted(wanted - rows, "new row"), start,
      frozen.empty() ? ""
                     : "; " + frozen +
                           " do not train: peft.train with the embedding and the head trains them, "
                           "and saves them with the adapter",
      setup.config.peft.resolved.base_format == BaseFormat::blocks
          ? "; these tables are in the recipe's format, not in the file's blocks"
          : ""));
}

std::unique_ptr<TensorSource> open_pretrained(const RunSetup& setup) {
  auto weights = open_weights(*setup.pretrained);
  if (setup.new_rows.empty()) return weights;
  ModelConfig stored = setup.model;
  stored.vocabulary = setup.stored_vocabulary;
  return grow_tables(std::move(weights), stored, setup.model.vocabulary, setup.new_rows);
}

}  // namespace viaduct
