#pragma once
// Megatron's order of a data set (gpt_index.h) as it is kept: built once and mapped from files by
// all readers, or in memory if it is small.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "data/gpt_index.h"
#include "data/index_cache.h"
#include "data/index_store.h"

namespace viaduct {

/// Everything that determines an order, and the names of its files.
struct GptIndexRequest {
  std::shared_ptr<const IndexedDataset> dataset;
  Split split = Split::train;
  DocumentRange range;
  std::optional<int64_t> num_samples;
  int64_t sequence_length = 0;
  uint32_t random_seed = 0;
  /// dataset.split: part of the description that names the files; none with a blend for each split.
  std::optional<std::string> split_weights;
};

/// The text that Megatron writes to HASH-GPTDataset-…-description.txt; HASH is its MD5. The
/// tokenizer is null, as the order does not depend on it.
std::string gpt_index_description(const GptIndexRequest& request);

/// The files of a request.
IndexCacheEntry gpt_index_files(const GptIndexRequest& request, const IndexStorage& storage);

/// Without `path_to_cache`, an order of fewer bytes is built by each rank in memory: this takes a
/// fraction of a second and writes nothing beside the data.
inline constexpr int64_t kSmallIndexBytes = int64_t{64} << 20;

/// An order that is built or opened on construction or, with defer_npy_index_mmap, at first use.
class StoredGptIndex {
 public:
  StoredGptIndex(GptIndexRequest request, IndexStorage storage);

  int64_t samples() const { return samples_; }
  /// Safe to call from several threads at once.
  const GptIndex& get() const;
  const GptIndexRequest& request() const { return request_; }
  std::string description() const { return gpt_index_description(request_); }
  /// None if the cache is trusted: then the tokens were not counted.
  const std::optional<GptIndexPlan>& plan() const { return plan_; }

 private:
  void build(IndexSink& sink) const;

  GptIndexRequest request_;
  IndexStorage storage_;
  std::optional<GptIndexPlan> plan_;
  std::optional<IndexCacheEntry> files_;  // none: in memory
  int64_t samples_ = 0;
  mutable std::once_flag opened_;
  mutable GptIndex index_;
};

}  // namespace viaduct
