#include "data/packing_plan.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "data/first_fit.h"
#include "data/numpy_random.h"

namespace viaduct {
namespace {

uint32_t epoch_seed(uint32_t seed, int64_t epoch) {
  char key[sizeof seed + sizeof epoch];
  std::memcpy(key, &seed, sizeof seed);
  std::memcpy(key + sizeof seed, &epoch, sizeof epoch);
  return static_cast<uint32_t>(hash64({key, sizeof key}));
}

/// What is put into rows: conversations, or parts of them.
struct Items {
  std::vector<int32_t> conversations, offsets, places;

  size_t size() const { return conversations.size(); }
  void add(int32_t conversation, int64_t offset, int64_t place_count, bool split) {
    conversations.push_back(conversation);
    if (split) offsets.push_back(static_cast<int32_t>(offset));
    places.push_back(static_cast<int32_t>(place_count));
  }
};

/// Items and the row of each.
struct Placed {
  Items items;
  std::vector<int32_t> rows;
  int64_t row_count = 0;
};

std::vector<int32_t> shuffled(int64_t count, NumpyRandomState& random) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(std::span<int32_t>(order));
  return order;
}

/// Whole conversations, and with `split` the pieces of those longer than a row.
Items items_of(std::span<const int32_t> lengths, std::span<const int32_t> order,
               const PackingSettings& settings) {
  Items items;
  items.conversations.reserve(order.size());
  items.places.reserve(order.size());
  for (const int32_t conversation : order) {
    const int64_t length = lengths[static_cast<size_t>(conversation)];
    VIADUCT_CHECK(ShapeError, settings.split || length <= settings.row_tokens,
                  "packing: a conversation of {} tokens for rows of {}", length,
                  settings.row_tokens);
    for (int64_t offset = 0; offset < length; offset += settings.row_tokens) {
      const int64_t tokens = std::min(length - offset, settings.row_tokens);
      items.add(conversation, offset, settings.places(tokens), settings.split);
    }
  }
  return items;
}

Placed place_sequentially(std::span<const int32_t> lengths, std::span<const int32_t> order,
                          const PackingSettings& settings) {
  Placed placed;
  int64_t room = 0;
  const auto put = [&](int32_t conversation, int64_t offset, int64_t tokens) {
    const int64_t places = settings.places(tokens);
    if (places > room) {
      ++placed.row_count;
      room = settings.row_tokens;
    }
    placed.items.add(conversation, offset, places, settings.split);
    placed.rows.push_back(static_cast<int32_t>(placed.row_count - 1));
    room -= places;
  };
  if (!settings.split) {
    const Items whole = items_of(lengths, order, settings);
    for (const int32_t conversation : whole.conversations)
      put(conversation, 0, lengths[static_cast<size_t>(conversation)]);
    return placed;
  }
  for (const int32_t conversation : order) {
    const int64_t length = lengths[static_cast<size_t>(conversation)];
    for (int64_t offset = 0; offset < length;) {
      const int64_t tokens = std::min(length - offset, room > 0 ? room : settings.row_tokens);
      put(conversation, offset, tokens);
      offset += tokens;
    }
  }
  return placed;
}

/// By descending places; equal ones keep their order. Counts sizes instead of comparing items.
std::vector<int32_t> by_descending_places(const Items& items, int64_t most) {
  std::vector<int64_t> begin(static_cast<size_t>(most) + 2);
  for (const int32_t places : items.places) ++begin[static_cast<size_t>(most - places) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<int32_t> order(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    order[static_cast<size_t>(begin[static_cast<size_t>(most - items.places[i])]++)] =
        static_cast<int32_t>(i);
  return order;
}

Items in_order(const Items& items, std::span<const int32_t> order) {
  const auto take = [&](const std::vector<int32_t>& from) {
    std::vector<int32_t> to;
    if (from.empty()) return to;
    to.reserve(order.size());
    for (const int32_t i : order) to.push_back(from[static_cast<size_t>(i)]);
    return to;
  };
  return {take(items.conversations), take(items.offsets), take(items.places)};
}

Placed place_first_fit(Items items, const PackingSettings& settings) {
  Placed placed{std::move(items), {}, 0};
  int64_t places = 0;
  for (const int32_t of_item : placed.items.places) places += of_item;
  // At most one row is no more than half full.
  const int64_t most = std::min<int64_t>(static_cast<int64_t>(placed.items.size()),
                                         2 * (places / settings.row_tokens + 1) + 1);
  FirstFit fit(std::max<int64_t>(1, most), static_cast<int32_t>(settings.row_tokens));
  placed.rows.reserve(placed.items.size());
  for (const int32_t of_item : placed.items.places)
    placed.rows.push_back(static_cast<int32_t>(fit.place(of_item)));
  placed.row_count = fit.rows();
  return placed;
}

Placed place(std::span<const int32_t> lengths, const PackingSettings& settings,
             NumpyRandomState& random) {
  const std::vector<int32_t> order = shuffled(static_cast<int64_t>(lengths.size()), random);
  if (settings.algorithm == PackingAlgorithm::sequential)
    return place_sequentially(lengths, order, settings);
  Items items = items_of(lengths, order, settings);
  if (settings.algorithm == PackingAlgorithm::none) {
    Placed placed{std::move(items), {}, 0};
    placed.row_count = static_cast<int64_t>(placed.items.size());
    placed.rows.resize(placed.items.size());
    std::iota(placed.rows.begin(), placed.rows.end(), 0);
    return placed;
  }
  if (settings.algorithm == PackingAlgorithm::first_fit_decreasing)
    items = in_order(items, by_descending_places(items, settings.row_tokens));
  return place_first_fit(std::move(items), settings);
}

}  // namespace

EpochRows plan_epoch(std::span<const int32_t> lengths, const PackingSettings& settings,
                     uint32_t seed, int64_t epoch) {
  VIADUCT_CHECK(ShapeError,
                settings.row_tokens > 0 && settings.multiple > 0 &&
                    settings.row_tokens % settings.multiple == 0 &&
                    settings.row_tokens < std::numeric_limits<int32_t>::max(),
                "packing: rows of {} tokens, conversations padded to multiples of {}",
                settings.row_tokens, settings.multiple);
  NumpyRandomState random(epoch_seed(seed, epoch));
  const Placed placed = place(lengths, settings, random);
  VIADUCT_CHECK(ConfigError, placed.items.size() <= std::numeric_limits<int32_t>::max(),
                "packing: {} parts of conversations, more than can be numbered; split the data set",
                placed.items.size());
  // Rows that were closed first are the fullest; what order they are read in must not depend on it.
  const bool first_fit = settings.algorithm == PackingAlgorithm::first_fit_decreasing ||
                         settings.algorithm == PackingAlgorithm::first_fit_shuffle;
  std::vector<int32_t> turn(static_cast<size_t>(placed.row_count));  // when each row is read
  if (first_fit) {
    turn = shuffled(placed.row_count, random);
  } else {
    std::iota(turn.begin(), turn.end(), 0);
  }
  EpochRows rows;
  std::vector<int64_t> next(turn.size() + 1);  // item of each row, in order of reading
  for (const int32_t row : placed.rows)
    ++next[static_cast<size_t>(turn[static_cast<size_t>(row)]) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  rows.row_ends.assign(next.begin() + 1, next.end());
  rows.conversations.resize(placed.items.size());
  rows.offsets.resize(placed.items.offsets.size());
  for (size_t i = 0; i < placed.items.size(); ++i) {
    const auto row = static_cast<size_t>(turn[static_cast<size_t>(placed.rows[i])]);
    const auto at = static_cast<size_t>(next[row]++);
    rows.conversations[at] = placed.items.conversations[i];
    if (settings.split) rows.offsets[at] = placed.items.offsets[i];
  }
  return rows;
}

}  // namespace viaduct
