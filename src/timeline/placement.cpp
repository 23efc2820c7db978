#include "timeline/placement.h"

#include <algorithm>
#include <numeric>

namespace viaduct {

// A stretch of these times has a bounded number of events.
std::vector<Lifetime> with_dense_times(std::vector<Lifetime> lifetimes) {
  std::vector<int64_t> times;
  for (const Lifetime& l : lifetimes) times.push_back(l.begin), times.push_back(l.end);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto rank = [&](int64_t time) {
    return std::lower_bound(times.begin(), times.end(), time) - times.begin();
  };
  for (Lifetime& l : lifetimes) l.begin = rank(l.begin), l.end = rank(l.end);
  return lifetimes;
}

namespace {

int64_t most_held(const std::vector<Lifetime>& lifetimes) {
  int64_t last = 0, held = 0, most = 0;
  for (const Lifetime& l : lifetimes) last = std::max(last, l.end);
  std::vector<int64_t> change(static_cast<size_t>(last + 1));
  for (const Lifetime& l : lifetimes) {
    change[static_cast<size_t>(l.begin)] += l.bytes;
    change[static_cast<size_t>(l.end)] -= l.bytes;
  }
  for (const int64_t bytes : change) most = std::max(most, held += bytes);
  return most;
}

/// The items placed so far, in two lists: by time, where each interval lists the items alive in it,
/// and by address, where a query needs no sorting but visits all items.
class Placed {
 public:
  Placed(const std::vector<Lifetime>& lifetimes, std::vector<int64_t>& offsets)
      : lifetimes_(lifetimes), offsets_(offsets), seen_(lifetimes.size(), -1) {
    int64_t last = 0;
    for (const Lifetime& l : lifetimes) last = std::max(last, l.end);
    pieces_.resize(static_cast<size_t>(last / kTimes + 1));
  }

  void add(size_t item, int64_t offset) {
    offsets_[item] = offset;
    const Lifetime& l = lifetimes_[item];
    if (lifetimes_.size() <= kMostByAddress) {
      const Range range{offset, offset + l.bytes, l.begin, l.end};
      by_address_.insert(std::upper_bound(by_address_.begin(), by_address_.end(), range), range);
    }
    for (int64_t p = l.begin / kTimes; p <= (l.end - 1) / kTimes; ++p)
      pieces_[static_cast<size_t>(p)].push_back(item);
  }

  /// Start of the tightest gap between those alive with `item`; else the end of the last of them.
  int64_t tightest_gap(size_t item) {
    const Lifetime& l = lifetimes_[item];
    int64_t best = -1, best_bytes = 0, free_from = 0;
    const auto pass = [&](int64_t begin, int64_t end) {
      const int64_t gap = begin - free_from;
      if (gap >= l.bytes && (best < 0 || gap < best_bytes)) best = free_from, best_bytes = gap;
      free_from = std::max(free_from, end);
    };
    if (most_alive(l) > by_address_.size() / kSorting && !by_address_.empty()) {
      for (const Range& r : by_address_)
        if (!apart(r.from, r.until, l)) pass(r.begin, r.end);
    } else {
      find_neighbours(item);
      for (const auto& [begin, end] : neighbours_) pass(begin, end);
    }
    return best >= 0 ? best : free_from;
  }

 private:
  static constexpr int64_t kTimes = 64;           // in a piece
  static constexpr size_t kMostByAddress = 8192;  // items; insertion moves half of the list
  static constexpr size_t kSorting = 8;           // as expensive as this many visits, by item

  struct Range {
    int64_t begin, end;   // bytes
    int64_t from, until;  // times
    bool operator<(const Range& other) const {
      return begin != other.begin ? begin < other.begin : end < other.end;
    }
  };

  static bool apart(int64_t from, int64_t until, const Lifetime& l) {
    return until <= l.begin || l.end <= from;
  }

  /// At least the number of placed items alive with `l`.
  size_t most_alive(const Lifetime& l) const {
    size_t most = 0;
    for (int64_t p = l.begin / kTimes; p <= (l.end - 1) / kTimes; ++p)
      most += pieces_[static_cast<size_t>(p)].size();
    return most;
  }

