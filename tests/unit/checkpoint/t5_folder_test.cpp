// Folders of T5: which tensors are copies, when the head is tied, and conversion there and back.

#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/convert.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Tensors = std::map<std::string, Tensor>;

std::filesystem::path golden(const std::string& name) {
  return test::test_data("golden") / name / "model";
}

Tensors weights_of(const std::filesystem::path& folder) {
  const SafetensorsFolder stored(folder);
  Tensors tensors;
  for (const TensorInfo& info : stored.tensors()) tensors[info.name] = stored.tensor(info.name);
  return tensors;
}

ModelFolder write(const TemporaryFolder& folder, const std::string& config,
                  const Tensors& tensors) {
  write_safetensors(folder / "model.safetensors", tensors);
  write_file_atomically(folder / "config.json", config);
  return resolve_model_folder(folder.path());
}

TEST(T5Folder, CopiesOfTheTableAreNotRead) {
  Tensors tensors = weights_of(golden("t5"));
  tensors["encoder.embed_tokens.weight"] = tensors.at("shared.weight");
  tensors["decoder.embed_tokens.weight"] = tensors.at("shared.weight");
  tensors["lm_head.weight"] = tensors.at("shared.weight");
  tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] =
      tensors.at("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
  const TemporaryFolder to;
  const ModelFolder folder = write(to, read_file(golden("t5") / "config.json"), tensors);
  const ModelConfig model = read_model_config(folder);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_NO_THROW(check_tensors_fit(model, *open_weights(folder)));
}

TEST(T5Folder, ATableOfOneStackThatDiffersIsRefused) {
  for (const std::string stack : {"encoder", "decoder"}) {
    Tensors tensors = weights_of(golden("t5"));
    const std::string name = stack + ".embed_tokens.weight";
    const Tensor& table = tensors.at("shared.weight");
    tensors[name] = host_tensor(table.dtype(), table.shape());
    std::memcpy(tensors[name].raw(), table.raw(), static_cast<size_t>(table.bytes()));
    tensors[name].data<float>()[table.elements() - 1] += 1;
    const TemporaryFolder to;
    const ModelFolder folder = write(to, read_file(golden("t5") / "config.json"), tensors);
    EXPECT_THAT([&] { read_model_config(folder); },
                ThrowsMessage<ConfigError>(
                    AllOf(HasSubstr(name + " differs from shared.weight in " + to.path().string()),
                          HasSubstr("expected a copy of it, or no such tensor"))));
  }
}

TEST(T5Folder, AHeadOfItsOwnIsRead) {
  Tensors tensors = weights_of(golden("t5"));
  const Tensor head = host_tensor(DType::f32, tensors.at("shared.weight").shape());
  std::fill_n(head.data<float>(), head.elements(), 0.5f);
  tensors["lm_head.weight"] = head;
  const TemporaryFolder to;
  const ModelConfig model =
      read_model_config(write(to, read_file(golden("t5") / "config.json"), tensors));
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_NE(model.logit_scale, 1);  // still scaled
}

/// Before transformers 5, a tied head that is not scaled could only be said by a field that claims
/// that it is not tied.
TEST(T5Folder, WithoutAHeadItIsTiedAndKeepsItsScale) {
  Tensors tensors = weights_of(golden("t5_v1_1"));
  tensors.erase("lm_head.weight");
  const TemporaryFolder to;
  const ModelFolder folder = write(to, read_file(golden("t5_v1_1") / "config.json"), tensors);
  const ModelConfig model = read_model_config(folder);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.logit_scale, 1);
  // What a checkpoint carries says the same.
  const TemporaryFolder save;
  const Converted made = convert_model({.from = folder.path, .to = save / "run"});
  const ModelConfig again = read_model_config(resolve_model_folder(made.path));
  EXPECT_TRUE(again.tied_embeddings);
  EXPECT_EQ(again.logit_scale, 1);
}

TEST(T5Folder, ConversionThereAndBackKeepsEveryBit) {
  for (const char* name : {"t5", "t5_v1_1"}) {
    const TemporaryFolder to;
    const Converted checkpoint = convert_model({.from = golden(name), .to = to / "run"});
    convert_model({.from = checkpoint.path, .to = to / "back"});
    const Tensors before = weights_of(golden(name)), after = weights_of(to / "back");
    ASSERT_EQ(before.size(), after.size()) << name;
    for (const auto& [tensor, values] : before)
      EXPECT_EQ(bytes_of(values), bytes_of(after.at(tensor))) << tensor;
    EXPECT_EQ(read_file(golden(name) / "config.json"), read_file(to / "back" / "config.json"));
  }
}

TEST(T5Folder, GgufIsRefusedByName) {
  const TemporaryFolder to;
  try {
    convert_model({.from = golden("t5"), .to = to / "model.gguf"});
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("t5"));
  }
}

}  // namespace
}  // namespace viaduct
