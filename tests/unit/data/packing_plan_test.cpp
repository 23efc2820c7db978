// Which conversations make the rows of an epoch.

#include "data/packing_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "base/error.h"
#include "data/first_fit.h"

namespace viaduct {
namespace {

constexpr PackingAlgorithm kAll[] = {PackingAlgorithm::none, PackingAlgorithm::first_fit_decreasing,
                                     PackingAlgorithm::first_fit_shuffle,
                                     PackingAlgorithm::sequential};

std::vector<int32_t> lengths_of(int64_t count, int32_t longest, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < count; ++i)
    lengths.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(longest + 1)));
  return lengths;
}

/// The rows as lists of (conversation, offset, tokens), with the rule by which parts end.
struct RowPart {
  int32_t conversation, offset;
  int64_t tokens;
};
std::vector<std::vector<RowPart>> rows_of(const EpochRows& plan,
                                          const std::vector<int32_t>& lengths,
                                          const PackingSettings& settings) {
  std::vector<std::vector<RowPart>> rows;
  size_t at = 0;
  for (const int64_t end : plan.row_ends) {
    auto& row = rows.emplace_back();
    int64_t room = settings.row_tokens;
    for (; at < static_cast<size_t>(end); ++at) {
      const int32_t conversation = plan.conversations[at];
      const int32_t offset = settings.split ? plan.offsets[at] : 0;
      const int64_t left = lengths[static_cast<size_t>(conversation)] - offset;
      const int64_t tokens = settings.split ? std::min(left, room) : left;
      row.push_back({conversation, offset, tokens});
      room -= settings.places(tokens);
      EXPECT_GE(room, 0);
      EXPECT_GT(tokens, 0);
    }
    EXPECT_FALSE(row.empty());
  }
  EXPECT_EQ(at, plan.conversations.size());
  return rows;
}

/// First fit, by its definition.
int64_t rows_by_search(std::vector<int32_t> lengths, int64_t row_tokens) {
  std::sort(lengths.rbegin(), lengths.rend());
  std::vector<int64_t> rooms;
  for (const int32_t length : lengths) {
    if (length == 0) continue;
    auto fits = std::ranges::find_if(rooms, [&](int64_t room) { return room >= length; });
    if (fits == rooms.end()) fits = rooms.insert(rooms.end(), row_tokens);
    *fits -= length;
  }
  return static_cast<int64_t>(rooms.size());
}

TEST(FirstFit, TakesTheFirstRowWithRoom) {
  std::mt19937 random(3);
  for (const int32_t room : {1, 7, 64}) {
    FirstFit fit(300, room);
    std::vector<int32_t> rooms(300, room);
    for (int i = 0; i < 300; ++i) {
      const auto size = static_cast<int32_t>(1 + random() % static_cast<unsigned>(room));
      const auto expected =
          std::ranges::find_if(rooms, [&](int32_t left) { return left >= size; }) - rooms.begin();
      ASSERT_EQ(fit.place(size), expected);
      rooms[static_cast<size_t>(expected)] -= size;
    }
  }
  FirstFit one(1, 5);
  EXPECT_EQ(one.place(5), 0);
  EXPECT_EQ(one.rows(), 1);
}

TEST(PackingPlan, HasEachConversationOnceAndNoRowOverItsSize) {
  for (const PackingAlgorithm algorithm : kAll) {
    for (const int64_t multiple : {1, 8}) {
      for (const int32_t longest : {3, 40, 64}) {
        const auto lengths = lengths_of(500, longest, 7);
        const PackingSettings settings{algorithm, 64, multiple};
        const auto rows = rows_of(plan_epoch(lengths, settings, 5, 0), lengths, settings);
        std::map<int32_t, int> seen;
        for (const auto& row : rows)
          for (const RowPart& part : row) ++seen[part.conversation];
        for (size_t i = 0; i < lengths.size(); ++i)
          EXPECT_EQ(seen[static_cast<int32_t>(i)], lengths[i] > 0 ? 1 : 0);
        if (algorithm != PackingAlgorithm::none) continue;
        for (const auto& row : rows) EXPECT_EQ(row.size(), 1u);
      }
    }
  }
}

