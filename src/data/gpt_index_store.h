#pragma once
// Where the order of a data set is kept: built once and mapped from files by all readers, or in
// memory if it is small.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "data/gpt_index.h"
#include "data/index_cache.h"

namespace viaduct {

/// Everything that determines an order.
struct GptIndexRequest {
  std::shared_ptr<const IndexedDataset> dataset;
  Split split = Split::train;
  DocumentRange range;
  std::optional<int64_t> num_samples;
  int64_t sequence_length = 0;
  uint32_t random_seed = 0;
};

/// Fields of DatasetConfig.
struct GptIndexStorage {
  std::optional<std::string> path_to_cache;
  bool fast_cache_load = false;
  bool defer_npy_index_mmap = false;
  /// Part of the description that names the files; none with a blend for each split.
  std::optional<std::string> split_weights;
};

/// The text that Megatron writes to HASH-GPTDataset-…-description.txt; HASH is its MD5. The
/// tokenizer is null, as the order does not depend on it.
std::string gpt_index_description(const GptIndexRequest& request, const GptIndexStorage& storage);

/// The files of a request: in `path_to_cache`, or in PREFIX/cache/GPTDataset_indices.
IndexCacheEntry gpt_index_files(const GptIndexRequest& request, const GptIndexStorage& storage);

/// Without `path_to_cache`, an order of fewer bytes is built by each rank in memory: this takes a
/// fraction of a second and writes nothing beside the data.
inline constexpr int64_t kSmallIndexBytes = int64_t{64} << 20;

/// An order that is built or opened on construction or, with defer_npy_index_mmap, at first use.
class StoredGptIndex {
 public:
  StoredGptIndex(GptIndexRequest request, GptIndexStorage storage);

  int64_t samples() const { return samples_; }
  /// Safe to call from several threads at once.
  const GptIndex& get() const;
  const GptIndexRequest& request() const { return request_; }
  std::string description() const { return gpt_index_description(request_, storage_); }
  /// None if the cache is trusted: then the tokens were not counted.
  const std::optional<GptIndexPlan>& plan() const { return plan_; }

 private:
  GptIndex open() const;
  void build(IndexSink& sink) const;

  GptIndexRequest request_;
  GptIndexStorage storage_;
  std::optional<GptIndexPlan> plan_;
  std::optional<IndexCacheEntry> files_;  // none: in memory
  int64_t samples_ = 0;
  mutable std::once_flag opened_;
  mutable GptIndex index_;
};

}  // namespace viaduct
