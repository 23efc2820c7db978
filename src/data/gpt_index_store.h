#pragma once
// Where the order of a data set is kept: made once and mapped from files by all who read it, or in
// memory while it is small.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "data/gpt_index.h"
#include "data/index_cache.h"

namespace viaduct {

/// All that decides an order.
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

/// What Megatron writes to HASH-GPTDataset-…-description.txt, and whose MD5 is HASH. The tokenizer,
/// on which the order does not depend, is null.
std::string gpt_index_description(const GptIndexRequest& request, const GptIndexStorage& storage);

/// The files of a request: in `path_to_cache`, or in PREFIX/cache/GPTDataset_indices.
IndexCacheEntry gpt_index_files(const GptIndexRequest& request, const GptIndexStorage& storage);

/// Without `path_to_cache`, an order of fewer bytes is made by each rank in its memory: that takes
/// a fraction of a second, and nothing is written beside the data for it.
inline constexpr int64_t kSmallIndexBytes = int64_t{64} << 20;

/// An order that is made or opened when it is constructed, or with defer_npy_index_mmap when
/// somebody asks for it first.
class StoredGptIndex {
 public:
  StoredGptIndex(GptIndexRequest request, GptIndexStorage storage);

  int64_t samples() const { return samples_; }
  /// Safe to call from several threads at once.
  const GptIndex& get() const;
  const GptIndexRequest& request() const { return request_; }
  std::string description() const { return gpt_index_description(request_, storage_); }
  /// None where the cache is trusted: then nobody counted.
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
