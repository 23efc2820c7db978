#include "comm/rank_order_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"

namespace viaduct {
namespace {

template <class T>
std::vector<T> reduced(ReduceOp op, const std::vector<std::vector<T>>& sources) {
  std::vector<const std::byte*> pointers;
  for (const auto& source : sources)
    pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
  std::vector<T> out(sources[0].size());
  reduce_in_rank_order(dtype_of<T>, op, pointers, reinterpret_cast<std::byte*>(out.data()),
                       static_cast<int64_t>(out.size()));
  return out;
}

TEST(RankOrderSum, GoesInRankOrder) {
  const float big = 16777216;  // 2^24: adding 1 is lost, adding 2 is not
  EXPECT_EQ(reduced<float>(ReduceOp::sum, {{big}, {1}, {1}}), std::vector<float>{big});
  EXPECT_EQ(reduced<float>(ReduceOp::sum, {{1}, {1}, {big}}), std::vector<float>{big + 2});
}

TEST(RankOrderSum, RoundsOnce) {
  const bfloat16 one(1), little(0.00390625f);  // 2^-8: half a unit in the last place of 1
  const auto sum = reduced<bfloat16>(ReduceOp::sum, {{one}, {little}, {little}});
  EXPECT_EQ(static_cast<float>(sum[0]), 1.0078125f) << "rounded after each addend it stays 1";
  const auto mean = reduced<bfloat16>(ReduceOp::average, {{one}, {little}, {little}});
  EXPECT_EQ(mean[0].bits, bfloat16(1.0078125f / 3).bits);
  EXPECT_EQ(reduced<double>(ReduceOp::sum, {{1}, {1e-12}}), std::vector<double>{1 + 1e-12});
}

TEST(RankOrderSum, IntegersAreExact) {
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_EQ(reduced<int64_t>(ReduceOp::sum, {{large}, {large}}), std::vector<int64_t>{2 * large});
  EXPECT_EQ(reduced<int64_t>(ReduceOp::average, {{7}, {2}}), std::vector<int64_t>{4});
}

TEST(RankOrderSum, MaximumKeepsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(reduced<float>(ReduceOp::max, {{1, -3}, {2, -2}}), (std::vector<float>{2, -2}));
  EXPECT_TRUE(std::isnan(reduced<float>(ReduceOp::max, {{1}, {nan}, {2}})[0]));
  EXPECT_TRUE(std::isnan(reduced<float>(ReduceOp::max, {{nan}, {1}, {2}})[0]));
}

TEST(RankOrderSum, OfManyElementsIntoOneOfTheSources) {
  constexpr int64_t kElements = 5003;  // blocks and a rest
  std::vector<std::vector<float>> sources(3, std::vector<float>(kElements));
  for (size_t rank = 0; rank < 3; ++rank) {
    for (size_t i = 0; i < kElements; ++i)
      sources[rank][i] = 1.0f / static_cast<float>(i + 7 * rank + 1);
  }
  const auto expected = reduced<float>(ReduceOp::sum, sources);
  for (size_t i = 0; i < kElements; ++i)
    ASSERT_EQ(expected[i], sources[0][i] + sources[1][i] + sources[2][i]) << i;
  std::vector<const std::byte*> pointers;
  for (auto& source : sources)
    pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
  reduce_in_rank_order(DType::f32, ReduceOp::sum, pointers,
                       reinterpret_cast<std::byte*>(sources[1].data()), kElements);
  EXPECT_EQ(sources[1], expected);
}

/// The reduction rank by rank, as a chain of ranks does it.
template <class T>
std::vector<T> chained(ReduceOp op, const std::vector<std::vector<T>>& sources) {
  const DType dtype = dtype_of<T>;
  const auto count = static_cast<int64_t>(sources[0].size());
  const auto bytes = [](const std::vector<T>& v) {
    return reinterpret_cast<const std::byte*>(v.data());
  };
  std::vector<std::byte> sum(static_cast<size_t>(count * dtype_bytes(partial_sum_dtype(dtype))));
  begin_partial_sum(dtype, bytes(sources[0]), sum.data(), count);
  for (size_t rank = 1; rank < sources.size(); ++rank)
    add_to_partial_sum(dtype, op, bytes(sources[rank]), sum.data(), count);
  std::vector<T> out(sources[0].size());
  end_partial_sum(dtype, op, static_cast<int>(sources.size()), sum.data(),
                  reinterpret_cast<std::byte*>(out.data()), count);
  return out;
}

template <class T>
void expect_the_same_rank_by_rank() {
  constexpr size_t kElements = 5003, kRanks = 11;
  std::vector<std::vector<T>> sources(kRanks, std::vector<T>(kElements));
  for (size_t rank = 0; rank < kRanks; ++rank) {
    for (size_t i = 0; i < kElements; ++i) {
      const double value = std::ldexp(std::sin(static_cast<double>(i * 13 + rank * 7)),
                                      static_cast<int>((i + rank) % 12));
      if constexpr (std::is_same_v<T, int64_t>)
        sources[rank][i] = static_cast<T>(value * 1e6);
      else
        sources[rank][i] = static_cast<T>(static_cast<float>(value));
    }
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
    const std::vector<T> a = chained(op, sources), b = reduced(op, sources);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), kElements * sizeof(T)), 0) << dtype_name(dtype_of<T>);
  }
}

TEST(RankOrderSum, RankByRankIsTheSame) {
  expect_the_same_rank_by_rank<float>();
  expect_the_same_rank_by_rank<double>();
  expect_the_same_rank_by_rank<bfloat16>();
  expect_the_same_rank_by_rank<float16>();
  expect_the_same_rank_by_rank<int64_t>();
}

TEST(RankOrderSum, NamesADtypeItCannotSum) {
  const std::byte* source = nullptr;
  EXPECT_THROW(reduce_in_rank_order(DType::u8, ReduceOp::sum, {&source, 1}, nullptr, 0), CommError);
}

}  // namespace
}  // namespace viaduct
