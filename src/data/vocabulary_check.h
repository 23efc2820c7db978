#pragma once
// Whether the tokens of a file fit a model's vocabulary, before training starts.

#include <cstdint>
#include <limits>
#include <string>

#include "data/indexed_dataset.h"

namespace viaduct {

class DatasetBuilder;
class ThreadPool;
class Tokenizer;

/// The largest token id in the file, or -1 if it has no tokens; scanned by all threads.
/// `max_tokens` bounds the work: a larger file is sampled in evenly spaced ranges (the rest is
/// checked when it is read, see GptDataset). A negative token or one above INT32_MAX is an IoError.
int64_t max_token_id(const IndexedDataset& dataset, ThreadPool& pool,
                     int64_t max_tokens = std::numeric_limits<int64_t>::max());

/// Tokens scanned before training in a file without a record: a few hundredths of a second. Each
/// sample is checked again when it is read.
inline constexpr int64_t kVocabularySample = int64_t{1} << 24;

/// The tokenizer of a run and its folder, for messages; null: the run has none.
struct NamedTokenizer {
  const Tokenizer* tokenizer = nullptr;
  std::string folder;
};

/// Throws a ConfigError with both numbers if a file of the configured blends holds a token at or
/// above `vocabulary_size`: by its record (token_record.h), else by sampling the file; and if the
/// record says that its ids are the tokens of another tokenizer than `tokenizer`. Mock data always
/// fit.
void check_vocabulary(DatasetBuilder& builder, int64_t vocabulary_size, ThreadPool& pool,
                      int64_t max_tokens = kVocabularySample, const NamedTokenizer& tokenizer = {});

/// The check of the tokenizer alone, of one data set. Without a record, or a tokenizer, it passes.
void check_tokenizer(const IndexedDataset& dataset, const NamedTokenizer& tokenizer);

}  // namespace viaduct
