// Races in shared memory (race_watch.h): planted ones are found though their bits agree, correct
// kernels have none, and neither have those of the library that this program compiles.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cuda_host/race_watch.h"
#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/kernels/grouped_gemm.h"
#include "ops/cuda/kernels/kernel.h"
#include "ops/cuda/kernels/product_operands.h"
#include "ops/cuda/kernels/quantize.h"

namespace viaduct::cuda {

void launch_failed(const char* kernel, const char* reason) {
  throw ::cuda_host::Error(std::string(kernel) + ": " + reason);
}

namespace {

using ::cuda_host::emulator;
using ::cuda_host::Error;
using ::cuda_host::RaceWatch;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr uint64_t kSeeds = 3;

/// Runs `body` with each seed, in blocks of 64 threads; throws what a launch throws.
template <class Body>
int64_t run(Body body, size_t dynamic_bytes = 0) {
  RaceWatch watch;
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    emulator().set_seed(seed);
    emulator().launch(2, 64, dynamic_bytes, body);
  }
  return watch.accesses();
}

struct Words {
  int values[64];
};

/// All threads write the same number: their bits agree in each order.
void write_the_same() {
  shared<Words>().values[threadIdx.x % 32] = 7;
}
/// A thread reads what another has written before, with or without a barrier; what it reads has no
/// influence on a result.
template <class Barrier>
void read_others(int distance, Barrier&& barrier) {
  auto& words = shared<Words>();
  words.values[threadIdx.x] = static_cast<int>(threadIdx.x);
  barrier();
  volatile int unused = words.values[(threadIdx.x + static_cast<unsigned>(distance)) % 64];
  (void)unused;
}

TEST(Races, ArePlantedAndFoundThoughTheBitsAgree) {
  EXPECT_THAT([] { run(write_the_same); },
              ThrowsMessage<Error>(HasSubstr("write of a byte whose write by thread")));
  EXPECT_THAT([] { run([] { read_others(32, [] {}); }); },
              ThrowsMessage<Error>(HasSubstr("race in shared memory")));
}

TEST(Races, BarriersOfTheBlockOrderAllThreads) {
  EXPECT_GT(run([] { read_others(32, [] { __syncthreads(); }); }), 0);
}

TEST(Races, BarriersOfAWarpOrderItsLanesAlone) {
  // The lanes of the same warp, in a ring.
  const auto in_warp = [](auto barrier) {
    auto& words = shared<Words>();
    const unsigned first = threadIdx.x / 32 * 32;
    words.values[threadIdx.x] = 1;
    barrier();
    volatile int unused = words.values[first + (threadIdx.x + 1) % 32];
    (void)unused;
  };
  EXPECT_GT(run([&] { in_warp([] { __syncwarp(); }); }), 0);
  EXPECT_THROW(run([&] { in_warp([] { __shfl_sync(~0u, 1, 0); }); }), Error);
  EXPECT_THROW(run([&] { read_others(32, [] { __syncwarp(); }); }), Error);
}

TEST(Races, MemoryThatIsUsedAgainNeedsASecondBarrier) {
  const auto twice = [](bool second) {
    for (int round = 0; round < 2; ++round) {
      read_others(40, [] { __syncthreads(); });
      if (second) __syncthreads();
    }
  };
  EXPECT_GT(run([&] { twice(true); }), 0);
  EXPECT_THROW(run([&] { twice(false); }), Error);
}

TEST(Races, AtomicsMeetEachOtherButNoPlainAccess) {
  const auto count = [](bool barrier) {
    auto& words = shared<Words>();
    if (threadIdx.x == 0) words.values[0] = 0;
    if (barrier) __syncthreads();
    atomicAdd(&words.values[0], 1);
  };
  EXPECT_GT(run([&] { count(true); }), 0);
  EXPECT_THROW(run([&] { count(false); }), Error);
}

TEST(Races, CopiesBelongToTheirThreadUntilABarrier) {
  std::vector<int> from(256, 3);
  const auto copy = [&](bool barrier) {
    auto* const words = dynamic_shared<int>();
    emulator().begin_copy(words + threadIdx.x * 4, from.data() + threadIdx.x * 4, 16, 16);
    emulator().commit_copies();
    emulator().wait_for_copies(0);
    if (barrier) __syncthreads();
    volatile int unused = words[(threadIdx.x * 4 + 128) % 256];
    (void)unused;
  };
  EXPECT_GT(run([&] { copy(true); }, 1024), 0);
  EXPECT_THROW(run([&] { copy(false); }, 1024), Error);
}

/// Matrices of numbers in FP32 become codes in groups of each form.
TEST(Races, QuantizedOperandsHaveNone) {
  constexpr int64_t kRows = 144, kColumns = 136;
  std::vector<float> matrix(kRows * kColumns);
  std::mt19937 random(1);
  for (float& x : matrix) x = std::uniform_real_distribution<float>(-3, 3)(random);
  alignas(16) static uint8_t values[kRows * kColumns];
  std::vector<float> scales(kRows * kColumns);
  RaceWatch watch;
  for (const auto& [rows, columns] :
       {std::pair{1, 128}, {1, 32}, {128, 1}, {32, 1}, {128, 128}, {16, 16}}) {
    for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
      emulator().set_seed(seed);
      QuantizedRows args{{matrix.data(), Format::f32, 1, 1, {kColumns}},
                         one_matrix(kRows),
                         kColumns,
                         values,
                         kColumns,
                         false,
                         scales.data(),
                         nullptr,
                         nullptr};
      args.group_rows = rows, args.group_columns = columns;
      args.scale_row_stride = kColumns, args.scale_column_stride = 1;
      quantize(args, nullptr);
    }
  }
  EXPECT_GT(watch.accesses(), 0);
}

