// Weights that contradict their config.json: they are used, or it is said what is not read.

#include "checkpoint/heed_weights.h"

#include <gmock/gmock.h>

#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/convert.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "model/family.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::patterned;
using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Tensors = std::map<std::string, Tensor>;

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kTable = "model.embed_tokens.weight";

std::filesystem::path golden(const std::string& name) {
  return test::test_data("golden") / name / "model";
}

Tensors weights_of(const std::string& name) {
  const SafetensorsFolder stored(golden(name));
  Tensors tensors;
  for (const TensorInfo& info : stored.tensors()) tensors[info.name] = stored.tensor(info.name);
  return tensors;
}

ModelFolder write(const TemporaryFolder& folder, const std::string& name, const Tensors& tensors) {
  write_safetensors(folder / "model.safetensors", tensors);
  write_file_atomically(folder / "config.json", read_file(golden(name) / "config.json"));
  return resolve_model_folder(folder.path());
}

/// The table with another last element.
Tensor other(const Tensor& table) {
  const Tensor head = host_tensor(table.dtype(), table.shape());
  std::memcpy(head.raw(), table.raw(), static_cast<size_t>(table.bytes()));
  head.data<float>()[head.elements() - 1] += 1;
  return head;
}

TEST(HeedWeights, LayersInAPublishersOwnFormAreLeftOutAndNamed) {
  Tensors tensors = weights_of("ernie4_5_moe");
  const std::string first = "model.mtp_block.0.input_layernorm.weight";
  tensors[first] = patterned(DType::f32, {24}, 1);
  tensors["model.mtp_linear_proj.0.weight"] = patterned(DType::f32, {24, 48}, 2);
  TemporaryFolder folder;
  const ModelFolder written = write(folder, "ernie4_5_moe", tensors);
  const ModelConfig model = read_model_config(written);
  EXPECT_THAT(model.notes, ElementsAre(AllOf(HasSubstr("(2 of them, as " + first),
                                             HasSubstr("they are not read"))));
  check_tensors_fit(model, *open_weights(written));
}

TEST(HeedWeights, AHeadThatDiffersFromTheTableIsUsed) {
  Tensors tensors = weights_of("llama_tied");
  const Tensor head = tensors[kHead] = other(tensors.at(kTable));
  TemporaryFolder folder;
  const ModelConfig model = read_model_config(write(folder, "llama_tied", tensors));
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_THAT(model.notes,
              ElementsAre(AllOf(HasSubstr("tie_word_embeddings is true, but lm_head.weight differs "
                                          "from model.embed_tokens.weight"),
                                HasSubstr("config.json"))));
  // Through a checkpoint and back, and through GGUF: nothing is lost, and nothing to be said twice.
  TemporaryFolder made;
  ConvertSettings settings;
  settings.from = folder.path(), settings.to = made / "save";
  EXPECT_THAT(convert_model(settings).notes, ElementsAre(HasSubstr("a head of its own")));
  for (const char* to : {"hf", "model.gguf"}) {
    settings.from = made / "save", settings.to = made / to;
    for (const std::string& note : convert_model(settings).notes)
      EXPECT_THAT(note, HasSubstr("no tokenizer")) << to;
  }
  settings.from = made / "model.gguf", settings.to = made / "again";
  settings.format = ModelFormat::hugging_face;
  (void)convert_model(settings);
  for (const char* end : {"hf", "again"}) {
    const ModelFolder back = resolve_model_folder(made / end);
    EXPECT_FALSE(read_hf_config(read_config_text(back), end).tied_embeddings) << end;
    EXPECT_EQ(bytes_of(open_weights(back)->tensor(kHead)), bytes_of(head)) << end;
  }
}

TEST(HeedWeights, ACopyOfTheTableIsTied) {
  Tensors tensors = weights_of("llama_tied");
  tensors[kHead] = tensors.at(kTable);
  TemporaryFolder folder;
  const ModelConfig model = read_model_config(write(folder, "llama_tied", tensors));
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_THAT(model.notes, IsEmpty());
}

TEST(HeedWeights, LayersOfMultiTokenPredictionThatTheFileDoesNotNameAreSaid) {
  Tensors tensors = weights_of("deepseek_v3");
  const std::string layer = "model.layers.2.";
  tensors[layer + "eh_proj.weight"] = patterned(DType::f32, {4, 8}, 1);
  TemporaryFolder folder;
  const ModelConfig model = read_model_config(write(folder, "deepseek_v3", tensors));
  EXPECT_EQ(model.mtp_layers, 0);
  EXPECT_THAT(model.notes,
              ElementsAre(HasSubstr("num_nextn_predict_layers 0: the folder has weights of 1 "
                                    "layer of")));
}

TEST(HeedWeights, CopiesInSuchLayersThatDifferAreSaid) {
  Tensors tensors = weights_of("deepseek_v3");
  ModelConfig model = read_model_config(resolve_model_folder(golden("deepseek_v3")));
  model.mtp_layers = 1, model.notes.clear();
  const std::string layer = "model.layers.2.";
  tensors[layer + "eh_proj.weight"] = patterned(DType::f32, {4, 8}, 1);
  tensors[layer + "embed_tokens.weight"] = tensors.at(kTable);
  tensors[layer + "shared_head.head.weight"] = other(tensors.at(kHead));
  TemporaryFolder folder;
  heed_weights(model, *open_weights(write(folder, "deepseek_v3", tensors)), "config.json");
  EXPECT_THAT(model.notes,
              ElementsAre(HasSubstr("model.layers.2.shared_head.head.weight differs from "
                                    "lm_head.weight, which takes its place")));
}

TEST(HeedWeights, StoredFrequenciesAreCompared) {
  const ModelConfig plain = read_model_config(resolve_model_folder(golden("llama")));
  const std::vector<float> frequencies = rotary_frequencies(plain.rotary);
  for (const float factor : {1.0f, 0.5f}) {
    Tensors tensors = weights_of("llama");
    const Tensor stored = host_tensor(DType::f32, {static_cast<int64_t>(frequencies.size())});
    for (size_t i = 0; i < frequencies.size(); ++i)
      stored.data<float>()[i] = frequencies[i] * factor;
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = stored;
    TemporaryFolder folder;
    const ModelConfig model = read_model_config(write(folder, "llama", tensors));
    if (factor == 1) {
      EXPECT_THAT(model.notes, IsEmpty());
    } else {
      EXPECT_THAT(model.notes, ElementsAre(HasSubstr("other frequencies of rotary positions")));
    }
  }
}

}  // namespace
}  // namespace viaduct
