#pragma once
// What `viaduct data tokenize` and `data chat` know about the tokens they wrote, in
// PREFIX.tokens.json beside the data: the largest id, so that later runs need not scan all tokens,
// whose tokens they are, and which of them ends documents. Megatron's readers pass over the file.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"

namespace viaduct {

/// What `viaduct data chat` knows besides.
struct ConversationRecord {
  std::string train_on;    // what is learned: "assistant", …
  uint64_t tokenizer = 0;  // the last of vocabulary_hashes of the whole tokenizer
  /// A hash of the model's chat templates with the special tokens that they name; nothing where no
  /// template was used. Merged data sets may have several, each once.
  std::vector<std::optional<uint64_t>> chat_templates{std::nullopt};
  bool control_tokens_as_text = false;
  int64_t scored = 0;    // tokens that are learned
  int64_t own_rows = 0;  // rows of a single answer that the template shows otherwise later
  /// Places of pictures in the rows (data/image_files.h); older records do not say.
  int64_t images = 0;
};

struct TokenRecord {
  int64_t largest_token = -1;  // −1: no tokens
  /// The last of vocabulary_hashes of the tokenizer, up to the largest id; older records lack it.
  std::optional<uint64_t> vocabulary;
  /// The token that ends each document; −1: none was appended; older records do not say.
  std::optional<int64_t> separator;
  int64_t inner_separators = 0;  // further ones, inside documents
  std::optional<ConversationRecord> conversations;
};

/// The templates for people: hashes as in the file, "none" where no template was used.
std::string template_hashes_text(const ConversationRecord& record);

/// PREFIX.tokens.json.
std::string token_record_path(const std::string& prefix);

/// Writes the record of the data set PREFIX, which is complete.
void write_token_record(const std::filesystem::path& prefix, const TokenRecord& record);

/// The data set's record; nothing without one, or if it belongs to other data: another number of
/// sequences or bytes, or other bytes in a sample of them.
std::optional<TokenRecord> read_token_record(const IndexedDataset& dataset);

}  // namespace viaduct
