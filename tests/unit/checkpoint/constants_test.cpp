// Numbers that checkpoints of a family hold beside the weights (xIELU's β and ε): exports have
// them, and another value is another model.

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/export_tensors.h"
#include "checkpoint/heed_weights.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "model/family.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using testing::HasSubstr;

const std::string kActivation = "model.layers.0.mlp.act_fn.";

ModelConfig apertus() {
  return read_hf_config(R"({"model_type": "apertus", "vocab_size": 30, "hidden_size": 16,
    "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 2,
    "max_position_embeddings": 64})",
                        "config.json");
}

Tensor number(float value) {
  const Tensor tensor = host_tensor(DType::f32, {});
  *tensor.data<float>() = value;
  return tensor;
}

/// A folder with a raw slope, and these tensors.
void write(const TemporaryFolder& folder, std::map<std::string, Tensor> tensors) {
  const Tensor slope = host_tensor(DType::f32, {1});
  *slope.data<float>() = 0.2f;
  tensors[kActivation + "alpha_p"] = slope;
  write_safetensors(folder / "model.safetensors", tensors);
}

TEST(Constants, AreAddedToExports) {
  TemporaryFolder folder;
  write(folder, {{kActivation + "eps", number(-1e-6f)}});
  const SafetensorsFolder source(folder.path());
  ExportTensors made(source, apertus(), ExportFormat::bf16);
  ASSERT_EQ(made.tensors().size(), 3u);
  const TensorInfo& beta = made.tensors().back();
  EXPECT_EQ(beta.name, kActivation + "beta");
  EXPECT_EQ(beta.dtype, DType::bf16);
  EXPECT_EQ(beta.shape, Shape());
  EXPECT_EQ(static_cast<float>(*made.tensor(beta.name).data<bfloat16>()), 0.5f);
  EXPECT_EQ(made.rounding().elements, 0);
}

/// FP16 has no number nearer to −1e-6 than −1.01e-6.
TEST(Constants, RoundedToTheFormatOfAnExportAreTheSame) {
  TemporaryFolder folder;
  const Tensor eps = host_tensor(DType::f16, {});
  *eps.data<float16>() = float16(-1e-6f);
  write(folder, {{kActivation + "eps", eps}});
  const SafetensorsFolder source(folder.path());
  ModelConfig model = apertus();
  EXPECT_NO_THROW(heed_weights(model, source, "config.json"));
}

TEST(Constants, OfAnotherModelAreRefused) {
  for (const float beta : {0.5f, 0.7f}) {
    TemporaryFolder folder;
    write(folder, {{kActivation + "beta", number(beta)}});
    const SafetensorsFolder source(folder.path());
    ModelConfig model = apertus();
    if (beta == 0.5f) {
      EXPECT_NO_THROW(heed_weights(model, source, "config.json"));
      continue;
    }
    try {
      heed_weights(model, source, "config.json");
      FAIL() << "expected an error";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("act_fn.beta is 0.6999999"));
      EXPECT_THAT(error.what(), HasSubstr("supported: 0.5"));
    }
  }
}

}  // namespace
}  // namespace viaduct
