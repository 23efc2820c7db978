#pragma once
// A text as one stream of token ids: an encoded text, or all sequences of an indexed data set in
// order.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/indexed_dataset.h"

namespace viaduct {

class TokenStream {
 public:
  explicit TokenStream(std::vector<int32_t> ids) : ids_(std::move(ids)) {}
  /// Reads tokens on request; memory grows only with the number of sequences.
  explicit TokenStream(std::shared_ptr<const IndexedDataset> dataset);

  int64_t size() const { return dataset_ ? begins_.back() : static_cast<int64_t>(ids_.size()); }
  /// Tokens [begin, begin + out.size()). ShapeError for a range outside of the stream, IoError as
  /// IndexedDataset::read. Safe to call from several threads at once.
  void read(int64_t begin, std::span<int32_t> out) const;

 private:
  std::vector<int32_t> ids_;
  std::shared_ptr<const IndexedDataset> dataset_;
  std::vector<int64_t> begins_;  // of each sequence of `dataset_` in the stream, and its end
};

}  // namespace viaduct
