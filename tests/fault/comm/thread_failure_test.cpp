// A failing rank ends all others with its own error, and no rank reads memory of a rank that has
// ended.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "comm/world.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const WorldOptions kPatient{.timeout_seconds = 60};

/// The message of the E that `f` throws.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing thrown";
}

/// A tensor that records when and where it is freed, and is unreadable afterwards.
struct Watched {
  std::vector<float> memory;
  std::atomic<bool> released{false};
  std::thread::id released_by;

  Tensor tensor(int64_t elements, float value) {
    memory.assign(static_cast<size_t>(elements), value);
    auto storage = std::make_shared<Storage>(memory.data(), elements * 4, [this](Storage&) {
      std::fill(memory.begin(), memory.end(), -1e30f);
      released_by = std::this_thread::get_id();
      released.store(true);
    });
    return {std::move(storage), DType::f32, {elements}};
  }
  void wait_until_released() const {
    while (!released.load()) std::this_thread::yield();
  }
};

TEST(ThreadFailure, AllOthersLeaveWithTheFirstCauseAndItIsThrownWithItsType) {
  std::array<std::string, 4> heard;
  const auto program = [&](std::shared_ptr<Communicator> world) {
    const auto rank = static_cast<size_t>(world->rank());
    const auto pair = world->split(rank < 2 ? std::vector{0, 1} : std::vector{2, 3}, "pair");
    if (rank == 3) throw IoError("the disk is full");
    const Tensor tensor = host_tensor(DType::f32, {3});
    try {
      // Three different operations, only one of which involves rank 3.
      if (rank == 0) world->all_reduce(tensor, ReduceOp::sum).wait();
      if (rank == 1) pair->receive(tensor, 0, Flow::gradients).wait();
      if (rank == 2) pair->barrier();
    } catch (const CommError& error) {
      heard[rank] = error.what();
      throw;
    }
  };
  const std::string thrown = message_of<IoError>([&] { run_thread_ranks(4, kPatient, program); });
  EXPECT_EQ(thrown, "rank 3: the disk is full");
  // Before or after it was posted, whichever happens first.
  EXPECT_THAT(heard[0], StartsWith("all_reduce over world"));
  EXPECT_THAT(heard[0], HasSubstr("on rank 0: rank 3: the disk is full"));
  EXPECT_THAT(heard[1], HasSubstr("rank 3: the disk is full"));
  EXPECT_THAT(heard[2], HasSubstr("rank 3: the disk is full"));
}

TEST(ThreadFailure, NothingStartsAfterAFailure) {
  std::atomic<bool> failed{false};
  std::string second;
  EXPECT_THROW(run_thread_ranks(2, kPatient,
                                [&](auto world) {
                                  if (world->rank() == 0) {
                                    world->fail_all("out of ideas");
                                    failed.store(true);
                                    return;
                                  }
                                  while (!failed.load()) std::this_thread::yield();
                                  second = message_of<CommError>([&] {
                                    world->all_reduce(host_tensor(DType::f32, {1}), ReduceOp::sum);
                                  });
                                }),
               CommError);
  EXPECT_THAT(second, HasSubstr("all_reduce over world"));
  EXPECT_THAT(second, HasSubstr("rank 0: out of ideas"));
}

TEST(ThreadFailure, FailAllIsThrownWithTheRankThatCalledIt) {
  const std::string thrown = message_of<CommError>([] {
    run_thread_ranks(3, kPatient, [](auto world) {
      if (world->rank() == 1) world->fail_all("out of ideas");
      world->barrier();
    });
  });
  EXPECT_EQ(thrown, "rank 1: out of ideas");
}

/// Leaves its work because of `cause`, and meets the others for a sum of 1 from each.
double sum_after_failure(Communicator& world, std::string_view cause, double seconds) {
  world.fail_all(cause);
  return world.reconnect(seconds)->host().sum(1);
}

// As a rank that fails in a step does, while the others wait for it there.
TEST(ThreadFailure, RanksThatHaveLeftTheirWorkMeetAgain) {
  std::array<double, 3> sums{};
  const std::string thrown = message_of<IoError>([&] {
    run_thread_ranks(3, kPatient, [&](auto world) {
      const auto rank = static_cast<size_t>(world->rank());
      try {
        if (rank == 1) throw IoError("lost");
        world->all_reduce(host_tensor(DType::f32, {8}), ReduceOp::sum).wait();
      } catch (const Error& error) {
        sums[rank] = sum_after_failure(*world, error.what(), 60);
        throw;
      }
    });
  });
  EXPECT_EQ(thrown, "rank 1: lost");
  EXPECT_THAT(sums, testing::Each(3));
}

TEST(ThreadFailure, ARankThatHasEndedIsNotWaitedFor) {
  std::string met;
  const std::string thrown = message_of<IoError>([&] {
    run_thread_ranks(2, kPatient, [&](auto world) {
      if (world->rank() == 1) throw IoError("lost");
      while (world->failure().empty()) std::this_thread::yield();
      met = message_of<CommError>([&] { sum_after_failure(*world, "rank 1: lost", 60); });
    });
  });
  EXPECT_EQ(thrown, "rank 1: lost");
  EXPECT_THAT(met, HasSubstr("rank 1 ended without it"));
}

TEST(ThreadFailure, EveryProblemOfAConfigurationErrorSurvives) {
  try {
    run_thread_ranks(2, kPatient, [](auto world) {
      if (world->rank() == 1) throw ConfigError(std::vector<std::string>{"one", "two"});
      world->barrier();
    });
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems(), (std::vector<std::string>{"rank 1: one", "rank 1: two"}));
  }
}

