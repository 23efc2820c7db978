#pragma once
// A rank's micro-batches of a global batch under hybrid context parallel: documents shared with
// other ranks instead of rows (document_sharing.h).

#include <vector>

#include "base/function_ref.h"
#include "comm/parallel_groups.h"
#include "data/sampler.h"
#include "engine/document_sharing.h"
#include "engine/host_batch.h"
#include "run/setup.h"

namespace viaduct {

class DocumentBatches {
 public:
  /// `groups` must outlive it.
  DocumentBatches(const RunSetup& setup, const ParallelGroups& groups);

  /// A row of the global batch by its number, counted from 0.
  using ReadRow = FunctionRef<HostBatch(int64_t row)>;
  /// Distributes a global batch of `rows`. Each data rank reads its rows in the order of `place`,
  /// passes them to `own`, and sends the lengths of their documents to the others. All ranks call
  /// it.
  void share(int64_t rows, const MicroBatchPlace& place, ReadRow read,
             FunctionRef<void(const HostBatch& row)> own);
  /// The same if the lengths of all rows' documents are known.
  void share(const std::vector<std::vector<int32_t>>& lengths_by_row);

  int64_t count() const { return static_cast<int64_t>(mine_.size()); }
  /// Micro-batch `i` of this rank; one without documents is a token of padding.
  HostBatch batch(int64_t i, ReadRow read) const;

 private:
  struct Document {
    int64_t row = 0;
    int32_t begin = 0, end = 0;  // tokens of the row
  };

  const ParallelGroups& groups_;
  SharingSettings settings_;
  std::vector<Document> documents_;
  std::vector<SharedDocuments> mine_;
};

}  // namespace viaduct
