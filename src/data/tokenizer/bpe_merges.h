#pragma once
// Byte-pair merging of one piece: the pair of neighbours with the lowest rank is joined, the
// leftmost first, until no pair has a rank (Sennrich et al. 2016, section 3.2).

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace viaduct {

/// An immutable map from pairs of ids to (rank, id of the joined token).
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = 0;
    int32_t joined = -1;
  };

  MergeTable() = default;
  /// Room for `pairs` pairs.
  explicit MergeTable(size_t pairs);

  /// Ids are not negative. A pair that is set again takes the new value.
  void set(int32_t left, int32_t right, Merge merge);
  /// The merge of a pair, or null.
  const Merge* find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  size_t place(uint64_t key) const;

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  size_t mask_ = 0;
};

/// Buffers of `merge_pairs`; one per thread.
class MergeScratch {
 private:
  friend void merge_pairs(std::vector<int32_t>&, const MergeTable&, MergeScratch&);
  struct Link {
    int32_t id = 0, previous = -1, next = -1;
  };
  /// A pair that may be joined; it is out of date once either side has changed.
  struct Candidate {
    uint32_t rank = 0;
    int32_t position = 0;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  std::vector<uint32_t> ranks_;
  std::vector<Link> links_;
  std::vector<Candidate> heap_;
};

/// Joins the ids of a piece in place. O(n log n) for long pieces. Pieces have fewer than 2³¹ ids.
void merge_pairs(std::vector<int32_t>& ids, const MergeTable& merges, MergeScratch& scratch);

}  // namespace viaduct
