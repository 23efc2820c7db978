#pragma once
// The order in which conversations are read, and the rows that they make: the plans of all epochs
// that a run needs (packing_plan.h), one after the other. Built by each rank in memory, or, where
// there are many conversations, once and mapped from files (index_store.h).

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "data/index_array.h"
#include "data/index_cache.h"
#include "data/index_store.h"
#include "data/indexed_dataset.h"
#include "data/packing_plan.h"
#include "data/split.h"

namespace viaduct {

/// Everything that determines the rows.
struct ConversationRequest {
  std::shared_ptr<const IndexedDataset> dataset;
  Split split = Split::train;
  DocumentRange range;
  /// At least this many rows, of whole epochs; none: one epoch.
  std::optional<int64_t> num_samples;
  PackingSettings packing;
  uint32_t random_seed = 0;
};

/// A part of a conversation, from its token `offset` on.
struct ConversationPart {
  int64_t sequence = 0, offset = 0;
};

class ConversationIndex {
 public:
  ConversationIndex() = default;
  /// IoError if the shapes do not fit each other.
  explicit ConversationIndex(std::vector<IndexArray> arrays);

  int64_t rows() const { return rows_.size() - 1; }
  /// The parts [first, end) of a row. Not checked.
  std::pair<int64_t, int64_t> row(int64_t row) const { return {rows_[row], rows_[row + 1]}; }
  int64_t parts() const { return parts_.shape().rows; }
  ConversationPart part(int64_t i) const {
    if (parts_.shape().columns == 0) return {parts_[i], 0};
    return {parts_[2 * i], parts_[2 * i + 1]};
  }
  const IndexArray& conversation_index() const { return parts_; }
  const IndexArray& row_index() const { return rows_; }
  /// IoError if bytes of mapped arrays could not be read.
  void check_read() const;

 private:
  IndexArray parts_;  // [parts], or [parts, 2] with offsets
  IndexArray rows_;   // [rows + 1]: the first part of each row, and their number
};

/// The two arrays. ConfigError if the range has no token, or the order would not fit into memory.
void build_conversation_index(const ConversationRequest& request, IndexSink& sink);

/// From so many conversations on, the order is kept in files without `path_to_cache`, too.
inline constexpr int64_t kManyConversations = int64_t{1} << 20;

/// An order that is built or opened on construction or, with defer_npy_index_mmap, at first use.
class StoredConversationIndex {
 public:
  StoredConversationIndex(ConversationRequest request, IndexStorage storage);

  int64_t rows() const { return rows_; }
  /// Safe to call from several threads at once.
  const ConversationIndex& get() const;
  const ConversationRequest& request() const { return request_; }
  std::string description() const;

 private:
  IndexCacheEntry files() const;

  ConversationRequest request_;
  IndexStorage storage_;
  std::optional<IndexCacheEntry> files_;  // none: in memory
  int64_t rows_ = 0;
  mutable std::once_flag opened_;
  mutable ConversationIndex index_;
};

}  // namespace viaduct
