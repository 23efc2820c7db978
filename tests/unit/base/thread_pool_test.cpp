#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace viaduct {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> counts(static_cast<size_t>(tasks));
      pool.run(tasks, [&](int64_t i, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        ++counts[static_cast<size_t>(i)];
      });
      for (auto& count : counts) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, RethrowsTheFirstErrorAndStaysUsable) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.run(100,
                        [](int64_t i, int) {
                          if (i == 17) throw std::runtime_error("17");
                        }),
               std::runtime_error);
  std::atomic<int> sum{0};
  pool.run(10, [&](int64_t i, int) { sum += static_cast<int>(i); });
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, NestedCallsRunOnTheWorker) {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  pool.run(4, [&](int64_t, int outer) {
    pool.run(5, [&](int64_t, int inner) {
      EXPECT_EQ(inner, outer);
      ++sum;
    });
  });
  EXPECT_EQ(sum, 20);
}

TEST(ThreadPool, ManyShortJobs) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  for (int job = 0; job < 5000; ++job) pool.run(8, [&](int64_t i, int) { sum += i; });
  EXPECT_EQ(sum, 5000 * 28);
}

// A job ends when its tasks are done; a late worker may find the next job, with another task and
// another count.
TEST(ThreadPool, LateWorkersJoinTheNextJob) {
  ThreadPool pool(4);
  for (int job = 0; job < 20000; ++job) {
    std::atomic<int> counts[9] = {};
    const int64_t tasks = 2 + job % 7;
    const bool fails = job % 50 == 49;
    try {
      pool.run(tasks, [&](int64_t i, int) {
        ++counts[i];
        if (fails && i == 1) throw std::runtime_error("1");
      });
      EXPECT_FALSE(fails);
    } catch (const std::runtime_error&) {
      EXPECT_TRUE(fails);
    }
    for (int64_t i = 0; i < 9; ++i) {
      if (fails && i > 1) continue;  // may or may not have begun
      ASSERT_EQ(counts[i], i < tasks ? 1 : 0) << "job " << job << ", task " << i;
    }
  }
}

// A worker may reach the last job only when the pool is already ending (under ThreadSanitizer).
TEST(ThreadPool, EndsWhileWorkersComeLate) {
  for (int round = 0; round < 500; ++round) {
    std::atomic<int> sum{0};
    ThreadPool pool(4);
    pool.run(2, [&](int64_t i, int) { sum += static_cast<int>(i); });
    ASSERT_EQ(sum, 1);
  }
}

}  // namespace
}  // namespace viaduct
