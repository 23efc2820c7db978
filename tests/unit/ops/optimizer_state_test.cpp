// Kernels of optimizer state compared with its exact host code, and AdamW over it compared with
// AdamW in FP32.

#include "ops/optimizer_state.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "ops/optimizer.h"
#include "support/op_testing.h"
#include "support/tensor_bytes.h"
#include "tensor/number_formats.h"
#include "tensor/state_rounding.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::OpMachine;

constexpr DType kFormats[] = {DType::bf16, DType::f16, DType::e4m3, DType::i16};

StateValues state_of(DType format, int64_t count) {
  return {host_tensor(format, {count}),
          has_state_scales(format) ? host_tensor(DType::f32, {state_groups(count)}) : Tensor(),
          format == DType::i16 ? host_tensor(DType::bf16, {count}) : Tensor()};
}

/// Computed by the host code.
void encode(const Tensor& values, const StateValues& state) {
  if (state.coded()) return encode_state(values, state);
  for (int64_t i = 0; i < values.elements(); ++i)
    state.values.data<bfloat16>()[i] = bfloat16(values.data<float>()[i]);
}
Tensor decode(const StateValues& state) {
  if (state.coded()) return decoded_state(state);
  return state.values.dtype() == DType::f32 ? state.values
                                            : test::converted(state.values, DType::f32);
}

void expect_same(const StateValues& a, const StateValues& b, const char* what) {
  EXPECT_TRUE(bytes_of(a.values) == bytes_of(b.values)) << what;
  if (a.scales) {
    EXPECT_TRUE(bytes_of(a.scales) == bytes_of(b.scales)) << what << ", scales";
  }
  if (a.weights) {
    EXPECT_TRUE(bytes_of(a.weights) == bytes_of(b.weights)) << what << ", weights";
  }
}

class OptimizerStateOps : public ::testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 2, {cpu::add_optimizer, cpu::add_optimizer_state}};
};

TEST_P(OptimizerStateOps, AreTheHostCode) {
  OpContext context = machine_.context();
  for (const DType format : kFormats) {
    for (const int64_t count : {1, 63, 64, 65, 1003, 70001}) {
      SCOPED_TRACE(std::string(dtype_name(format)) + " " + std::to_string(count));
      const Tensor values = test::random_tensor(DType::f32, {count}, 5, 3);
      const StateValues mine = state_of(format, count), expected = state_of(format, count);
      encode(values, expected);
      store_state(context, {values, mine.values, mine.scales, mine.weights});
      expect_same(mine, expected, "stored");
      const Tensor out = host_tensor(DType::f32, {count});
      expand_state(context, {mine.values, mine.scales, mine.weights, out});
      EXPECT_TRUE(bytes_of(out) == bytes_of(decode(expected)));
      store_state(context, {{}, mine.values, mine.scales, mine.weights});
      expand_state(context, {mine.values, mine.scales, mine.weights, out});
      EXPECT_TRUE(bytes_of(out) == bytes_of(host_tensor(DType::f32, {count}))) << "zeros";
    }
  }
}

