#include "sharding/parameter_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "comm/world.h"
#include "device/recording.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "support/instruction_set.h"

namespace viaduct {
namespace {

class ParameterStoreTest : public testing::Test {
 protected:
  static Parameter make(const char* path, const Shape& shape, bool weight_gradient) {
    Parameter p;
    p.path = path;
    p.shape = shape;
    p.weight_gradient = weight_gradient;
    return p;
  }
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  OpTable ops_ = cpu_ops(CpuIsa::avx2);
  OpContext context_{*device_, ops_};
  Parameter matrix_ = make("matrix", {3, 5}, true), bias_ = make("bias", {3}, false);
  ParameterStore store_{
      *device_, precision_recipe("bf16_mixed"), {{&matrix_, &bias_}}, {}, self_groups()};
};

TEST_F(ParameterStoreTest, WeightsAreMastersRounded) {
  for (int i = 0; i < 15; ++i)
    store_.master(matrix_).data<float>()[i] = 1.0f + 0x1p-10f * static_cast<float>(i);
  for (int i = 0; i < 3; ++i) store_.master(bias_).data<float>()[i] = static_cast<float>(i);
  store_.publish_masters(context_);
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(store_.weight(matrix_).data<bfloat16>()[i].bits,
              bfloat16(store_.master(matrix_).data<float>()[i]).bits);
  }
  EXPECT_EQ(static_cast<float>(store_.weight(bias_).data<bfloat16>()[2]), 2.0f);
}

// Addresses differ between runs; records must not.
TEST_F(ParameterStoreTest, ReleasesDoNotFollowAddresses) {
  const auto releases = [&](bool turned) {
    std::array<Parameter, 4> parameters;
    std::vector<const Parameter*> uses;
    for (size_t i = 0; i < parameters.size(); ++i) {
      Parameter& p = parameters[turned ? parameters.size() - 1 - i : i];
      const auto rows = static_cast<int64_t>(32 * (i + 1));
      p = make(("blocks." + std::to_string(i)).c_str(), {rows, 32}, true);
      p.multiplied = true;
      uses.push_back(&p);
    }
    StoreSettings settings;
    settings.fp32_gradients = false;
    settings.fp32_accumulation = {"all"};
    StepRecord record;
    {
      const Recording recording(*device_, record);
      const PrecisionRecipe recipe = precision_recipe("bf16_mixed");
      const ParallelGroups groups = self_groups();
      ParameterStore store(*device_, recipe, {std::vector<ParameterUse>(uses.begin(), uses.end())},
                           settings, groups);
      const WeightForms packed(context_, uses, recipe, groups, true, true);
    }
    std::vector<std::pair<int64_t, int64_t>> all;
    for (const AllocationRecord& a : record.allocations()) all.emplace_back(a.bytes, a.released_at);
    return all;
  };
  const auto expected = releases(false);
  EXPECT_GE(expected.size(), 4u) << "an FP32 sum each, and the forms that this machine reads";
  EXPECT_EQ(releases(true), expected);
}

TEST_F(ParameterStoreTest, WeightsDoNotChangeWhileTheyAreInUse) {
  EXPECT_THROW(store_.acquire(matrix_, WeightUse::forward, 0), ShapeError);  // nothing gathered yet
  store_.publish_masters(context_);
  const int64_t generation = store_.generation();
  {
    const AcquiredWeight weight(store_, matrix_, WeightUse::forward);
    EXPECT_THROW(store_.advance_generation(), ShapeError);
  }
  store_.advance_generation();
  EXPECT_EQ(store_.generation(), generation + 1);
  EXPECT_THROW(store_.acquire(matrix_, WeightUse::forward, 0), ShapeError);  // stale
  store_.weights_written();
  const AcquiredWeight weight(store_, matrix_, WeightUse::forward);
}

TEST_F(ParameterStoreTest, PackedWeightsNeedProductsThatReadThem) {
  EXPECT_THROW(store_.derive_weights(context_, true), ConfigError);
  store_.publish_masters(context_);
  const AcquiredWeight weight(store_, matrix_, WeightUse::forward);
  EXPECT_TRUE(weight.operand().form().plain());
}

TEST_F(ParameterStoreTest, DerivedWeightsAreMadeBeforeTheirFirstUse) {
  if (!cpu_supports(CpuIsa::avx512_bf16)) GTEST_SKIP() << "no products that read tiles here";
  const OpTable ops = cpu_ops(CpuIsa::avx512_bf16);
  OpContext context{*device_, ops};
  matrix_.multiplied = true;
  ParameterStore store(*device_, precision_recipe("bf16_mixed"), {{&matrix_, &bias_}}, {},
                       self_groups());
  store.derive_weights(context, true);
  const auto tag = static_cast<size_t>(MemoryTag::derived_weights);
  EXPECT_EQ(device_->memory().bytes_by_tag[tag], 2 * 16 * 32 * 2);  // a tile for each product
  const auto conversions = [&](auto&& f) {
    StepRecord record;
    {
      const Recording recording(*device_, record);
      f();
    }
    return std::count_if(record.ops().begin(), record.ops().end(),
                         [](const OpEntryRecord& op) { return op.op == "convert_operand"; });
  };
  store.publish_masters(context);
  EXPECT_EQ(conversions([&] { store.make_derived_weights(); }), 2);
  EXPECT_EQ(conversions([&] {
              store.make_derived_weights();
              const AcquiredWeight weight(store, matrix_, WeightUse::forward);
              EXPECT_FALSE(weight.operand().form().plain());
            }),
            0);
}

TEST_F(ParameterStoreTest, ParametersOfOtherStoresAreRefused) {
  store_.publish_masters(context_);
  const Parameter other = make("other", {3, 5}, true);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(store_.acquire(other, WeightUse::forward, 0), ShapeError);
    EXPECT_THROW(store_.release(other, WeightUse::forward), ShapeError);
    const AcquiredWeight weight(store_, matrix_, WeightUse::forward);
  }
}

