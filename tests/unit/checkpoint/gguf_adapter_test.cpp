// Adapters as llama.cpp's files: beside the model's file they are the merged model.

#include "checkpoint/gguf_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/convert.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/model_folder.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using test::test_data;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path model_folder(const std::string& name) {
  return test_data("golden") / name / "model";
}

/// W [out, in] + alpha / r · B · A, as llama.cpp adds it.
Tensor with_adapter(const GgufFile& base, const GgufFile& adapter, const std::string& name) {
  const Tensor w = base.tensor(name), a = adapter.tensor(name + ".lora_a"),
               b = adapter.tensor(name + ".lora_b");
  const int64_t out = w.dim(0), in = w.dim(1), rank = a.dim(0);
  EXPECT_EQ(a.shape(), (Shape{rank, in}));
  EXPECT_EQ(b.shape(), (Shape{out, rank}));
  const double scale =
      adapter.head().keys.number("adapter.lora.alpha", 0) / static_cast<double>(rank);
  const Tensor sum = host_tensor(DType::f32, w.shape());
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      double term = 0;
      for (int64_t j = 0; j < rank; ++j)
        term += static_cast<double>(b.data<float>()[o * rank + j]) * a.data<float>()[j * in + i];
      sum.data<float>()[o * in + i] =
          static_cast<float>(w.data<float>()[o * in + i] + scale * term);
    }
  }
  return sum;
}

// q and k are in another order of rows there (llama), and matrices are transposed (GPT-2).
TEST(GgufAdapter, BesideTheModelsFileItIsTheMergedModel) {
  for (const std::string name : {"llama", "gpt2"}) {
    TemporaryFolder folder;
    const auto peft = test_data("golden") / ("lora_" + name) / "adapter";
    const auto file = [&](const char* which) { return folder / (std::string(which) + ".gguf"); };
    convert_model({.from = model_folder(name), .to = file("base"), .dtype = ExportFormat::fp32});
    convert_model({.from = model_folder(name),
                   .to = file("merged"),
                   .adapter = peft,
                   .dtype = ExportFormat::fp32});
    const Converted result = convert_model(
        {.from = model_folder(name), .to = file("adapter"), .adapter = peft, .adapter_only = true});
    const GgufFile base(file("base")), merged(file("merged")), adapter(file("adapter"));
    EXPECT_EQ(result.tensors, std::ssize(adapter.tensors()));
    EXPECT_EQ(adapter.head().keys.text("general.type", ""), "adapter");
    EXPECT_EQ(adapter.head().keys.text("adapter.type", ""), "lora");
    EXPECT_EQ(adapter.head().keys.text("general.architecture", ""),
              merged.head().keys.text("general.architecture", ""));
    int compared = 0;
    for (const TensorInfo& info : merged.tensors()) {
      if (!adapter.contains(info.name + ".lora_a")) continue;
      EXPECT_LE(
          test::relative_error(with_adapter(base, adapter, info.name), merged.tensor(info.name)),
          1e-6)
          << info.name;
      ++compared;
    }
    EXPECT_EQ(2 * compared, result.tensors) << name;
  }
}

// llama.cpp has one alpha, and no rank stabilization: B has the factor.
TEST(GgufAdapter, ScalesOfSingleLayersAreInTheirB) {
  TemporaryFolder folder;
  const ModelConfig model = read_model_config(resolve_model_folder(model_folder("llama")));
  PeftAdapter adapter = open_adapter(test_data("golden/lora_llama/adapter"), model);
  const std::string module = "model.layers.1.mlp.down_proj";
  adapter.settings.modules.at(module).alpha *= 3;
  write_gguf_adapter(folder / "a.gguf", "a", model, adapter);
  const GgufFile file(folder / "a.gguf");
  EXPECT_EQ(file.head().keys.number("adapter.lora.alpha", 0), 16);
  const Tensor b = file.tensor("blk.1.ffn_down.weight.lora_b"),
               from = adapter.tensors->tensor(kAdapterPrefix + module + kAdapterB);
  for (int64_t i = 0; i < b.elements(); ++i)
    EXPECT_FLOAT_EQ(b.data<float>()[i], 3 * from.data<float>()[i]);
}

TEST(GgufAdapter, WhatItCannotHoldIsRefused) {
  TemporaryFolder folder;
  const ModelConfig model = read_model_config(resolve_model_folder(model_folder("llama")));
  const auto refuse = [&](const PeftAdapter& adapter, const std::string& what) {
    EXPECT_THAT([&] { write_gguf_adapter(folder / "a.gguf", "a", model, adapter); },
                ThrowsMessage<ConfigError>(HasSubstr(what)));
  };
  refuse(open_adapter(test_data("golden/dora_llama/adapter"), model), "DoRA");
  PeftAdapter adapter = open_adapter(test_data("golden/lora_llama/adapter"), model);
  adapter.settings.trained = {"model.norm"};
  refuse(adapter, "model.norm");
}

TEST(GgufAdapter, IsReadByLlamaCppAlone) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder / "a.gguf";
  convert_model({.from = model_folder("llama"),
                 .to = file,
                 .adapter = test_data("golden/lora_llama/adapter"),
                 .adapter_only = true});
  const ModelConfig model = read_model_config(resolve_model_folder(model_folder("llama")));
  const auto said = ThrowsMessage<ConfigError>(HasSubstr("llama.cpp's file of an adapter"));
  EXPECT_THAT([&] { open_adapter(file, model); }, said);
  EXPECT_THAT([&] { read_model_config(resolve_model_folder(file)); }, said);
}

TEST(GgufAdapter, WhatItNeedsIsSaid) {
  TemporaryFolder folder;
  const auto peft = test_data("golden/lora_llama/adapter");
  const auto refuse = [](const ConvertSettings& settings, const std::string& what) {
    EXPECT_THAT([&] { convert_model(settings); }, ThrowsMessage<ConfigError>(HasSubstr(what)));
  };
  refuse({.from = model_folder("llama"), .to = folder / "a.gguf", .adapter_only = true},
         "without --adapter DIR");
  refuse({.from = model_folder("llama"), .to = folder / "a", .adapter = peft, .adapter_only = true},
         "ends in .gguf");
  refuse({.from = model_folder("llama"),
          .to = folder / "a.gguf",
          .adapter = peft,
          .adapter_only = true,
          .dtype = ExportFormat::bf16},
         "leave out --dtype");
}

}  // namespace
}  // namespace viaduct
