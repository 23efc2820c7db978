// Attention sinks compared with the FP64 reference, and the reference with its definition: one more
// key whose value is zero.

#include "ops/attention_sink.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::random_strided;
using test::random_tensor;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

class AttentionSinkTest : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 3, {cpu::add_attention_sink}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, AttentionSinkTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(AttentionSinkTest, MatchesTheReference) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{7, 3, 33}, Shape{70, 5, 128}}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const DType statistic = dtype == DType::f64 ? DType::f64 : DType::f32;
      const Shape per_query{shape[1], shape[0]};
      const AttentionSinkArgs args{random_strided(dtype, shape, 3, 1),
                                   random_tensor(statistic, per_query, 2, 4),
                                   random_tensor(dtype, {shape[1]}, 3, 4)};
      test::set_element(args.lse, 0, -INFINITY);  // a query without keys
      const Tensor before = to_f64(args.out);
      AttentionSinkArgs exact{before, to_f64(args.lse), to_f64(args.sink)};
      const AttentionSinkBackwardArgs back{args.lse, random_tensor(statistic, per_query, 4),
                                           args.sink, random_tensor(statistic, {shape[1]}, 5)};
      attention_sink(context_, args);
      reference::attention_sink(exact);
      test::expect_close(args.out, exact.out, 4);
      const Tensor logits = host_tensor(DType::f64, per_query);  // each is at most 4
      test::set_values(logits, std::vector<double>(static_cast<size_t>(logits.elements()), 8));
      test::expect_close(args.lse, exact.lse, 1, logits);

      AttentionSinkBackwardArgs exact_back{to_f64(args.lse), to_f64(back.delta), to_f64(back.sink),
                                           to_f64(back.d_sink)};
      attention_sink_backward(context_, back);
      reference::attention_sink_backward(exact_back);
      const Tensor terms = host_tensor(DType::f64, {shape[1]});
      test::set_values(terms, std::vector<double>(static_cast<size_t>(shape[1]),
                                                  1 + static_cast<double>(shape[0])));
      test::expect_close(back.d_sink, exact_back.d_sink, static_cast<double>(shape[0]), terms);
    }
  }
}

/// Probabilities of two keys and a sink, by hand; and the slope of a loss with respect to the sink.
TEST_P(AttentionSinkTest, IsALogitWithoutAValue) {
  const double s0 = 0.7, s1 = -0.4, v0 = 2, v1 = -3, d_out = 1.5;
  const auto attended = [&](double sink) {
    const double plain = std::log(std::exp(s0) + std::exp(s1));
    AttentionSinkArgs args{host_tensor(DType::f64, {1, 1, 1}), host_tensor(DType::f64, {1, 1}),
                           host_tensor(DType::f64, {1})};
    test::set_values(args.out, {(std::exp(s0) * v0 + std::exp(s1) * v1) / std::exp(plain)});
    test::set_values(args.lse, {plain});
    test::set_values(args.sink, {sink});
    attention_sink(context_, args);
    return args;
  };
  const double sink = 0.3, total = std::exp(s0) + std::exp(s1) + std::exp(sink);
  const AttentionSinkArgs made = attended(sink);
  const double out = test::element(made.out, 0);
  EXPECT_NEAR(out, (std::exp(s0) * v0 + std::exp(s1) * v1) / total, 1e-12);
  EXPECT_NEAR(test::element(made.lse, 0), std::log(total), 1e-12);
  AttentionSinkBackwardArgs back{made.lse, host_tensor(DType::f64, {1, 1}), made.sink,
                                 host_tensor(DType::f64, {1})};
  test::set_values(back.delta, {d_out * out});
  test::set_values(back.d_sink, {0});
  attention_sink_backward(context_, back);
  const double step = 1e-6;
  const double slope =
      (test::element(attended(sink + step).out, 0) - test::element(attended(sink - step).out, 0)) /
      (2 * step);
  EXPECT_NEAR(test::element(back.d_sink, 0), d_out * slope, 1e-8);
}

TEST_P(AttentionSinkTest, RefusesWhatDoesNotFit) {
  const Tensor out = host_tensor(DType::f32, {2, 3, 4}), lse = host_tensor(DType::f32, {3, 2});
  EXPECT_THAT(
      [&] {
        attention_sink(context_, {out, lse, host_tensor(DType::f32, {2})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("expected sink of shape [3], got f32 [2]")));
  EXPECT_THROW(attention_sink(context_,
                              {out, host_tensor(DType::f32, {2, 3}), host_tensor(DType::f32, {3})}),
               ShapeError);
  EXPECT_THROW(attention_sink_backward(context_, {lse, lse, host_tensor(DType::f64, {3}),
                                                  host_tensor(DType::f32, {3})}),
               ShapeError);
}

}  // namespace
}  // namespace viaduct