TEST_F(ParameterStoreTest, EachUseOfAWeightHasItsForm) {
  if (!cpu_supports(CpuIsa::avx512_bf16)) GTEST_SKIP() << "no products that read tiles here";
  const OpTable ops = cpu_ops(CpuIsa::avx512_bf16);
  OpContext context{*device_, ops};
  Parameter second = make("second", {32, 64}, true);
  matrix_.multiplied = second.multiplied = true;
  ParameterStore store(*device_, precision_recipe("bf16_mixed"), {{&matrix_, &bias_, &second}}, {},
                       self_groups());
  for (const bool packed : {true, false, true}) {
    store.derive_weights(context, packed);
    store.publish_masters(context);
    const auto check = [&](const Parameter& parameter, WeightUse use, int64_t run, bool tiles) {
      const AcquiredWeight weight(store, parameter, use, run);
      const OperandForm& form = weight.operand().form();
      EXPECT_EQ(form.plain(), !(packed && tiles)) << describe(form);
      EXPECT_EQ(weight.operand().shape(), parameter.shape);
      if (form.plain()) return;
      const bool forward = use == WeightUse::forward;
      EXPECT_EQ(form.orientation, forward ? Orientation::row_wise : Orientation::column_wise);
    };
    for (int i = 0; i < 2; ++i) {
      check(matrix_, WeightUse::forward, 0, true);
      check(second, WeightUse::forward, 0, true);
      check(second, WeightUse::forward, 8, false);  // runs that do not begin with a tile
      check(second, WeightUse::forward, 16, true);
      check(second, WeightUse::data_gradient, 0, true);
      check(second, WeightUse::lookup, 0, false);
      check(bias_, WeightUse::elementwise, 0, false);
    }
    store.advance_generation();
  }
}