TEST(Races, OperandsInTheLibrarysOrderHaveNone) {
  std::vector<uint8_t> from(100 * 80, 1), to(128 * 96);
  RaceWatch watch;
  for (const bool halves : {false, true}) {
    for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
      emulator().set_seed(seed);
      OperandValues args{};
      args.from = from.data(), args.to = to.data();
      args.kept = 80, args.contracted = 100, args.kept_stride = 1, args.contracted_stride = 80;
      args.rows = 96, args.columns = 128, args.halves = halves;
      order_values(args, nullptr);
    }
  }
  EXPECT_GT(watch.accesses(), 0);
}

/// One document of rows of ones, with two heads of queries for one of keys.
struct Ones {
  static constexpr int kTokens = 100, kHeads = 2, kWidth = 64;
  struct alignas(16) Eight {
    uint16_t values[8];
  };
  static constexpr Eight kEight{{0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x3f80}};

  std::vector<Eight> q = std::vector<Eight>(kTokens * kHeads * kWidth / 8, kEight), out = q;
  std::vector<Eight> k = std::vector<Eight>(kTokens * kWidth / 8, kEight), v = k;
  std::vector<float> lse = std::vector<float>(kHeads * kTokens);
  int32_t offsets[2] = {0, kTokens};

  AttentionProblemView problem() {
    AttentionProblemView problem{};
    problem.format = Format::bf16;
    problem.documents = problem.kv_heads = 1, problem.group = kHeads;
    problem.q_offsets = problem.kv_offsets = offsets;
    problem.queries = problem.keys = kTokens;
    problem.width = problem.value_width = kWidth;
    problem.q = {q.data(), kHeads * kWidth, kWidth};
    problem.k = {k.data(), kWidth, kWidth}, problem.v = {v.data(), kWidth, kWidth};
    problem.causal = problem.wide = true, problem.scale = 0.125f;
    problem.lse = lse.data();
    return problem;
  }
};

/// Launches with each seed; `launch` throws at a race.
template <class Launch>
void expect_none(Launch&& launch) {
  RaceWatch watch;
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    emulator().set_seed(seed);
    launch();
  }
  EXPECT_GT(watch.accesses(), 0);
}

/// Copies of tiles, loads of operands, and what warps exchange.
TEST(Races, AttentionHasNone) {
  Ones ones;
  AttentionForwardView args{};
  args.problem = ones.problem();
  args.out = {ones.out.data(), Ones::kHeads * Ones::kWidth, Ones::kWidth};
  args.out_format = Format::bf16;
  expect_none([&] { attention_forward(args, nullptr); });
  // 64 / 8 for each of 100 keys.
  EXPECT_NEAR(ones.lse[Ones::kTokens - 1], 8 + std::log(100.0), 1e-3);
}

TEST(Races, TheBackwardOfAttentionHasNone) {
  Ones ones;
  for (int head = 0; head < Ones::kHeads; ++head) {
    for (int token = 0; token < Ones::kTokens; ++token)
      ones.lse[static_cast<size_t>(head * Ones::kTokens + token)] =
          8 + static_cast<float>(std::log(token + 1.0));
  }
  const std::vector<float> delta(ones.lse.size());
  std::vector<float> dq(ones.q.size() * 8), dk(ones.k.size() * 8), dv = dk;
  AttentionBackwardView args{};
  args.problem = ones.problem();
  args.d_out = {ones.out.data(), Ones::kHeads * Ones::kWidth, Ones::kWidth};
  args.delta = delta.data();
  args.dq = dq.data(), args.dk = dk.data(), args.dv = dv.data();
  expect_none([&] { attention_backward_keys(args, nullptr); });
  expect_none([&] { attention_backward_queries(args, nullptr); });
  // The first key has 1 / 1 + 1 / 2 + … + 1 / 100 of both heads' gradients, added with each seed.
  double sum = 0;
  for (int token = 1; token <= Ones::kTokens; ++token) sum += 1.0 / token;
  EXPECT_NEAR(dv[0], (kSeeds + 1) * Ones::kHeads * sum, 0.1);
  EXPECT_NE(dq.back(), 0);
}

/// Two experts of 40 and 30 rows, in the three forms: tiles that alternate between two places.
TEST(Races, ProductsOfExpertsHaveNone) {
  constexpr int64_t kRows = 70, kN = 72, kK = 80;
  const int32_t offsets[] = {0, 40, kRows};
  const std::vector<Ones::Eight> a(kRows * kK / 8, Ones::kEight), b(2 * kN * kK / 8, Ones::kEight);
  for (const GroupedForm form :
       {GroupedForm::forward, GroupedForm::data_gradient, GroupedForm::weight_gradient}) {
    const bool of_weights = form == GroupedForm::weight_gradient;
    std::vector<float> c(of_weights ? 2 * kN * kK : kRows * kK);
    GroupedProduct args{};
    args.form = form, args.c_format = Format::f32, args.format = Format::bf16;
    args.c = c.data(), args.offsets = offsets, args.experts = 2, args.rows = kRows;
    args.n = kN, args.k = kK;
    args.a = a.data(), args.b = b.data();
    args.a_stride = form == GroupedForm::forward ? kK : kN;
    args.b_stride = kK;
    args.c_stride = form == GroupedForm::forward ? kN : kK;
    expect_none([&] { grouped_gemm(args, nullptr); });
    const int64_t contracted = form == GroupedForm::forward         ? kK
                               : form == GroupedForm::data_gradient ? kN
                                                                    : 40;
    EXPECT_EQ(c[0], static_cast<float>(contracted));
  }
}

}  // namespace
}  // namespace viaduct::cuda
