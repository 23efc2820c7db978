#pragma once
// A model with further tokens: its weights, configuration and tokenizer files.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/grown_tables.h"
#include "checkpoint/tensor_source.h"
#include "data/tokenizer/tokenizer.h"
#include "model/model_config.h"

namespace viaduct {

/// What the rows of new tokens start as: the mean of the rows of the tokens into which the
/// tokenizer cuts the text so far, or of all rows.
enum class NewRowStart { pieces, all };

struct NewTokensRequest {
  std::filesystem::path file;  // as of read_new_tokens
  NewRowStart start = NewRowStart::pieces;
};

struct ExtendedModel {
  std::unique_ptr<TensorSource> weights;
  ModelConfig model;
  std::string config;                        // the text of config.json
  std::map<std::string, std::string> files;  // tokenizer and generation settings, by name
  std::string summary;                       // "3 new tokens, ids 512 to 514; …"
  std::vector<std::string> notes;
};

/// Adds tokens to a model with these weights, config.json and other files, which lie in `where`.
/// New tokens take the rows that the model has beyond its tokenizer's tokens, and then new ones.
/// ConfigError for a file of tokens that is wrong (read_new_tokens), for a tokenizer that is not
/// there or not supported, and as add_tokens.
ExtendedModel extend_vocabulary(const NewTokensRequest& request,
                                std::unique_ptr<TensorSource> weights, const ModelConfig& model,
                                const std::string& config, std::map<std::string, std::string> files,
                                const std::filesystem::path& where);

/// A row for each text, the mean of the rows of its tokens: those of `tokenizer` that the first
/// `rows` rows have, or of all rows where there is none. Special tokens inside of texts, and
/// characters without a token, are noted.
std::vector<NewRow> rows_of_texts(const Tokenizer& tokenizer,
                                  const std::vector<std::pair<int64_t, std::string>>& texts,
                                  int64_t rows, std::vector<std::string>& notes);

/// The text of a config.json with another vocabulary. ConfigError if that cannot be said.
std::string with_vocabulary(const std::string& config, int64_t rows);

}  // namespace viaduct
