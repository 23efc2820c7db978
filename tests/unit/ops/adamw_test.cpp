#include <gtest/gtest.h>

#include <cmath>

#include "ops/optimizer.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::element;
using test::OpMachine;

struct AdamRun {
  Tensor master, gradient, first, second, weight, scalars;
  AdamRun(DType dtype, DType weight_dtype, int64_t count)
      : master(test::random_tensor(dtype, {count}, 1)),
        gradient(test::random_tensor(dtype, {count}, 2, 10)),
        first(test::random_tensor(dtype, {count}, 3)),
        second(test::magnitudes(test::random_tensor(dtype, {count}, 4))),
        weight(host_tensor(weight_dtype, {count})),
        scalars(host_tensor(DType::f64, {kStepScalars})) {
    second = test::converted(second, dtype);
    set(StepScalar::learning_rate, 0.01);
    set(StepScalar::weight_decay_factor, 0.5);
    set(StepScalar::bias_correction1, 1 - std::pow(0.9, 3));
    set(StepScalar::bias_correction2, 1 - std::pow(0.95, 3));
    set(StepScalar::clip_factor, 0.25);
  }
  void set(StepScalar name, double value) const {
    scalars.data<double>()[static_cast<int>(name)] = value;
  }
  AdamWArgs args() const {
    AdamWArgs a{master, gradient, first, second, weight, scalars};
    a.weight_decay = 0.1;
    a.learning_rate_multiplier = 2;
    return a;
  }
  AdamRun in_f64() const {
    AdamRun copy = *this;
    for (Tensor AdamRun::*t : {&AdamRun::master, &AdamRun::gradient, &AdamRun::first,
                               &AdamRun::second, &AdamRun::weight}) {
      copy.*t = test::to_f64(this->*t);
    }
    return copy;
  }
};

class AdamW : public ::testing::TestWithParam<CpuIsa> {};

TEST_P(AdamW, FollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_optimizer});
  OpContext context = machine.context();
  for (DType weight : test::kKernelDTypes) {
    for (int64_t count : {1, 15, 16, 1003, 70000}) {
      SCOPED_TRACE(std::string(dtype_name(weight)) + " " + std::to_string(count));
      const AdamRun run(DType::f32, weight, count), expected = run.in_f64();
      // Terms: sizes of the summands of each formula.
      const Tensor p = test::magnitudes(run.master), m = test::magnitudes(run.first);
      const Tensor v = test::to_f64(run.second);
      for (int64_t i = 0; i < count; ++i) {
        const double g = 0.25 * std::abs(element(run.gradient, i));
        m.data<double>()[i] = 0.9 * m.data<double>()[i] + 0.1 * g;
        v.data<double>()[i] = 0.95 * v.data<double>()[i] + 0.05 * g * g;
        p.data<double>()[i] += 0.02 * (m.data<double>()[i] / (1 - std::pow(0.9, 3))) /
                               std::sqrt(v.data<double>()[i] / (1 - std::pow(0.95, 3)));
      }
      adamw(context, run.args());
      reference::adamw(expected.args());
      test::expect_close(run.first, expected.first, 2, m);
      test::expect_close(run.second, expected.second, 2, v);
      test::expect_close(run.master, expected.master, 3, p);
      test::expect_same_bits(run.weight, test::converted(run.master, weight));
    }
  }
}

TEST_P(AdamW, SkipLeavesEverything) {
  OpMachine machine(GetParam(), 1, {cpu::add_optimizer});
  OpContext context = machine.context();
  for (DType dtype : {DType::f32, DType::f64}) {
    const AdamRun run(dtype, DType::f32, 100), same(dtype, DType::f32, 100);
    run.set(StepScalar::skip, 1);
    run.set(StepScalar::clip_factor, std::nan(""));
    adamw(context, run.args());
    for (Tensor AdamRun::*t :
         {&AdamRun::master, &AdamRun::first, &AdamRun::second, &AdamRun::weight}) {
      test::expect_same_bits(run.*t, same.*t);
    }
  }
}

