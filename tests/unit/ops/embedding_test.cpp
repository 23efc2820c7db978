// Look-up of embedding rows and its gradient against the FP64 reference, over parts of the
// vocabulary, and the gradient's independence of threads.

#include "ops/embedding.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_close;
using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr DType kAll[] = {DType::f32, DType::bf16, DType::f16, DType::f64};

/// Token ids with repeats, some below and some above the rows [first, first + rows).
Tensor some_ids(int64_t tokens, int64_t first, int64_t rows) {
  std::vector<int64_t> ids;
  for (int64_t t = 0; t < tokens; ++t) ids.push_back(first - 2 + (t * 7) % (rows + 4));
  return test::integers(DType::i32, ids);
}

class EmbeddingTest : public testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 2, {cpu::add_embedding}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, EmbeddingTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(EmbeddingTest, ForwardMatchesTheReference) {
  for (int64_t width : {1, 7, 64, 130}) {
    for (DType dtype : kAll) {
      for (DType out : {dtype, dtype == DType::f64 ? DType::f64 : DType::f32}) {
        for (WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
          for (int64_t first_row : {0, 100}) {
            const EmbeddingForwardArgs args{some_ids(45, first_row, 11),
                                            random_tensor(dtype, {11, width}, 1),
                                            random_strided(out, {45, width}, 3, 2),
                                            first_row,
                                            1.7,
                                            mode};
            EmbeddingForwardArgs exact = args;
            exact.weight = to_f64(args.weight), exact.out = to_f64(args.out);
            EmbeddingForwardArgs sums = args;
            sums.weight = test::magnitudes(args.weight), sums.out = test::magnitudes(args.out);
            embedding_forward(context_, args);
            reference::embedding_forward(exact);
            reference::embedding_forward(sums);
            expect_close(args.out, exact.out, 2, sums.out);
          }
        }
      }
    }
  }
}

TEST_P(EmbeddingTest, BackwardMatchesTheReference) {
  for (int64_t width : {1, 7, 64, 300}) {
    for (DType dtype : kAll) {
      for (WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        for (int64_t first_row : {0, 100}) {
          const DType sum = dtype == DType::f64 ? DType::f64 : DType::f32;
          const EmbeddingBackwardArgs args{some_ids(145, first_row, 11),
                                           random_strided(dtype, {145, width}, 3, 1),
                                           random_tensor(sum, {11, width}, 2),
                                           first_row,
                                           0.3,
                                           mode};
          EmbeddingBackwardArgs exact = args;
          exact.d_out = to_f64(args.d_out), exact.d_weight = to_f64(args.d_weight);
          EmbeddingBackwardArgs sums = args;
          sums.d_out = test::magnitudes(args.d_out);
          sums.d_weight = test::magnitudes(args.d_weight);
          embedding_backward(context_, args);
          reference::embedding_backward(exact);
          reference::embedding_backward(sums);
          expect_close(args.d_weight, exact.d_weight, 145, sums.d_weight);
        }
      }
    }
  }
}

TEST_P(EmbeddingTest, GradientBitsDoNotDependOnThreads) {
  const Tensor ids = some_ids(500, 0, 11), d_out = random_tensor(DType::bf16, {500, 300}, 1);
  const Tensor expected = random_tensor(DType::f32, {11, 300}, 2);
  const Tensor start = test::converted(expected, DType::f32);
  embedding_backward(context_, {ids, d_out, expected});
  for (int threads : {1, 3}) {
    OpMachine other(GetParam(), threads, {cpu::add_embedding});
    OpContext context = other.context();
    const Tensor d_weight = test::converted(start, DType::f32);
    embedding_backward(context, {ids, d_out, d_weight});
    expect_same_bits(d_weight, expected);
  }
}

TEST_P(EmbeddingTest, PaddingTakesNoGradient) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor ids = some_ids(60, 0, 11), without = host_tensor(DType::i32, {60});
    for (int64_t t = 0; t < 60; ++t) {
      const int32_t id = ids.data<int32_t>()[t];
      without.data<int32_t>()[t] = id == 4 ? -1 : id;
    }
    const Tensor d_out = random_tensor(dtype, {60, 20}, 1);
    const Tensor got = random_tensor(dtype, {11, 20}, 2),
                 expected = random_tensor(dtype, {11, 20}, 3);
    embedding_backward(context_, {ids, d_out, got, 0, 1, WriteMode::assign, 4});
    embedding_backward(context_, {without, d_out, expected, 0, 1, WriteMode::assign});
    expect_same_bits(got, expected);
  }
}

TEST_P(EmbeddingTest, NoTokensAndNoRows) {
  const Tensor none = host_tensor(DType::i32, {0});
  const Tensor d_weight = random_tensor(DType::f32, {5, 8}, 1);
  embedding_backward(context_,
                     {none, host_tensor(DType::f32, {0, 8}), d_weight, 0, 1, WriteMode::assign});
  expect_same_bits(d_weight, host_tensor(DType::f32, {5, 8}));
  const Tensor out = random_tensor(DType::f32, {2, 8}, 1);
  embedding_forward(context_,
                    {test::integers(DType::i32, {0, -1}), host_tensor(DType::f32, {0, 8}), out});
  expect_same_bits(out, host_tensor(DType::f32, {2, 8}));
}

TEST_P(EmbeddingTest, RefusesWhatDoesNotFit) {
  const Tensor ids = test::integers(DType::i32, {0, 1});
  const Tensor weight = host_tensor(DType::bf16, {5, 8});
  EXPECT_THAT(
      [&] {
        embedding_forward(context_, {ids, weight, host_tensor(DType::bf16, {3, 8})});
      },
      ThrowsMessage<ShapeError>(
          HasSubstr("embedding_forward: expected out of shape [2, 8], got bf16 [3, 8]")));
  EXPECT_THROW(embedding_forward(context_, {ids, weight, host_tensor(DType::f16, {2, 8})}),
               ShapeError);
  EXPECT_THROW(embedding_forward(context_, {test::integers(DType::i64, {0, 1}), weight,
                                            host_tensor(DType::bf16, {2, 8})}),
               ShapeError);
  EXPECT_THROW(embedding_backward(context_, {ids, host_tensor(DType::bf16, {2, 8}),
                                             host_tensor(DType::bf16, {5, 8})}),
               ShapeError);
}

}  // namespace
}  // namespace viaduct