TEST_F(ParameterStoreTest, FormsAreMadeAgainAfterTheyWereForgotten) {
  if (!cpu_supports(CpuIsa::avx512_bf16)) GTEST_SKIP() << "no products that read tiles here";
  const OpTable ops = cpu_ops(CpuIsa::avx512_bf16);
  OpContext context{*device_, ops};
  matrix_.multiplied = true;
  WeightForms forms(context, {&matrix_}, precision_recipe("bf16_mixed"), self_groups(), true, true,
                    /*held=*/false);
  const Tensor canonical = context.allocate(DType::bf16, {3, 5}, MemoryTag::weights);
  const auto of = [&](float value) {
    fill(context, {canonical, value});
    const Operand form = forms.form(matrix_, 0, WeightUse::forward, 0, canonical, 1);
    return static_cast<float>(form.values().data<bfloat16>()[0]);
  };
  EXPECT_EQ(of(1), 1);
  EXPECT_EQ(of(2), 1) << "made once in a generation";
  forms.forget(matrix_);
  EXPECT_EQ(of(3), 3);
}

TEST_F(ParameterStoreTest, FirstContributionOverwritesLaterOnesAdd) {
  for (int i = 0; i < 15; ++i) store_.main_gradient(matrix_).data<float>()[i] = 9;
  for (int i = 0; i < 3; ++i) store_.main_gradient(bias_).data<float>()[i] = 9;
  store_.begin_step(context_);
  EXPECT_EQ(store_.gradient(matrix_).mode, WriteMode::assign);
  EXPECT_THROW(store_.finish_gradients(context_), ShapeError);  // a contribution is open
  store_.done(matrix_);
  EXPECT_EQ(store_.gradient(matrix_).mode, WriteMode::accumulate);
  store_.done(matrix_);
  EXPECT_THROW(store_.done(matrix_), ShapeError);
  EXPECT_EQ(store_.gradient(bias_).mode, WriteMode::accumulate);
  EXPECT_EQ(store_.main_gradient(bias_).data<float>()[1], 0);  // its ops only accumulate
  store_.done(bias_);
  store_.finish_gradients(context_);
  EXPECT_EQ(store_.main_gradient(matrix_).data<float>()[0], 9);  // written: not cleared
  store_.begin_step(context_);
  store_.finish_gradients(context_);
  EXPECT_EQ(store_.main_gradient(matrix_).data<float>()[0], 0);  // no contribution: zero
}

TEST(ChunkGathers, AlignedOnesStartWithTheChunkBefore) {
  for (const bool align : {false, true}) {
    run_thread_ranks(2, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
      const auto device = make_cpu_device(1);
      const OpTable ops = cpu_ops(test::instruction_set());
      OpContext context{*device, ops};
      world->record_on(device.get());
      const ParallelGroups groups(Mesh({1, 1, 1, 2, 1}), world);
      std::vector<Parameter> parameters(4);
      std::vector<std::vector<ParameterUse>> chunks;
      for (Parameter& p : parameters) {
        p.shape = {300};
        chunks.push_back({&p});
      }
      const StoreSettings settings{.overlap_param_gather = true, .align_param_gather = align};
      ParameterStore store(*device, precision_recipe("fp32"), chunks, settings, groups);
      for (const ShardRun& run : store.shard_runs()) fill(context, {run.master, 1});
      store.publish_masters(context);
      store.advance_generation();
      store.weights_written();
      EXPECT_THROW(store.weight(parameters[0]), ShapeError);  // not gathered: an error
      StepRecord record;
      device->set_record(&record);
      std::vector<size_t> started;
      for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
        store.begin_chunk(chunk);
        started.push_back(record.collectives().size());
        const AcquiredWeight weight(store, parameters[chunk], WeightUse::forward);
        EXPECT_EQ(weight.tensor().data<float>()[299], 1);
      }
      device->set_record(nullptr);
      EXPECT_EQ(started,
                align ? (std::vector<size_t>{2, 3, 4, 4}) : (std::vector<size_t>{0, 2, 3, 4}));
    });
  }
}

}  // namespace
}  // namespace viaduct