TEST_P(AdamW, CutsOfTheRunAndThreadsDoNotChangeABit) {
  const AdamRun whole(DType::f32, DType::bf16, 200003), parts(DType::f32, DType::bf16, 200003);
  OpMachine one(GetParam(), 1, {cpu::add_optimizer}), three(GetParam(), 3, {cpu::add_optimizer});
  OpContext context = one.context(), other = three.context();
  adamw(context, whole.args());
  for (int64_t begin = 0; begin < 200003;) {
    const int64_t size = std::min<int64_t>(200003 - begin, 77777);
    AdamWArgs args = parts.args();
    for (Tensor AdamWArgs::*t : {&AdamWArgs::master, &AdamWArgs::gradient, &AdamWArgs::first,
                                 &AdamWArgs::second, &AdamWArgs::weight}) {
      args.*t = (args.*t).slice(0, begin, size);
    }
    adamw(other, args);
    begin += size;
  }
  for (Tensor AdamRun::*t :
       {&AdamRun::master, &AdamRun::first, &AdamRun::second, &AdamRun::weight}) {
    test::expect_same_bits(parts.*t, whole.*t);
  }
}

TEST_P(AdamW, AListIsItsRuns) {
  OpMachine machine(GetParam(), 3, {cpu::add_optimizer});
  OpContext context = machine.context();
  for (DType dtype : {DType::f32, DType::f64}) {
    const int64_t counts[] = {1, 70000, 15, 140003};
    std::vector<AdamRun> listed, single;
    AdamWListArgs list;
    for (int64_t count : counts) {
      listed.emplace_back(dtype, DType::bf16, count);
      single.emplace_back(dtype, DType::bf16, count);
    }
    for (size_t i = 0; i < listed.size(); ++i) {
      AdamWArgs run = single[i].args();
      run.weight_decay = 0.01 * static_cast<double>(i);
      adamw(context, run);
      AdamWArgs same = listed[i].args();
      same.weight_decay = run.weight_decay;
      same.scalars = listed[0].args().scalars;
      list.runs.push_back(same);
    }
    adamw_list(context, list);
    for (size_t i = 0; i < listed.size(); ++i) {
      for (Tensor AdamRun::*t :
           {&AdamRun::master, &AdamRun::first, &AdamRun::second, &AdamRun::weight}) {
        test::expect_same_bits(listed[i].*t, single[i].*t);
      }
    }
  }
  adamw_list(context, {});
  AdamWListArgs mixed{{AdamRun(DType::f32, DType::bf16, 4).args(), {}}};
  mixed.runs[1] = AdamRun(DType::f32, DType::f16, 4).args();
  mixed.runs[1].scalars = mixed.runs[0].scalars;
  EXPECT_THROW(adamw_list(context, mixed), ShapeError) << "one dtype of weights";
}

INSTANTIATE_TEST_SUITE_P(Isas, AdamW, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST(OptimizerChecks, RefuseWhatDoesNotFit) {
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_optimizer});
  OpContext context = machine.context();
  const AdamRun run(DType::f32, DType::bf16, 10);
  const auto refused = [&](auto&& change) {
    AdamWArgs args = run.args();
    change(args);
    EXPECT_THROW(adamw(context, args), ShapeError);
  };
  refused([](AdamWArgs& a) { a.gradient = host_tensor(DType::f32, {9}); });
  refused([](AdamWArgs& a) { a.first = host_tensor(DType::f64, {10}); });
  refused([](AdamWArgs& a) { a.second = {}; });
  refused([](AdamWArgs& a) { a.weight = host_tensor(DType::i32, {10}); });
  refused([](AdamWArgs& a) { a.scalars = host_tensor(DType::f64, {3}); });
  AdamWArgs wide = run.args();
  wide.weight = host_tensor(DType::f64, {10});
  EXPECT_THROW(adamw(context, wide), DeviceError);
  const Tensor state = host_tensor(DType::f64, {kReproducibleSumSize});
  EXPECT_THROW(reproducible_sum(context, {host_tensor(DType::bf16, {4}), {}, false, state}),
               ShapeError);
  EXPECT_THROW(reproducible_sum(context, {run.master, {}, false, host_tensor(DType::f64, {2})}),
               ShapeError);
  EXPECT_THROW(sum_value(context, {state, host_tensor(DType::f32, {1})}), ShapeError);
}

}  // namespace
}  // namespace viaduct