/// Groups whose first element makes the scale 1, filled with numbers that are hard to round: every
/// E4M3 number, the midpoint to the next one, and the FP32 numbers beside these.
TEST_P(OptimizerStateOps, RoundEveryE4m3Border) {
  std::vector<float> hard;
  for (int code = 0; code < 0x7e; ++code) {
    float8_e4m3 low, high;
    low.bits = static_cast<uint8_t>(code), high.bits = static_cast<uint8_t>(code + 1);
    const float a = static_cast<float>(low), middle = (a + static_cast<float>(high)) / 2;
    for (const float v : {a, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 999.0f),
                          std::nextafter(a, 999.0f)})
      hard.push_back(v), hard.push_back(-v);
  }
  std::vector<float> list;
  for (const float v : hard) {
    if (list.size() % kStateGroup == 0) list.push_back(448);
    list.push_back(v);
  }
  const auto count = static_cast<int64_t>(list.size());
  const Tensor values = host_tensor(DType::f32, {count});
  std::copy(list.begin(), list.end(), values.data<float>());
  const StateValues state = state_of(DType::e4m3, count);
  OpContext context = machine_.context();
  store_state(context, {values, state.values, state.scales, {}});
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(state.scales.data<float>()[i / kStateGroup], 1);
    ASSERT_EQ(state.values.data<float8_e4m3>()[i].bits,
              float8_e4m3(list[static_cast<size_t>(i)]).bits)
        << list[static_cast<size_t>(i)];
  }
  const Tensor codes = host_tensor(DType::e4m3, {256}), ones = host_tensor(DType::f32, {4});
  for (int i = 0; i < 256; ++i) codes.data<float8_e4m3>()[i].bits = static_cast<uint8_t>(i);
  std::fill_n(ones.data<float>(), 4, 1.0f);
  const Tensor out = host_tensor(DType::f32, {256});
  expand_state(context, {codes, ones, {}, out});
  for (int i = 0; i < 256; ++i) {
    const auto expected = static_cast<float>(codes.data<float8_e4m3>()[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(out.data<float>()[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(out.data<float>()[i]), std::bit_cast<uint32_t>(expected));
    }
  }
}

struct Formats {
  DType master, gradient, first, second;
};

constexpr Formats kRuns[] = {
    {DType::i16, DType::f32, DType::f32, DType::f32},
    {DType::f16, DType::f32, DType::f32, DType::f32},
    {DType::f32, DType::bf16, DType::f32, DType::f32},
    {DType::f32, DType::f32, DType::e4m3, DType::bf16},
    {DType::f32, DType::f32, DType::f16, DType::e4m3},
    {DType::i16, DType::bf16, DType::e4m3, DType::e4m3},
};

StateValues state_in(DType format, const Tensor& values) {
  if (format == DType::f32) return values;
  const StateValues state = state_of(format, values.elements());
  encode(values, state);
  return state;
}

TEST_P(OptimizerStateOps, AdamwIsThatOfFp32BetweenDecodingAndStoring) {
  OpContext context = machine_.context();
  const Tensor scalars = host_tensor(DType::f64, {kStepScalars});
  const auto set = [&](StepScalar name, double value) {
    scalars.data<double>()[static_cast<int>(name)] = value;
  };
  set(StepScalar::learning_rate, 0.01), set(StepScalar::weight_decay_factor, 0.5);
  set(StepScalar::bias_correction1, 0.271), set(StepScalar::bias_correction2, 0.142);
  set(StepScalar::clip_factor, 0.25);
  for (const Formats& formats : kRuns) {
    for (const int64_t count : {1, 100, 1003, 70001}) {
      SCOPED_TRACE(std::string(dtype_name(formats.master)) + " " +
                   std::string(dtype_name(formats.first)) + " " + std::to_string(count));
      const auto random = [&](uint64_t seed, double scale) {
        return test::random_tensor(DType::f32, {count}, seed, scale);
      };
      const StateValues master = state_in(formats.master, random(1, 1)),
                        gradient = state_in(formats.gradient, random(2, 10)),
                        first = state_in(formats.first, random(3, 1)),
                        second =
                            state_in(formats.second,
                                     test::converted(test::magnitudes(random(4, 1)), DType::f32));
      const Tensor weight =
          formats.master == DType::i16 ? master.weights : host_tensor(DType::bf16, {count});
      // In FP32, from the decoded values …
      const auto copy_of = [](const StateValues& state) {
        const Tensor from = decode(state), to = host_tensor(DType::f32, from.shape());
        std::memcpy(to.raw(), from.raw(), static_cast<size_t>(from.bytes()));
        return to;
      };
      AdamWArgs expected{copy_of(master),
                         copy_of(gradient),
                         copy_of(first),
                         copy_of(second),
                         host_tensor(DType::bf16, {count}),
                         scalars};
      expected.weight_decay = 0.1;
      // … and over the stored ones.
      AdamWArgs args{master.values, gradient.values, first.values, second.values, weight, scalars};
      args.weight_decay = 0.1;
      args.master_scales = master.scales;
      args.first_scales = first.scales, args.second_scales = second.scales;

      set(StepScalar::skip, 1);
      const std::string before = bytes_of(first.values) + bytes_of(weight);
      adamw(context, args);
      EXPECT_TRUE(bytes_of(first.values) + bytes_of(weight) == before) << "skipped";
      set(StepScalar::skip, 0);

      adamw(context, expected);
      adamw(context, args);
      expect_same(master, state_in(formats.master, expected.master), "master");
      expect_same(first, state_in(formats.first, expected.first), "first");
      const StateValues lifted = state_in(formats.second, expected.second);
      if (lifted.coded()) lift_zeros(expected.second, lifted);
      expect_same(second, lifted, "second");
      if (formats.master == DType::i16) continue;
      // The rounded master, in its stored form.
      const Tensor stored = decode(state_in(formats.master, expected.master));
      EXPECT_TRUE(bytes_of(weight) == bytes_of(test::converted(stored, DType::bf16))) << "weight";
    }
  }
}

// Adam divides by the root of the second moment: if it became 0, the weight would move by 1 / ε.
TEST_P(OptimizerStateOps, SecondMomentsAreNotLostBesideLargeOnes) {
  OpContext context = machine_.context();
  for (const DType format : {DType::e4m3, DType::f16}) {
    const int64_t count = kStateGroup;
    const Tensor scalars = host_tensor(DType::f64, {kStepScalars});
    for (const StepScalar one : {StepScalar::learning_rate, StepScalar::clip_factor,
                                 StepScalar::bias_correction1, StepScalar::bias_correction2})
      scalars.data<double>()[static_cast<int>(one)] = 1;
    const Tensor gradient = host_tensor(DType::f32, {count});
    gradient.data<float>()[0] = 1e8f, gradient.data<float>()[1] = 1;
    const StateValues second = state_of(format, count);
    AdamWArgs args{host_tensor(DType::f32, {count}),
                   gradient,
                   host_tensor(DType::f32, {count}),
                   second.values,
                   {},
                   scalars};
    args.second_scales = second.scales;
    adamw(context, args);
    const Tensor after_one = decode(second);
    EXPECT_GT(after_one.data<float>()[1], 0) << dtype_name(format);
    EXPECT_EQ(after_one.data<float>()[2], 0) << "zero stays zero";
    gradient.data<float>()[1] = 0;  // a token that does not occur again
    const float before = args.master.data<float>()[1];
    adamw(context, args);
    EXPECT_LT(std::fabs(args.master.data<float>()[1] - before), 1) << dtype_name(format);
  }
}

TEST_P(OptimizerStateOps, SumsOfBf16AreThoseOfItsValues) {
  OpContext context = machine_.context();
  for (const int64_t count : {1, 4095, 4096, 4097, 200001}) {
    const Tensor x = test::random_tensor(DType::bf16, {count}, 9, 100);
    const Tensor narrow = host_tensor(DType::f64, {kReproducibleSumSize}),
                 wide = host_tensor(DType::f64, {kReproducibleSumSize});
    reproducible_sums(context, {{x}, true, narrow});
    reproducible_sums(context, {{test::converted(x, DType::f32)}, true, wide});
    EXPECT_TRUE(bytes_of(narrow) == bytes_of(wide)) << count;
  }
}

TEST_P(OptimizerStateOps, RefuseWhatDoesNotFit) {
  OpContext context = machine_.context();
  const Tensor out = host_tensor(DType::f32, {100});
  const StateValues state = state_of(DType::e4m3, 100);
  EXPECT_THROW(expand_state(context, {state.values, {}, {}, out}), ShapeError) << "no scales";
  EXPECT_THROW(expand_state(context, {state.values, host_tensor(DType::f32, {1}), {}, out}),
               ShapeError)
      << "too few";
  EXPECT_THROW(expand_state(context, {host_tensor(DType::i16, {100}), {}, {}, out}), ShapeError)
      << "no weights";
  EXPECT_THROW(expand_state(context, {host_tensor(DType::e5m2, {100}), state.scales, {}, out}),
               ShapeError);
  EXPECT_THROW(store_state(context, {host_tensor(DType::f32, {99}), state.values, state.scales}),
               ShapeError);
  EXPECT_THROW(store_state(context, {out, host_tensor(DType::f32, {100})}), DeviceError);
}

INSTANTIATE_TEST_SUITE_P(Isas, OptimizerStateOps, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
