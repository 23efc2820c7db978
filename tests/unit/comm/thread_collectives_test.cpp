// Collectives of ranks that are threads against plain references, over sizes, dtypes and in-place
// forms.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "comm/world.h"

namespace viaduct {
namespace {

/// A value that depends on all of its arguments and is small enough for sums in f16.
double value_of(int rank, int64_t element) {
  const uint64_t mixed =
      (static_cast<uint64_t>(rank) * 7919 + static_cast<uint64_t>(element)) * 0x9e3779b97f4a7c15ull;
  return static_cast<double>(mixed >> 40) / (1 << 20) - 8;
}

void set(const Tensor& tensor, int64_t element, double value) {
  if (tensor.dtype() == DType::i64) tensor.data<int64_t>()[element] = std::llround(value * 1000);
  dispatch_floating(tensor.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, double>)
      tensor.data<T>()[element] = value;
    else
      tensor.data<T>()[element] = static_cast<T>(static_cast<float>(value));
  });
}

Tensor filled(DType dtype, const Shape& shape, int rank) {
  Tensor tensor = host_tensor(dtype, shape);
  if (dtype == DType::u8) {
    for (int64_t i = 0; i < tensor.elements(); ++i)
      static_cast<uint8_t*>(tensor.raw())[i] = static_cast<uint8_t>(rank * 31 + i);
  }
  for (int64_t i = 0; i < tensor.elements(); ++i) set(tensor, i, value_of(rank, i));
  return tensor;
}

template <class T, class Acc>
void reduce_element(ReduceOp op, const std::vector<Tensor>& in, int64_t element, T* out) {
  Acc sum = static_cast<Acc>(in[0].data<T>()[element]);
  for (size_t rank = 1; rank < in.size(); ++rank) {
    const Acc value = static_cast<Acc>(in[rank].data<T>()[element]);
    sum = op == ReduceOp::max ? std::max(sum, value) : sum + value;
  }
  if (op == ReduceOp::average) sum /= static_cast<Acc>(in.size());
  *out = static_cast<T>(sum);
}

/// Sums element by element in rank order, as the contract says.
Tensor reduced(DType dtype, const Shape& shape, int ranks, ReduceOp op) {
  std::vector<Tensor> in;
  for (int rank = 0; rank < ranks; ++rank) in.push_back(filled(dtype, shape, rank));
  Tensor out = host_tensor(dtype, shape);
  for (int64_t i = 0; i < out.elements(); ++i) {
    if (dtype == DType::i64) reduce_element<int64_t, int64_t>(op, in, i, out.data<int64_t>() + i);
    dispatch_floating(dtype, [&](auto type) {
      using T = decltype(type);
      using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
      reduce_element<T, Acc>(op, in, i, out.data<T>() + i);
    });
  }
  return out;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

Tensor copy_of(const Tensor& tensor) {
  Tensor copy = host_tensor(tensor.dtype(), tensor.shape());
  std::memcpy(copy.raw(), tensor.raw(), static_cast<size_t>(tensor.bytes()));
  return copy;
}

class ThreadCollectives : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  void run(RankMain rank_main) { run_thread_ranks(ranks(), {.timeout_seconds = 60}, rank_main); }
};

// Sizes small enough for the caller to do the work, odd, and large enough for progress threads.
constexpr std::array<int64_t, 5> kSizes{0, 1, 37, 5003, 40001};

TEST_P(ThreadCollectives, AllReduce) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
      std::vector<Tensor> expected;
      for (const int64_t size : kSizes) expected.push_back(reduced(dtype, {size}, ranks(), op));
      run([&](auto world) {
        for (const Tensor& sum : expected) {
          const Tensor tensor = filled(dtype, sum.shape(), world->rank());
          world->all_reduce(tensor, op).wait();
          EXPECT_TRUE(same(tensor, sum)) << describe(sum) << " op " << static_cast<int>(op);
        }
      });
    }
  }
}

TEST_P(ThreadCollectives, ReduceScatter) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) {
    for (const int64_t size : kSizes) {
      const Tensor all = reduced(dtype, {size * ranks()}, ranks(), ReduceOp::sum);
      run([&](auto world) {
        for (const bool in_place : {false, true}) {
          const Tensor in = filled(dtype, {size * ranks()}, world->rank());
          const Tensor original = copy_of(in);
          const Tensor run = in.slice(0, world->rank() * size, size);
          const Tensor out = in_place ? run : host_tensor(dtype, {size});
          world->reduce_scatter(in, out).wait();
          EXPECT_TRUE(same(out, all.slice(0, world->rank() * size, size))) << describe(out);
          if (in_place && size > 0)  // the other runs are only inputs
            std::memcpy(run.raw(), original.slice(0, world->rank() * size, size).raw(),
                        static_cast<size_t>(run.bytes()));
          EXPECT_TRUE(same(in, original));
        }
      });
    }
  }
}

