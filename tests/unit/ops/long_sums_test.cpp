// Sums over many terms: the error is that of a blocked sum, which grows with the square root of the
// longest chain of additions, not of the number of terms. The terms are positive, so that running
// sums are as large as possible and a single accumulator loses most.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/embedding.h"
#include "ops/gemm.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::to_f64;

/// Uniform in [0, 1].
Tensor positive(DType dtype, const Shape& shape, uint64_t seed) {
  const Tensor tensor = test::random_tensor(dtype, shape, seed);
  test::set_values(tensor, test::values(test::magnitudes(tensor)));
  return tensor;
}

/// |x − exact| / |exact| over all elements.
double relative_error(const Tensor& x, const Tensor& exact) {
  const std::vector<double> found = test::values(x), expected = test::values(exact);
  double difference = 0, size = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

/// Each of `chain` additions rounds a running sum, on average half of the whole, by up to half a
/// unit of FP32; such errors add up like a random walk.
double bound(int64_t chain) {
  return std::ldexp(0.5, -23) / 2 * std::sqrt(static_cast<double>(chain));
}

class LongSums : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{
      GetParam(), 2, {cpu::add_gemm, cpu::add_norm, cpu::add_embedding, cpu::add_optimizer}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, LongSums, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

// Blocks of a sum have at most 384 terms, in BF16 on AVX-512 768. A single FP32 sum of 2²⁴ does not
// change when 1 is added.
TEST_P(LongSums, ABlockOfAProductsSumBeginsFromZero) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const int64_t block = dtype == DType::f32 ? 384 : 768, depth = 2 * block;
    std::vector<double> terms(static_cast<size_t>(depth), 0.0);
    terms[0] = 1 << 24;
    std::fill(terms.begin() + block, terms.end(), 1.0);
    const Tensor a = host_tensor(dtype, {1, depth}), b = host_tensor(dtype, {1, depth}),
                 c = host_tensor(DType::f32, {1, 1});
    test::set_values(a, terms);
    test::set_values(b, std::vector<double>(static_cast<size_t>(depth), 1.0));
    gemm(context_, {GemmForm::forward, a, b, c});
    EXPECT_EQ(test::values(c)[0], (1 << 24) + block) << dtype_name(dtype);
  }
}

TEST_P(LongSums, Products) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const int64_t visit = dtype == DType::f32 ? 384 : 768;
    for (const int64_t depth : {4096, 262144}) {
      for (const GemmForm form : {GemmForm::forward, GemmForm::weight_gradient}) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", depth " << depth << ", form "
                                        << static_cast<int>(form));
        const bool forward = form == GemmForm::forward;
        const auto operand = [&](int64_t width, uint64_t seed) {
          return positive(dtype, forward ? Shape{width, depth} : Shape{depth, width}, seed);
        };
        GemmArgs args{form, operand(5, 1), operand(18, 2), host_tensor(DType::f32, {5, 18})};
        GemmArgs exact{form, to_f64(args.a.tensor()), to_f64(args.b.tensor()),
                       host_tensor(DType::f64, {5, 18})};
        gemm(context_, args);
        reference::gemm(exact);
        EXPECT_LE(relative_error(args.c, exact.c), bound(visit + depth / visit));
      }
    }
  }
}

// 64 micro-batches accumulated into one gradient.
TEST_P(LongSums, ProductsOfManyMicroBatches) {
  constexpr int64_t kBatches = 64, kTokens = 2048;
  const Tensor c = host_tensor(DType::f32, {5, 18}), exact = host_tensor(DType::f64, {5, 18});
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    const auto seed = static_cast<uint64_t>(2 * batch);
    const Tensor a = positive(DType::f32, {kTokens, 5}, seed);
    const Tensor b = positive(DType::f32, {kTokens, 18}, seed + 1);
    gemm(context_, {GemmForm::weight_gradient, a, b, c, {}, WriteMode::accumulate});
    reference::gemm(
        {GemmForm::weight_gradient, to_f64(a), to_f64(b), exact, {}, WriteMode::accumulate});
  }
  EXPECT_LE(relative_error(c, exact), bound(768 + 3 + kBatches));
}

TEST_P(LongSums, BiasGradient) {
  for (const int64_t rows : {4096, 262144}) {
    const Tensor x = positive(DType::f32, {rows, 9}, 1);
    const Tensor sums = host_tensor(DType::f32, {9}), exact = host_tensor(DType::f64, {9});
    column_sum(context_, {x, sums});
    reference::column_sum({to_f64(x), exact});
    // Pieces of 128 rows, four at a time; pieces of a block; blocks.
    EXPECT_LE(relative_error(sums, exact), bound(34 + 64 + 64)) << rows;
  }
}

TEST_P(LongSums, NormWeightGradient) {
  constexpr int64_t kWidth = 9;
  for (const int64_t rows : {4096, 65536}) {
    for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
      const bool layer_norm = kind == NormKind::layer_norm;
      const auto make = [&](DType dtype) {
        NormBackwardArgs args{kind};
        args.dy = test::converted(positive(DType::f32, {rows, kWidth}, 1), dtype);
        args.x = test::converted(positive(DType::f32, {rows, kWidth}, 2), dtype);
        args.weight = test::converted(positive(DType::f32, {kWidth}, 3), dtype);
        args.rstd = test::converted(positive(DType::f32, {rows}, 4), dtype);
        args.dx = host_tensor(dtype, {rows, kWidth});
        args.d_weight = host_tensor(dtype, {kWidth});
        if (layer_norm) args.mean = host_tensor(dtype, {rows});
        if (layer_norm) args.d_bias = host_tensor(dtype, {kWidth});
        return args;
      };
      const NormBackwardArgs args = make(DType::f32), exact = make(DType::f64);
      norm_backward(context_, args);
      reference::norm_backward(exact);
      // Pieces of 32 rows; pieces of a block; blocks.
      EXPECT_LE(relative_error(args.d_weight, exact.d_weight), bound(32 + 64 + 64)) << rows;
      if (layer_norm) {
        EXPECT_LE(relative_error(args.d_bias, exact.d_bias), bound(32 + 64 + 64)) << rows;
      }
    }
  }
}

// One id of nearly every token.
TEST_P(LongSums, EmbeddingGradient) {
  constexpr int64_t kTokens = 16384, kWidth = 9;
  std::vector<int64_t> ids;
  for (int64_t t = 0; t < kTokens; ++t) ids.push_back(t % 100 == 7 ? 2 : 1);
  const Tensor tokens = test::integers(DType::i32, ids);
  const Tensor d_out = positive(DType::f32, {kTokens, kWidth}, 1);
  const Tensor sums = host_tensor(DType::f32, {3, kWidth}),
               exact = host_tensor(DType::f64, {3, kWidth});
  embedding_backward(context_, {tokens, d_out, sums});
  reference::embedding_backward({tokens, to_f64(d_out), exact});
  EXPECT_LE(relative_error(sums, exact), bound(32 + 32 + 16));
}

TEST_P(LongSums, SquaredNorm) {
  const Tensor x = positive(DType::f32, {int64_t{1} << 20}, 1);
  const Tensor state = host_tensor(DType::f64, {kReproducibleSumSize});
  const Tensor value = host_tensor(DType::f64, {1});
  reproducible_sum(context_, {x, {}, true, state});
  sum_value(context_, {state, value});
  double exact = 0;
  for (const double v : test::values(x)) exact += v * v;
  EXPECT_NEAR(test::element(value, 0), exact, 1e-12 * exact);
}

}  // namespace
}  // namespace viaduct
