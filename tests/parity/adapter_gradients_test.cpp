// Adapters of every kind of layer compared with the model that they are merged into: the same
// logits and loss, and of W + s · B · A the gradients dB = s · dW · Aᵀ and dA = s · Bᵀ · dW.

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/convert.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_writer.h"
#include "model/adapter_modules.h"
#include "model/expert_adapters.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::probe_layout;
using test::relative_error;
using test::test_data;

constexpr double kLimit = 1e-4, kScale = 2;
constexpr int64_t kRank = 2;

/// Values within ± `size` that differ from name to name.
Tensor values_of(const std::string& name, const Shape& shape, double size) {
  const Tensor tensor = host_tensor(DType::f32, shape);
  const auto phase = static_cast<double>(hash64(name) % 1000);
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.data<float>()[i] =
        static_cast<float>(size * std::sin(phase + 0.7 * static_cast<double>(i)));
  return tensor;
}

/// a [m, k] · b [k, n] times the scale; `transposed`: of a and b as they are stored.
Tensor product(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed) {
  const int64_t m = a.dim(a_transposed ? 1 : 0), k = a.dim(a_transposed ? 0 : 1),
                n = b.dim(b_transposed ? 0 : 1);
  const Tensor c = host_tensor(DType::f32, {m, n});
  const auto at = [](const Tensor& x, bool transposed, int64_t row, int64_t column) {
    return static_cast<double>(
        x.data<float>()[transposed ? column * x.dim(1) + row : row * x.dim(1) + column]);
  };
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += at(a, a_transposed, i, l) * at(b, b_transposed, l, j);
      c.data<float>()[i * n + j] = static_cast<float>(kScale * sum);
    }
  }
  return c;
}

class AdapterGradients : public testing::TestWithParam<std::string> {};

TEST_P(AdapterGradients, FollowFromThoseOfTheMergedWeights) {
  const auto model = test_data("golden") / GetParam() / "model",
             batch = test_data("golden") / GetParam() / "golden.safetensors";
  const test::TemporaryFolder folder;
  std::map<std::string, Tensor> factors;
  std::vector<std::string> modules;
  for (const AdaptableModule& one :
       adaptable_modules(read_model_config(resolve_model_folder(model)))) {
    // Gate and up of an expert as one have their own adapters here.
    if (one.named_only && one.name.ends_with(kJoinedExpert)) continue;
    modules.push_back(one.name);
    const std::string name = kAdapterPrefix + one.name;
    factors[name + kAdapterA] = values_of(name + "A", {kRank, one.in}, 0.1);
    factors[name + kAdapterB] = values_of(name + "B", {one.out, kRank}, 0.02);
  }
  std::filesystem::create_directory(folder / "adapter");
  write_safetensors(folder / "adapter/adapter_model.safetensors", factors);
  write_file_atomically(folder / "adapter/adapter_config.json",
                        R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})");
  ConvertSettings merge;
  merge.from = model, merge.to = folder / "merged", merge.adapter = folder / "adapter";
  convert_model(merge);

  const auto whole = probe_layout(folder / "merged", batch, false, {}),
             adapted = probe_layout(model, batch, false,
                                    {"peft.adapter=" + (folder / "adapter").string()});
  EXPECT_LE(relative_error(adapted.at("logits"), whole.at("logits")), kLimit);
  EXPECT_LE(relative_error(adapted.at("loss"), whole.at("loss")), kLimit);
  for (const std::string& module : modules) {
    const std::string name = kAdapterPrefix + module;
    const Tensor dw = whole.at("grad." + module + ".weight");
    EXPECT_LE(relative_error(adapted.at("grad." + name + kAdapterB),
                             product(dw, false, factors.at(name + kAdapterA), true)),
              kLimit)
        << module;
    EXPECT_LE(relative_error(adapted.at("grad." + name + kAdapterA),
                             product(factors.at(name + kAdapterB), true, dw, false)),
              kLimit)
        << module;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterGradients,
                         testing::Values("deepseek_v2", "deepseek_v2_lite", "qwen2_moe"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace viaduct
