// Rows of each step: the sizes of a ramp, their sums, and invalid settings.

#include "optim/batch_schedule.h"

#include <gmock/gmock.h>

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Step by step, as a run consumes rows: the closed forms must agree with this.
struct Walk {
  std::vector<int64_t> rows, consumed{0};
};
Walk walk(const BatchSchedule& schedule, int64_t steps) {
  Walk w;
  for (int64_t i = 0; i < steps; ++i) {
    w.rows.push_back(schedule.rows_at(w.consumed.back()));
    w.consumed.push_back(w.consumed.back() + w.rows.back());
  }
  return w;
}

BatchSchedule ramp(int64_t start, int64_t increment, int64_t samples, int64_t full,
                   int64_t multiple = 1, bool round_down = false) {
  return BatchSchedule({full, BatchRamp{start, increment, samples}, multiple, round_down});
}

TEST(BatchSchedule, GrowsInEqualPartsOfTheRowsAsMegatronsDoes) {
  // Three increments over 24 rows: 2 rows a step up to row 8, 4 up to 16, 6 up to 24, then 8.
  EXPECT_THAT(walk(ramp(2, 2, 24, 8), 11).rows, ElementsAre(2, 2, 2, 2, 4, 4, 6, 6, 8, 8, 8));
  // Steps that cross a border keep their size.
  EXPECT_THAT(walk(ramp(4, 4, 10, 8), 5).rows, ElementsAre(4, 4, 4, 8, 8));
}

TEST(BatchSchedule, WithoutRampEveryStepIsFull) {
  EXPECT_THAT(walk(BatchSchedule(8), 3).rows, ElementsAre(8, 8, 8));
  EXPECT_THAT(walk(ramp(2, 2, 0, 8), 2).rows, ElementsAre(8, 8));
  EXPECT_THAT(walk(ramp(8, 2, 24, 8), 2).rows, ElementsAre(8, 8));
}

TEST(BatchSchedule, RoundsDownToWhatTheDataRanksTakeAtOnce) {
  EXPECT_THAT(walk(ramp(3, 2, 24, 9, 2, true), 12).rows,
              ElementsAre(2, 2, 2, 2, 4, 4, 6, 6, 8, 8, 8, 8));
  EXPECT_EQ(BatchSchedule({9, {}, 2, true}).full(), 8);
}

TEST(BatchSchedule, SumsAreThoseOfTheSteps) {
  for (const BatchSchedule& schedule :
       {BatchSchedule(5), ramp(2, 2, 24, 8), ramp(1, 3, 100, 31), ramp(3, 2, 24, 9, 2, true)}) {
    const Walk w = walk(schedule, 60);
    for (size_t from = 0; from < 30; ++from) {
      for (size_t to = from; to < w.consumed.size(); ++to) {
        EXPECT_EQ(schedule.samples_after(static_cast<int64_t>(to - from), w.consumed[from]),
                  w.consumed[to]);
      }
      for (int64_t samples = w.consumed[from]; samples < w.consumed[50]; ++samples) {
        const int64_t steps = schedule.steps_within(samples, w.consumed[from]);
        const auto last = from + static_cast<size_t>(steps);
        EXPECT_TRUE(w.consumed[last] <= samples && samples < w.consumed[last + 1])
            << samples << " from " << from;
      }
    }
  }
}

TEST(BatchSchedule, ListsItsSizes) {
  const auto sizes = ramp(2, 2, 24, 8).sizes();
  ASSERT_EQ(sizes.size(), 4u);
  EXPECT_EQ(sizes[0].first_step, 1);
  EXPECT_EQ(sizes[1].first_step, 5);
  EXPECT_EQ(sizes[3].first_step, 9);
  EXPECT_EQ(sizes[3].rows, 8);
  EXPECT_EQ(BatchSchedule(8).sizes().size(), 1u);
}

TEST(BatchSchedule, LongRunsAreNumbers) {
  const BatchSchedule schedule = ramp(1, 1, 100'000'000'000, 1 << 24);
  const int64_t rows = schedule.samples_after(10'000'000'000);
  EXPECT_GT(rows, 0);
  EXPECT_EQ(schedule.rows_at(rows), 1 << 24);
}

TEST(BatchSchedule, SaysWhatDoesNotFit) {
  const auto problem_of = [](const BatchSchedule& schedule) {
    const auto found = schedule.problems();
    return found.empty() ? std::string() : found.front();
  };
  EXPECT_THAT(ramp(2, 2, 24, 8).problems(), IsEmpty());
  EXPECT_THAT(problem_of(ramp(9, 2, 24, 8)), HasSubstr("starts with 9 rows, above"));
  EXPECT_THAT(problem_of(ramp(2, 4, 24, 8)), HasSubstr("8 - 2 = 6 is not a multiple"));
  EXPECT_THAT(problem_of(ramp(0, 2, 24, 8)), HasSubstr("at least 1"));
  EXPECT_THAT(problem_of(ramp(2, 0, 24, 8)), HasSubstr("at least 1"));
  EXPECT_THAT(problem_of(ramp(2, 3, 24, 8, 2)), HasSubstr("start 2 and increment 3"));
  EXPECT_THAT(problem_of(ramp(3, 1, 24, 8, 4, true)), HasSubstr("3 rows at the start are below"));
  EXPECT_THAT(problem_of(BatchSchedule({3, {}, 4, true})), HasSubstr("rounded down"));
}

}  // namespace
}  // namespace viaduct
