#include "data/tokenizer/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace viaduct {
namespace {

// Up to here scanning for the lowest rank is faster than a heap.
constexpr size_t kShortPiece = 48;
constexpr uint32_t kNoRank = ~uint32_t{0};

uint64_t key_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

uint32_t rank_of(const MergeTable& merges, int32_t left, int32_t right) {
  const MergeTable::Merge* merge = merges.find(left, right);
  return merge == nullptr ? kNoRank : merge->rank;
}

void merge_short(std::vector<int32_t>& ids, const MergeTable& merges,
                 std::vector<uint32_t>& ranks) {
  size_t count = ids.size();
  ranks.resize(count);
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = rank_of(merges, ids[i], ids[i + 1]);
  while (count > 1) {
    const size_t at = std::min_element(ranks.begin(), ranks.begin() + (count - 1)) - ranks.begin();
    if (ranks[at] == kNoRank) break;
    ids[at] = merges.find(ids[at], ids[at + 1])->joined;
    std::copy(ids.begin() + at + 2, ids.begin() + count, ids.begin() + at + 1);
    if (at + 2 < count) {
      std::copy(ranks.begin() + at + 2, ranks.begin() + count, ranks.begin() + at + 1);
    }
    --count;
    if (at + 1 < count) ranks[at] = rank_of(merges, ids[at], ids[at + 1]);
    if (at > 0) ranks[at - 1] = rank_of(merges, ids[at - 1], ids[at]);
  }
  ids.resize(count);
}

}  // namespace

MergeTable::MergeTable(size_t pairs)
    : slots_(std::bit_ceil(2 * pairs + 2)), mask_(slots_.size() - 1) {}

size_t MergeTable::place(uint64_t key) const {
  size_t at = (key * 0x9E3779B97F4A7C15u) >> 20 & mask_;
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask_;
  return at;
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  slots_[place(key)] = {key, merge};
}

const MergeTable::Merge* MergeTable::find(int32_t left, int32_t right) const {
  if (slots_.empty()) return nullptr;
  const Slot& slot = slots_[place(key_of(left, right))];
  return slot.key == kEmpty ? nullptr : &slot.merge;
}

void merge_pairs(std::vector<int32_t>& ids, const MergeTable& merges, MergeScratch& scratch) {
  if (ids.size() <= kShortPiece) {
    if (ids.size() > 1) merge_short(ids, merges, scratch.ranks_);
    return;
  }
  auto& links = scratch.links_;
  auto& heap = scratch.heap_;
  const auto count = static_cast<int32_t>(ids.size());
  links.resize(ids.size());
  heap.clear();
  for (int32_t i = 0; i < count; ++i) links[i] = {ids[i], i - 1, i + 1 < count ? i + 1 : -1};
  const auto offer = [&](int32_t position) {
    const int32_t next = links[position].next;
    if (next < 0) return;
    const uint32_t rank = rank_of(merges, links[position].id, links[next].id);
    if (rank == kNoRank) return;
    heap.push_back({rank, position});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (int32_t i = 0; i + 1 < count; ++i) offer(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const MergeScratch::Candidate top = heap.back();
    heap.pop_back();
    MergeScratch::Link& left = links[top.position];
    // A rank belongs to one pair, so equal ranks mean that the pair is unchanged.
    if (left.id < 0 || left.next < 0) continue;
    const MergeTable::Merge* merge = merges.find(left.id, links[left.next].id);
    if (merge == nullptr || merge->rank != top.rank) continue;
    MergeScratch::Link& right = links[left.next];
    left.id = merge->joined;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) links[left.next].previous = top.position;
    if (left.previous >= 0) offer(left.previous);
    offer(top.position);
  }
  ids.clear();
  for (int32_t i = 0; i >= 0; i = links[i].next) ids.push_back(links[i].id);
}

}  // namespace viaduct
