#pragma once
// What sources of rows from one indexed data set have in common.

#include <cstdint>
#include <optional>
#include <string>

#include "data/indexed_dataset.h"
#include "data/sample.h"
#include "data/split.h"

namespace viaduct {

class FileDataset : public SampleSource {
 public:
  virtual const IndexedDataset& dataset() const = 0;
  /// The sequences of the split.
  virtual DocumentRange documents() const = 0;
  /// Rows that were asked for; none: one epoch.
  virtual std::optional<int64_t> num_samples() const = 0;
  /// Everything that determines the order of the rows, as JSON.
  virtual std::string description() const = 0;
  /// Whether the order of rows would be the same if `num_samples` were requested instead. True if a
  /// trusted cache leaves this unknown.
  virtual bool same_order_for(std::optional<int64_t> num_samples) const = 0;
  /// None if a trusted cache leaves it unknown.
  virtual std::optional<int64_t> tokens_per_epoch() const = 0;
  /// Where rows are more than the tokens of an epoch cut at the sequence length; 0: they are not.
  virtual int64_t rows_per_epoch() const { return 0; }
};

}  // namespace viaduct
