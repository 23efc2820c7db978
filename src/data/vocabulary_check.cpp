#include "data/vocabulary_check.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "data/dataset_builder.h"
#include "data/dataset_fingerprint.h"
#include "data/token_record.h"
#include "data/tokenizer/vocabulary_hash.h"

namespace viaduct {
namespace {

constexpr int64_t kStretchTokens = int64_t{1} << 16;

// Sequences that begin in one of `tasks` equal parts of the index.
struct Part {
  int64_t first, end;
};

Part part_of(int64_t sequences, int64_t tasks, int64_t task) {
  const auto border = [&](int64_t i) {
    return static_cast<int64_t>(static_cast<__int128>(sequences) * i / tasks);
  };
  return {border(task), border(task + 1)};
}

int64_t max_of_part(const IndexedDataset& dataset, Part part, int64_t budget) {
  std::vector<int32_t> tokens;
  int64_t largest = -1;
  for (int64_t sequence = part.first; sequence < part.end && budget > 0; ++sequence) {
    const int64_t length = std::min<int64_t>(dataset.sequence_length(sequence), budget);
    budget -= length;
    for (int64_t offset = 0; offset < length; offset += kStretchTokens) {
      tokens.resize(static_cast<size_t>(std::min(kStretchTokens, length - offset)));
      dataset.read(sequence, offset, std::span<int32_t>(tokens));
      largest = std::max<int64_t>(largest, *std::max_element(tokens.begin(), tokens.end()));
    }
  }
  return largest;
}

}  // namespace

int64_t max_token_id(const IndexedDataset& dataset, ThreadPool& pool, int64_t max_tokens) {
  const int64_t sequences = dataset.sequence_count();
  const int64_t tasks = std::min<int64_t>(sequences, 1024);
  if (tasks == 0) return -1;
  // Each part scans its share of the bound; without a bound, all its tokens.
  const bool bounded = max_tokens < dataset.total_tokens();
  const int64_t budget =
      bounded ? std::max<int64_t>(1, max_tokens / tasks) : std::numeric_limits<int64_t>::max();
  std::vector<int64_t> largest(static_cast<size_t>(tasks), -1);
  pool.run(tasks, [&](int64_t task, int) {
    largest[static_cast<size_t>(task)] =
        max_of_part(dataset, part_of(sequences, tasks, task), budget);
  });
  return *std::max_element(largest.begin(), largest.end());
}

namespace {

/// `hashes` of the tokenizer are made at the first record that needs them.
void check_record(const TokenRecord& record, const std::string& prefix, const NamedTokenizer& own,
                  std::vector<uint64_t>& hashes) {
  if (own.tokenizer == nullptr || !record.vocabulary) return;
  const int64_t ids = own.tokenizer->vocab_size();
  if (hashes.empty()) hashes = vocabulary_hashes(*own.tokenizer, ids);
  VIADUCT_CHECK(ConfigError,
                record.largest_token < ids &&
                    *record.vocabulary == hashes[static_cast<size_t>(record.largest_token + 1)],
                "dataset {}: its ids are the tokens of another tokenizer than {}; name the one "
                "that made the data (tokenizer.tokenizer_model), or tokenize the text again",
                prefix, own.folder);
}

}  // namespace

void check_vocabulary(DatasetBuilder& builder, int64_t vocabulary_size, ThreadPool& pool,
                      int64_t max_tokens, const NamedTokenizer& tokenizer) {
  std::vector<uint64_t> hashes;
  for (const std::string& prefix : dataset_prefixes(builder.config())) {
    const auto dataset = builder.open(prefix);
    const auto record = read_token_record(*dataset);
    const int64_t largest =
        record ? record->largest_token : max_token_id(*dataset, pool, max_tokens);
    VIADUCT_CHECK(
        ConfigError, largest < vocabulary_size,
        "model.vocab_size: the vocabulary of the data is larger than the model's: dataset {} "
        "holds token id {}, the model has {} (ids 0 to {})",
        prefix, largest, counted(vocabulary_size, "entry", "entries"), vocabulary_size - 1);
    if (record) check_record(*record, prefix, tokenizer, hashes);
  }
}

void check_tokenizer(const IndexedDataset& dataset, const NamedTokenizer& tokenizer) {
  std::vector<uint64_t> hashes;
  if (const auto record = read_token_record(dataset))
    check_record(*record, dataset.prefix(), tokenizer, hashes);
}

}  // namespace viaduct