// An error that all ranks throw already has the number of the rank that began it.
TEST(ThreadFailure, ARankIsNamedOnce) {
  const auto thrown_by_all = [](const std::string& text) {
    return message_of<IoError>(
        [&] { run_thread_ranks(2, kPatient, [&](auto) { throw IoError(text); }); });
  };
  EXPECT_EQ(thrown_by_all("rank 1: the disk is full"), "rank 1: the disk is full");
  EXPECT_THAT(thrown_by_all("rank and file: none"),
              testing::MatchesRegex("rank [01]: rank and .*"));
  EXPECT_THAT(thrown_by_all("rank 1 is full"), testing::MatchesRegex("rank [01]: rank 1 is full"));
  try {
    run_thread_ranks(2, kPatient, [](auto world) {
      if (world->rank() == 1) throw ConfigError(std::vector<std::string>{"rank 0: one", "two"});
      world->barrier();
    });
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems(), (std::vector<std::string>{"rank 0: one", "rank 1: two"}));
  }
}

TEST(ThreadFailure, OtherTypesPassUnchanged) {
  EXPECT_THROW(run_thread_ranks(2, kPatient,
                                [](auto world) {
                                  if (world->rank() == 1) throw std::bad_alloc();
                                  world->barrier();
                                }),
               std::bad_alloc);
  EXPECT_THROW(run_thread_ranks(2, kPatient,
                                [](auto world) {
                                  if (world->rank() == 1) throw 5;
                                  world->barrier();
                                }),
               int);
}

// Rank 1 unwinds with an operation that has not begun. Its buffer is freed at once, on its own
// thread, and rank 0 does not read it later.
TEST(ThreadFailure, AnOperationThatHasNotBegunIsLeftAtOnce) {
  Watched gone;
  std::thread::id rank_1;
  std::vector<float> mine;
  const std::string thrown = message_of<IoError>([&] {
    run_thread_ranks(2, kPatient, [&](auto world) {
      if (world->rank() == 1) {
        rank_1 = std::this_thread::get_id();
        CommHandle handle = world->all_reduce(gone.tensor(100000, 1), ReduceOp::sum);
        throw IoError("lost");
      }
      gone.wait_until_released();
      Tensor tensor = host_tensor(DType::f32, {100000});
      EXPECT_THAT(message_of<CommError>([&] { world->all_reduce(tensor, ReduceOp::sum).wait(); }),
                  HasSubstr("rank 1: lost"));
      mine.assign(tensor.data<float>(), tensor.data<float>() + 100000);
    });
  });
  EXPECT_EQ(thrown, "rank 1: lost");
  EXPECT_EQ(gone.released_by, rank_1);
  EXPECT_EQ(mine, std::vector<float>(100000, 0.0f));
}

// The same with rows by number: neither rows nor numbers of a rank that has ended are read.
TEST(ThreadFailure, AnExchangeByNumberIsLeftAtOnce) {
  Watched rows, numbers;
  const std::vector<int64_t> each{500, 500};
  const std::string thrown = message_of<IoError>([&] {
    run_thread_ranks(2, kPatient, [&](auto world) {
      const Tensor out = host_tensor(DType::f32, {1000, 4});
      if (world->rank() == 1) {
        const Tensor in = rows.tensor(4000, 1).view({1000, 4});
        const Tensor order(numbers.tensor(1000, 0).storage(), DType::i32, {1000});
        CommHandle handle = world->all_to_all(in, out, each, each, {order, {}});
        throw IoError("lost");
      }
      rows.wait_until_released();
      numbers.wait_until_released();
      const Tensor in = host_tensor(DType::f32, {1000, 4});
      EXPECT_THAT(message_of<CommError>([&] { world->all_to_all(in, out, each, each).wait(); }),
                  AllOf(HasSubstr("all_to_all over world"), HasSubstr("rank 1: lost")));
      for (int64_t i = 0; i < out.elements(); ++i) ASSERT_EQ(out.data<float>()[i], 0);
    });
  });
  EXPECT_EQ(thrown, "rank 1: lost");
}

// All have joined when rank 1 unwinds: the operation first completes correctly on all ranks.
TEST(ThreadFailure, AnOperationThatHasBegunIsFinishedFirst) {
  Watched gone;
  std::thread::id rank_1;
  std::atomic<bool> started{false};
  EXPECT_THROW(run_thread_ranks(2, kPatient,
                                [&](auto world) {
                                  constexpr int64_t kElements = 3000000;
                                  if (world->rank() == 1) {
                                    rank_1 = std::this_thread::get_id();
                                    while (!started.load()) std::this_thread::yield();
                                    CommHandle handle =
                                        world->all_reduce(gone.tensor(kElements, 2), ReduceOp::sum);
                                    throw IoError("lost");
                                  }
                                  Tensor tensor = host_tensor(DType::f32, {kElements});
                                  CommHandle handle = world->all_reduce(tensor, ReduceOp::sum);
                                  started.store(true);
                                  gone.wait_until_released();
                                  EXPECT_TRUE(handle.ready());
                                  for (int64_t i = 0; i < kElements; ++i)
                                    ASSERT_EQ(tensor.data<float>()[i], 2) << i;
                                }),
               IoError);
  EXPECT_EQ(gone.released_by, rank_1);
}

TEST(ThreadFailure, ABufferIsReleasedOnItsRanksThreadAfterAnOrdinaryEnd) {
  std::array<Watched, 3> watched;
  run_thread_ranks(3, kPatient, [&](auto world) {
    Watched& mine = watched[static_cast<size_t>(world->rank())];
    CommHandle handle = world->all_reduce(mine.tensor(200000, 1), ReduceOp::sum);
    handle.wait();
    EXPECT_TRUE(mine.released.load());
    EXPECT_EQ(mine.released_by, std::this_thread::get_id());
  });
}

}  // namespace
}  // namespace viaduct