  /// The bytes of the placed items alive with `item`, by address.
  void find_neighbours(size_t item) {
    const Lifetime& l = lifetimes_[item];
    neighbours_.clear();
    for (int64_t p = l.begin / kTimes; p <= (l.end - 1) / kTimes; ++p) {
      for (const size_t other : pieces_[static_cast<size_t>(p)]) {
        const Lifetime& o = lifetimes_[other];
        if (seen_[other] == static_cast<int64_t>(item) || apart(o.begin, o.end, l)) continue;
        seen_[other] = static_cast<int64_t>(item);
        neighbours_.emplace_back(offsets_[other], offsets_[other] + o.bytes);
      }
    }
    std::sort(neighbours_.begin(), neighbours_.end());
  }

  const std::vector<Lifetime>& lifetimes_;
  std::vector<int64_t>& offsets_;
  std::vector<std::vector<size_t>> pieces_;
  std::vector<Range> by_address_;
  std::vector<int64_t> seen_;  // by which query
  std::vector<std::pair<int64_t, int64_t>> neighbours_;
};

using Order = std::vector<size_t>;

/// Items with the largest key first.
template <class Key>
Order order_by(const std::vector<Lifetime>& lifetimes, Key key) {
  Order order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return key(lifetimes[a]) > key(lifetimes[b]); });
  return order;
}

Placement place_in_order(const std::vector<Lifetime>& lifetimes, const std::vector<int64_t>& given,
                         Order order) {
  Placement placement;
  placement.offsets.resize(lifetimes.size());
  Placed placed(lifetimes, placement.offsets);
  const auto has_place = [&](size_t item) { return !given.empty() && given[item] != kToBePlaced; };
  std::stable_partition(order.begin(), order.end(), has_place);
  for (const size_t item : order) {
    const int64_t offset = has_place(item) ? given[item] : placed.tightest_gap(item);
    placed.add(item, offset);
    placement.bytes = std::max(placement.bytes, offset + lifetimes[item].bytes);
  }
  return placement;
}

/// Rounds of one order: the arena hardly shrinks after more, and a long list stays affordable.
int64_t rounds_of(size_t lifetimes) {
  constexpr int64_t kMost = 32, kMostPlaced = 1 << 15;
  return std::min(kMost, kMostPlaced / std::max<int64_t>(1, static_cast<int64_t>(lifetimes)));
}

/// Places in `order`; then again in each round, starting with the items that ended above `goal`.
Placement place_in_rounds(const std::vector<Lifetime>& lifetimes, const std::vector<int64_t>& given,
                          Order order, int64_t goal) {
  Placement last = place_in_order(lifetimes, given, order), best = last;
  const int64_t rounds = rounds_of(lifetimes.size());
  for (int64_t round = 0; round < rounds && best.bytes > goal; ++round) {
    std::stable_partition(order.begin(), order.end(), [&](size_t item) {
      return last.offsets[item] + lifetimes[item].bytes > goal;
    });
    last = place_in_order(lifetimes, given, order);
    if (last.bytes < best.bytes) best = last;
  }
  return best;
}

int64_t oldest_first(const Lifetime& l) {
  return -l.begin;
}

/// Dense times, and sizes that are multiples of the alignment.
std::vector<Lifetime> rounded(const std::vector<Lifetime>& all, int64_t alignment) {
  std::vector<Lifetime> lifetimes = with_dense_times(all);
  for (Lifetime& l : lifetimes) l.bytes = (l.bytes + alignment - 1) & ~(alignment - 1);
  return lifetimes;
}

}  // namespace

Placement place_oldest_first(const std::vector<Lifetime>& all, int64_t alignment) {
  const std::vector<Lifetime> lifetimes = rounded(all, alignment);
  Placement placement = place_in_order(lifetimes, {}, order_by(lifetimes, oldest_first));
  placement.lower_bound = most_held(lifetimes);
  return placement;
}

Placement place(const std::vector<Lifetime>& all, int64_t alignment,
                const std::vector<int64_t>& given) {
  const std::vector<Lifetime> lifetimes = rounded(all, alignment);
  const int64_t lower_bound = most_held(lifetimes);
  const auto area = [](const Lifetime& l) {
    return static_cast<double>(l.bytes) * static_cast<double>(l.end - l.begin);
  };
  const auto bytes = [](const Lifetime& l) { return l.bytes; };
  Placement best = place_in_rounds(lifetimes, given, order_by(lifetimes, bytes), lower_bound);
  for (int order = 0; order < 2 && best.bytes > lower_bound; ++order) {
    Placement other = place_in_rounds(
        lifetimes, given,
        order == 0 ? order_by(lifetimes, area) : order_by(lifetimes, oldest_first), lower_bound);
    if (other.bytes < best.bytes) best = std::move(other);
  }
  best.lower_bound = lower_bound;
  return best;
}

}  // namespace viaduct