TEST(PackingPlan, LeavesLittlePadding) {
  for (const int32_t longest : {10, 30, 64}) {
    const auto lengths = lengths_of(2000, longest, 11);
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    const auto rows = [&](PackingAlgorithm algorithm) {
      return static_cast<int64_t>(plan_epoch(lengths, {algorithm, 64}, 5, 0).row_ends.size());
    };
    const int64_t least = (tokens + 63) / 64;
    const int64_t decreasing = rows(PackingAlgorithm::first_fit_decreasing);
    EXPECT_EQ(decreasing, rows_by_search(lengths, 64));
    EXPECT_LE(decreasing, least + least / 20 + 1);
    EXPECT_LE(decreasing, rows(PackingAlgorithm::first_fit_shuffle));
    EXPECT_LE(rows(PackingAlgorithm::first_fit_shuffle), rows(PackingAlgorithm::sequential));
    EXPECT_LE(rows(PackingAlgorithm::sequential), 2 * least + 1);
  }
}

TEST(PackingPlan, IsAFunctionOfLengthsSeedAndEpoch) {
  const auto lengths = lengths_of(300, 50, 2);
  for (const PackingAlgorithm algorithm : kAll) {
    const PackingSettings settings{algorithm, 64};
    const auto conversations = [&](uint32_t seed, int64_t epoch) {
      return plan_epoch(lengths, settings, seed, epoch).conversations;
    };
    EXPECT_EQ(conversations(5, 0), conversations(5, 0));
    EXPECT_NE(conversations(5, 0), conversations(6, 0));
    EXPECT_NE(conversations(5, 0), conversations(5, 1));
  }
}

TEST(PackingPlan, ReadsFullRowsNotBeforeOthers) {
  const auto lengths = lengths_of(2000, 20, 4);
  const PackingSettings settings{PackingAlgorithm::first_fit_decreasing, 64};
  const auto rows = rows_of(plan_epoch(lengths, settings, 5, 0), lengths, settings);
  // The longest conversations are in the rows that are filled first.
  size_t first = 0, last = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const RowPart& part : rows[r]) {
      if (lengths[static_cast<size_t>(part.conversation)] != 20) continue;
      (r < rows.size() / 2 ? first : last) += 1;
    }
  }
  EXPECT_GT(first, 0u);
  EXPECT_GT(last, 0u);
}

TEST(PackingPlan, SplitsOnlyWhereAskedAndLosesNothing) {
  const auto lengths = lengths_of(100, 300, 9);
  for (const PackingAlgorithm algorithm : kAll) {
    EXPECT_THROW(plan_epoch(lengths, {algorithm, 64}, 5, 0), ShapeError);
    for (const int64_t multiple : {1, 4}) {
      const PackingSettings settings{algorithm, 64, multiple, true};
      const auto rows = rows_of(plan_epoch(lengths, settings, 5, 0), lengths, settings);
      std::map<int32_t, std::map<int32_t, int64_t>> parts;  // by conversation and offset
      for (const auto& row : rows)
        for (const RowPart& part : row) parts[part.conversation][part.offset] = part.tokens;
      for (size_t i = 0; i < lengths.size(); ++i) {
        int64_t next = 0;
        for (const auto& [offset, tokens] : parts[static_cast<int32_t>(i)]) {
          EXPECT_EQ(offset, next);
          next = offset + tokens;
        }
        EXPECT_EQ(next, lengths[i]);
      }
      if (algorithm != PackingAlgorithm::sequential || multiple > 1) continue;
      for (size_t r = 0; r + 1 < rows.size(); ++r) {
        int64_t tokens = 0;
        for (const RowPart& part : rows[r]) tokens += part.tokens;
        EXPECT_EQ(tokens, 64) << "each row but the last is full";
      }
    }
  }
}

TEST(PackingPlan, OfNothingHasNoRows) {
  for (const PackingAlgorithm algorithm : kAll) {
    EXPECT_TRUE(plan_epoch({}, {algorithm, 64}, 5, 0).row_ends.empty());
    const std::vector<int32_t> empty{0, 0};
    EXPECT_TRUE(plan_epoch(empty, {algorithm, 64}, 5, 0).row_ends.empty());
  }
  const std::vector<int32_t> one{3};
  EXPECT_THROW(plan_epoch(one, {PackingAlgorithm::none, 10, 4}, 5, 0), ShapeError);
}

}  // namespace
}  // namespace viaduct