TEST_P(ThreadCollectives, AllGather) {
  run([&](auto world) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::u8}) {
      for (const int64_t size : kSizes) {
        for (const bool in_place : {false, true}) {
          const Tensor out = host_tensor(dtype, {size * ranks(), 3});
          Tensor in = filled(dtype, {size, 3}, world->rank());
          if (in_place) {
            const Tensor run = out.slice(0, world->rank() * size, size);
            if (size > 0) std::memcpy(run.raw(), in.raw(), static_cast<size_t>(in.bytes()));
            in = run;
          }
          world->all_gather(in, out).wait();
          for (int rank = 0; rank < ranks(); ++rank)
            EXPECT_TRUE(same(out.slice(0, rank * size, size), filled(dtype, {size, 3}, rank)))
                << size << " from " << rank;
        }
      }
    }
  });
}

// Rank a sends (a + 2 b) % 4 · scale rows to rank b: none, some and unequal numbers.
TEST_P(ThreadCollectives, AllToAllWithUnevenRows) {
  run([&](auto world) {
    for (const int64_t scale : {1, 3, 9001}) {
      const auto rows = [&](int from, int to) { return (from + 2 * to) % 4 * scale; };
      std::vector<int64_t> send, receive;
      for (int rank = 0; rank < ranks(); ++rank) {
        send.push_back(rows(world->rank(), rank));
        receive.push_back(rows(rank, world->rank()));
      }
      const auto total = [](const auto& list) {
        return std::accumulate(list.begin(), list.end(), int64_t{0});
      };
      const Tensor in = filled(DType::f32, {total(send), 5}, world->rank());
      const Tensor out = host_tensor(DType::f32, {total(receive), 5});
      world->all_to_all(in, out, send, receive).wait();
      int64_t at = 0;
      for (int from = 0; from < ranks(); ++from) {
        int64_t theirs = 0, before = 0;
        for (int to = 0; to < ranks(); ++to) {
          if (to < world->rank()) before += rows(from, to);
          theirs += rows(from, to);
        }
        const int64_t mine = rows(from, world->rank());
        EXPECT_TRUE(same(out.slice(0, at, mine),
                         filled(DType::f32, {theirs, 5}, from).slice(0, before, mine)));
        at += mine;
      }
    }
  });
}

TEST_P(ThreadCollectives, BroadcastFromEveryRank) {
  run([&](auto world) {
    for (int root = 0; root < ranks(); ++root) {
      for (const int64_t size : kSizes) {
        const Tensor tensor = filled(DType::f16, {size}, world->rank());
        world->broadcast(tensor, root).wait();
        EXPECT_TRUE(same(tensor, filled(DType::f16, {size}, root)));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadCollectives, testing::Values(1, 2, 3, 4, 5));

// Checks that sums in another order, or in BF16, would differ: otherwise the reference above could
// not detect them.
TEST(ThreadCollectivesOrder, SumsAreInRankOrderAndRoundedOnce) {
  run_thread_ranks(3, {}, [](auto world) {
    Tensor f32 = host_tensor(DType::f32, {1}), bf16 = host_tensor(DType::bf16, {1});
    constexpr std::array<float, 3> values{1.0f, 1e8f, -1e8f};
    f32.data<float>()[0] = values[static_cast<size_t>(world->rank())];
    world->all_reduce(f32, ReduceOp::sum).wait();
    EXPECT_EQ(f32.data<float>()[0], 0);  // (1 + 1e8) − 1e8, not 1 + (1e8 − 1e8)
    constexpr std::array<float, 3> small{256.0f, 1.0f, 1.0f};
    bf16.data<bfloat16>()[0] = bfloat16(small[static_cast<size_t>(world->rank())]);
    world->all_reduce(bf16, ReduceOp::sum).wait();
    EXPECT_EQ(static_cast<float>(bf16.data<bfloat16>()[0]), 258);  // 256 if rounded after each
  });
}

TEST(ThreadCollectivesOrder, NanOfAnyRankSurvivesTheMaximum) {
  for (const int bad : {0, 1, 2}) {
    run_thread_ranks(3, {}, [&](auto world) {
      Tensor tensor = host_tensor(DType::f32, {1});
      tensor.data<float>()[0] = world->rank() == bad ? std::nanf("") : 1.0f;
      world->all_reduce(tensor, ReduceOp::max).wait();
      EXPECT_TRUE(std::isnan(tensor.data<float>()[0]));
    });
  }
}

}  // namespace
}  // namespace viaduct
