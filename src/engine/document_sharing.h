#pragma once
// Hybrid context parallel: the ranks that share each document of a global batch. A pure function of
// the documents' lengths, so all ranks get the same result.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace viaduct {

/// Documents that ranks [first_rank, first_rank + ranks) compute together as one micro-batch.
struct SharedDocuments {
  int first_rank = 0, ranks = 1;   // a power of two, and a multiple of it
  std::vector<int64_t> documents;  // their numbers; empty: the rank has nothing to compute
  bool operator==(const SharedDocuments&) const = default;
};

struct SharingSettings {
  int ranks = 1;                // a power of two
  int64_t tokens_per_rank = 0;  // of a micro-batch, at most, before padding
  /// The cost of a document with this many tokens, in any unit.
  std::function<double(int64_t)> cost;
};

/// A document gets the smallest power of two of ranks that holds it; documents of one rank are
/// packed up to the limit. The most costly are assigned first, each to the least loaded ranks.
/// Every rank runs its micro-batches in the order of the result, and has at least one. ShapeError,
/// with both numbers, for a document that all ranks together cannot hold.
std::vector<SharedDocuments> share_documents(std::span<const int64_t> lengths,
                                             const SharingSettings& settings);

}  // namespace viaduct
