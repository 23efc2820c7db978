// Several adapters on one model: each has the bits that it has alone, and the model is in memory
// once.

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/peft_folder.h"
#include "generate/generate.h"
#include "generate/kept_sequence.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::test_data;
using Ids = std::vector<int32_t>;

const Ids kPrompt{3, 14, 15, 92, 65, 35};

class SeveralAdapters : public testing::Test {
 protected:
  SeveralAdapters() {
    // A norm of the model trains beside the second one.
    dora_.trained.insert("model.norm");
  }
  Generator make(const LayerSettings& layers) {
    Generator generator(*device_, ops_, config_, {layers, parallelism_, memory_, 64});
    OpContext context = generator.context();
    load_parameters(context, generator.store(), *open_weights(base_), config_);
    return generator;
  }
  PeftAdapter open(const char* name) const {
    return open_adapter(test_data("golden") / name / "adapter", config_);
  }
  /// Fills the weights that are an adapter's own. The norm that trains is twice the model's.
  void load(ParameterStore& store, const char* name) {
    OpContext context{*device_, ops_};
    load_parameters(context, store, *open_weights(base_), config_);
    const PeftAdapter adapter = open(name);
    for (const ShardRun& run : store.shard_runs()) {
      const bool norm = run.parameter->parts.front().name == "base_model.model.model.norm.weight";
      if (!norm) continue;
      for (int64_t i = 0; i < run.master.elements(); ++i) run.master.data<float>()[i] *= 2;
    }
    const std::vector<StoredRun> all =
        stored_runs(store, [](const ShardRun& run, size_t) { return run.master_state(); });
    std::vector<StoredRun> factors;
    for (const StoredRun& run : all)
      if (run.run.parameter->adapter) factors.push_back(run);
    fill_runs(*device_, factors, *adapter.tensors, [](const std::string& n) { return n; });
    store.publish_masters(context);
  }
  /// The logits behind the prompt, of a model with this adapter alone.
  Tensor alone(const char* name, const AdapterSettings& settings) {
    LayerSettings layers;
    layers.adapters = settings;
    Generator generator = make(layers);
    load(generator.store(), name);
    return logits(generator);
  }
  static Tensor logits(Generator& generator) {
    generator.start(1);
    const std::vector<Ids> feed{kPrompt};
    return generator.feed(feed);
  }
  static bool same(const Tensor& a, const Tensor& b) {
    return a.bytes() == b.bytes() &&
           std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
  }
  int64_t weight_bytes() const {
    return device_->memory().bytes_by_tag[static_cast<size_t>(MemoryTag::weights)];
  }

  std::unique_ptr<Device> device_ = make_cpu_device(2);
  OpTable ops_ = cpu_ops(test::instruction_set());
  ModelFolder base_ = resolve_model_folder(test_data("golden/llama/model"));
  ModelConfig config_ = read_model_config(base_);
  Parallelism parallelism_;
  MemorySettings memory_;
  AdapterSettings lora_ = open("lora_llama").settings, dora_ = open("dora_llama").settings;
};

TEST_F(SeveralAdapters, EachHasTheBitsThatItHasAlone) {
  const LayerSettings layers;
  Generator generator = make(layers);
  const Tensor plain = logits(generator);
  const int64_t base = weight_bytes();
  ASSERT_EQ(generator.add_adapter(lora_), 1);
  ASSERT_EQ(generator.add_adapter(dora_), 2);
  load(*generator.adapter_store(1), "lora_llama");
  load(*generator.adapter_store(2), "dora_llama");
  // The files of both have 193 kB, the model 1006.
  EXPECT_LT(weight_bytes() - base, base / 4);
  const Tensor lora = alone("lora_llama", lora_), dora = alone("dora_llama", dora_);
  for (int round = 0; round < 2; ++round) {
    for (const auto& [number, expected] : {std::pair{1, lora}, {2, dora}, {0, plain}, {2, dora}}) {
      generator.use(number);
      EXPECT_TRUE(same(logits(generator), expected)) << "adapter " << number;
    }
  }
  EXPECT_FALSE(same(lora, plain));
  EXPECT_FALSE(same(lora, dora));
}

TEST_F(SeveralAdapters, AModelWithAnAdapterOfItsOwnIsSharedToo) {
  // What the first one trains is not the model's.
  LayerSettings layers;
  layers.adapters = dora_;
  Generator generator = make(layers);
  load(generator.store(), "dora_llama");
  generator.add_adapter(lora_);
  load(*generator.adapter_store(1), "lora_llama");
  generator.use(1);
  EXPECT_TRUE(same(logits(generator), alone("lora_llama", lora_)));
  generator.use(0);
  EXPECT_TRUE(same(logits(generator), alone("dora_llama", dora_)));
}

TEST_F(SeveralAdapters, StandOnAQuantizedModel) {
  LayerSettings layers;
  layers.adapters.base_format = lora_.base_format = BaseFormat::nf4;
  Generator generator = make(layers);
  generator.add_adapter(lora_);
  load(*generator.adapter_store(1), "lora_llama");
  generator.use(1);
  EXPECT_TRUE(same(logits(generator), alone("lora_llama", lora_)));
}

TEST_F(SeveralAdapters, WhatIsCachedIsOneAdapters) {
  const LayerSettings layers;
  Generator generator = make(layers);
  generator.add_adapter(lora_);
  load(*generator.adapter_store(1), "lora_llama");
  GenerateOptions options;
  options.sampling.temperature = 0;
  const auto go_on = [](int32_t) { return true; };
  const auto prompt = [](int64_t adapter) { return Prompt{0, kPrompt, 8, false, adapter}; };
  Generator fresh = make(layers);
  const Ids plain = KeptSequence(fresh).answer(prompt(0), options, go_on).tokens;
  KeptSequence kept(generator);
  EXPECT_EQ(kept.answer(prompt(0), options, go_on).tokens, plain);
  const Ids lora = kept.answer(prompt(1), options, go_on).tokens;
  EXPECT_EQ(kept.reused(), 0);
  EXPECT_NE(lora, plain);
  EXPECT_EQ(kept.answer(prompt(0), options, go_on).tokens, plain);
  const std::vector<Prompt> mixed{prompt(0), prompt(1)};
  const auto take = [](size_t, int32_t) { return true; };
  EXPECT_THROW(generate(generator, mixed, options, take), ConfigError);
  EXPECT_THROW(generator.use(2), ShapeError);
}

}  // namespace
}  // namespace viaduct
