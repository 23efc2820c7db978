// Exports models to GGUF files and imports them.

#include "checkpoint/gguf_model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/gguf_rope.h"
#include "checkpoint/gguf_weights.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_writer.h"
#include "model/family.h"
#include "model/further_fields.h"
#include "model/hf_config.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::TemporaryFolder;
using test::test_data;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Opened {
  explicit Opened(const std::string& name)
      : folder(resolve_model_folder(test_data("golden") / name / "model")),
        weights(open_weights(folder)),
        model(read_model_config(folder)) {}
  GgufWritten write(const std::filesystem::path& to,
                    std::optional<ExportFormat> format = std::nullopt) const {
    return write_gguf(to, "name", model, *weights, {}, format);
  }

  ModelFolder folder;
  std::unique_ptr<TensorSource> weights;
  ModelConfig model;
};

class GgufFamilies : public testing::TestWithParam<std::string> {};

TEST_P(GgufFamilies, RoundTripIsExact) {
  const Opened from(GetParam());
  TemporaryFolder folder;
  const GgufWritten written = from.write(folder / "m.gguf");
  const GgufModel back = read_gguf(folder / "m.gguf");
  ModelConfig said = read_hf_config(back.config, "config.json");
  said.family = from.model.family;  // files of mistral have the architecture llama
  said.embedding_dropout = from.model.embedding_dropout;
  said.residual_dropout = from.model.residual_dropout;
  said.attention_dropout = from.model.attention_dropout;
  if (from.model.family == "mistral") said.windows = from.model.windows;
  EXPECT_EQ(further_fields(from.model, said), "");
  EXPECT_EQ(said.end_tokens, from.model.end_tokens);
  EXPECT_EQ(said.begin_token, from.model.begin_token);
  int64_t found = 0;
  for (const TensorInfo& info : from.weights->tensors()) {
    if (info.name.ends_with(".attn.bias") || info.name.ends_with(".masked_bias")) continue;
    if (from.model.tied_embeddings && info.name == "lm_head.weight") continue;
    ++found;
    const Tensor a = from.weights->tensor(info.name), b = back.weights->tensor(info.name);
    ASSERT_EQ(a.dtype(), b.dtype()) << info.name;
    ASSERT_EQ(a.shape(), b.shape()) << info.name;
    if (from.model.norm_weight_offset == 0 || info.shape.rank() == 2) {
      EXPECT_EQ(bytes_of(a), bytes_of(b)) << info.name;
    } else {  // w + 1 is rounded to FP32
      for (int64_t i = 0; i < a.elements(); ++i)
        EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 0x1p-23) << info.name;
    }
  }
  EXPECT_EQ(static_cast<int64_t>(back.weights->tensors().size()), found);
  EXPECT_EQ(written.tensors, found + (GetParam() == "llama3_rope" ? 1 : 0));
}

INSTANTIATE_TEST_SUITE_P(, GgufFamilies,
                         testing::Values("llama", "llama_tied", "llama3_rope", "linear_rope",
                                         "yarn", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
                                         "gpt2"),
                         [](const auto& family) { return family.param; });

// BF16 and FP16 matrices with FP32 vectors become a folder with one format again.
TEST(GgufModel, NarrowFormatsComeBackAsTheyWere) {
  const Opened from("llama");
  for (const auto& [format, dtype] :
       {std::pair{ExportFormat::bf16, DType::bf16}, std::pair{ExportFormat::fp16, DType::f16}}) {
    TemporaryFolder folder;
    ExportTensors narrow(*from.weights, from.model, format);
    std::map<std::string, Tensor> tensors;
    for (const TensorInfo& info : narrow.tensors()) tensors[info.name] = narrow.tensor(info.name);
    write_safetensors(folder / "model.safetensors", tensors);
    write_file_atomically(folder / "config.json", read_config_text(from.folder));
    const auto stored = open_weights(resolve_model_folder(folder.path()));
    write_gguf(folder / "m.gguf", "name", from.model, *stored, {}, std::nullopt);
    const GgufFile file(folder / "m.gguf");
    EXPECT_EQ(file.find("blk.0.attn_q.weight")->dtype, dtype);
    EXPECT_EQ(file.find("blk.0.attn_norm.weight")->dtype, DType::f32);
    const GgufModel back = read_gguf(folder / "m.gguf");
    for (const auto& [name, tensor] : tensors) {
      const Tensor read = back.weights->tensor(name);
      EXPECT_EQ(read.dtype(), dtype) << name;
      EXPECT_EQ(bytes_of(read), bytes_of(tensor)) << name;
    }
  }
}

// convert_hf_to_gguf.py, LlamaModel.permute: of a head's rows, row i of both halves become
// neighbours.
TEST(GgufModel, LlamasQueryRowsAreNeighbours) {
  const Opened from("llama");
  const auto weights = gguf_weights(from.model);
  const GgufWeight& q = weights.at("blk.1.attn_q.weight");
  const GgufWeight& k = weights.at("blk.1.attn_k.weight");
  EXPECT_EQ(q.name, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(q.heads, 4);
  EXPECT_EQ(k.heads, 2);
  Tensor rows = host_tensor(DType::f32, {64, 1});
  for (int i = 0; i < 64; ++i) rows.data<float>()[i] = static_cast<float>(i);
  const Tensor to = to_gguf(rows, q);
  const auto* order = to.data<float>();
  EXPECT_EQ(std::vector<float>(order, order + 6), (std::vector<float>{0, 8, 1, 9, 2, 10}));
  EXPECT_EQ(order[16], 16);
  EXPECT_EQ(order[17], 24);
  EXPECT_EQ(bytes_of(from_gguf(to, q)), bytes_of(rows));
  EXPECT_EQ(gguf_weights(Opened("qwen2").model).at("blk.1.attn_q.weight").change,
            GgufWeight::Change::none);
  ModelConfig interleaved = from.model;
  interleaved.rotary.interleaved = true;  // neighbours already
  EXPECT_EQ(gguf_weights(interleaved).at("blk.1.attn_q.weight").change, GgufWeight::Change::none);
}

TEST(GgufModel, Q8_0IsReadAsItsExactValues) {
  const Opened from("llama");
  TemporaryFolder folder;
  const GgufWritten written = from.write(folder / "m.gguf", ExportFormat::q8_0);
  EXPECT_GT(written.rounding.changed, 0);
  // 176 is no multiple of 32.
  EXPECT_THAT(written.notes, testing::Contains(HasSubstr("blk.0.ffn_down.weight")));
  const GgufFile file(folder / "m.gguf");
  EXPECT_EQ(file.head().keys.integer("general.file_type"), 7);
  for (const GgufTensor& tensor : file.head().tensors) {
    const bool vector = tensor.shape.rank() == 1;
    const bool wide = tensor.name.find("ffn_down") != std::string::npos;
    EXPECT_EQ(tensor.type, vector ? GgufTensorType::f32
                           : wide ? GgufTensorType::f16
                                  : GgufTensorType::q8_0)
        << tensor.name;
  }
  const GgufModel back = read_gguf(folder / "m.gguf");
  for (const TensorInfo& info : from.weights->tensors()) {
    const Tensor a = from.weights->tensor(info.name), b = back.weights->tensor(info.name);
    float largest = 0, worst = 0;
    for (int64_t i = 0; i < a.elements(); ++i) {
      const float x = a.data<float>()[i];
      const float y =
          b.dtype() == DType::f16 ? static_cast<float>(b.data<float16>()[i]) : b.data<float>()[i];
      largest = std::max(largest, std::fabs(x));
      worst = std::max(worst, std::fabs(x - y));
    }
    EXPECT_LE(worst, largest / 254 * 1.1f) << info.name;
  }
}

// Rows of 256 elements and of 4.
TEST(GgufModel, QuantizedFormatsAreMixturesOfTypes) {
  const GgufModel from = read_gguf(test_data("gguf_blocks/model.gguf"));
  const ModelConfig model = read_hf_config(from.config, "config.json");
  TemporaryFolder folder;
  const auto path = folder / "m.gguf";
  const GgufWritten written =
      write_gguf(path, "name", model, *from.weights, {}, ExportFormat::q4_k_m);
  EXPECT_THAT(written.notes,
              testing::Contains(HasSubstr("rows of blk.1.ffn_down.weight are not a multiple of "
                                          "256; stored as F16 instead of Q6_K")));
  EXPECT_THAT(written.notes, testing::Contains(HasSubstr("F16 instead of Q4_K")));
  const GgufFile file(path);
  EXPECT_EQ(file.head().keys.integer("general.file_type"), 15);
  EXPECT_EQ(file.head().keys.integer("general.quantization_version"), 2);
  std::map<std::string, GgufTensorType> types;
  for (const GgufTensor& tensor : file.head().tensors) types[tensor.name] = tensor.type;
  EXPECT_EQ(types.at("token_embd.weight"), GgufTensorType::q4_k);
  EXPECT_EQ(types.at("output.weight"), GgufTensorType::q6_k);
  EXPECT_EQ(types.at("blk.0.attn_v.weight"), GgufTensorType::q4_k);
  EXPECT_EQ(types.at("blk.1.attn_v.weight"), GgufTensorType::q6_k);
  EXPECT_EQ(types.at("blk.1.attn_q.weight"), GgufTensorType::q4_k);
  EXPECT_EQ(types.at("blk.0.ffn_down.weight"), GgufTensorType::f16);
  EXPECT_EQ(types.at("blk.0.attn_norm.weight"), GgufTensorType::f32);
}

TEST(GgufModel, QuantizedFormatsAreReadAsNearlyTheWeights) {
  const GgufModel from = read_gguf(test_data("gguf_blocks/model.gguf"));
  const ModelConfig model = read_hf_config(from.config, "config.json");
  double before = 0;  // the formats are in the order of their errors
  for (const ExportFormat format :
       {ExportFormat::q8_0, ExportFormat::q6_k, ExportFormat::q5_k_m, ExportFormat::q5_k_s,
        ExportFormat::q4_k_m, ExportFormat::q4_k_s, ExportFormat::q4_0}) {
    TemporaryFolder folder;
    const GgufWritten written =
        write_gguf(folder / "m.gguf", "name", model, *from.weights, {}, format);
    const GgufModel back = read_gguf(folder / "m.gguf");
    double squares = 0;
    for (const TensorInfo& info : from.weights->tensors()) {
      const Tensor a = from.weights->tensor(info.name), b = back.weights->tensor(info.name);
      ASSERT_EQ(a.shape(), b.shape()) << info.name;
      std::vector<double> values;
      for_each_value(a, [&](int64_t, double value) { values.push_back(value); });
      for_each_value(b, [&](int64_t i, double value) {
        const double difference = value - values[static_cast<size_t>(i)];
        squares += difference * difference;
      });
    }
    EXPECT_NEAR(squares, written.rounding.error_squares, squares * 1e-6);
    EXPECT_GE(squares, before) << export_format_name(format);
    EXPECT_LT(squares, 0.02 * written.rounding.value_squares) << export_format_name(format);
    before = squares;
  }
}

// Nothing is written of a model with a weight that no scale holds.
TEST(GgufModel, QuantizedFormatsRefuseInfinities) {
  const Opened from("llama");
  TemporaryFolder folder;
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : from.weights->tensors()) {
    const Tensor tensor = from.weights->tensor(info.name);
    tensors[info.name] = host_tensor(tensor.dtype(), tensor.shape());
    std::memcpy(tensors[info.name].raw(), tensor.raw(), static_cast<size_t>(tensor.bytes()));
  }
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  ASSERT_EQ(tensors.at(name).dtype(), DType::f32);
  tensors.at(name).data<float>()[5] = std::numeric_limits<float>::infinity();
  write_safetensors(folder / "model.safetensors", tensors);
  write_file_atomically(folder / "config.json", read_config_text(from.folder));
  const auto weights = open_weights(resolve_model_folder(folder.path()));
  EXPECT_THAT(
      [&] { write_gguf(folder / "m.gguf", "name", from.model, *weights, {}, ExportFormat::q4_0); },
      ThrowsMessage<IoError>(HasSubstr("tensor \"" + name + "\": 1 of its")));
  EXPECT_FALSE(std::filesystem::exists(folder / "m.gguf"));
}

TEST(GgufModel, RefusesModelsThatLlamaCppComputesOtherwise) {
  TemporaryFolder folder;
  const auto refusal = [&](ModelConfig model) {
    GgufHeadWriter head;
    try {
      add_gguf_config(head, model);
      head.add_tensor({"token_embd.weight", GgufTensorType::f32, {model.vocabulary, model.hidden}});
      for (int64_t i = 0; i < model.layers; ++i)
        head.add_tensor({fmt::format("t{}", i), GgufTensorType::f32, {1}});
      if (!model.tied_embeddings) head.add_tensor({"output.weight", GgufTensorType::f32, {1}});
      check_gguf_config(model, parse_gguf(head.head(), "F", GgufContent::head), {});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const ModelConfig llama = Opened("llama").model;
  EXPECT_EQ(refusal(llama), "accepted");
  ModelConfig model = llama;
  // Numbers that FP32 rounds.
  model.norm_eps = 9.999999747378752e-06;
  model.rotary.base = 12345.678;
  EXPECT_EQ(refusal(model), "accepted");
  model.rotary.scaling = RopeScalingKind::yarn;
  model.rotary.original_max_positions = 16;
  model.rotary.factor = 1.1, model.rotary.beta_fast = 31.7, model.rotary.beta_slow = 1.3;
  model.rotary.attention_factor = 1.0123456789;
  model.rotary.mscale = 1.1, model.rotary.mscale_all_dim = 0.9;
  EXPECT_EQ(refusal(model), "accepted");
  model = llama;
  model.rotary.scaling = RopeScalingKind::dynamic, model.rotary.factor = 4;
  EXPECT_EQ(refusal(model), "accepted");  // it begins behind context_length
  model.rotary.alpha = 50;
  EXPECT_THAT(refusal(model), HasSubstr("alpha: 50"));
  model = llama;
  model.temperature = {0.1, 16};
  EXPECT_THAT(refusal(model), HasSubstr("attention_temperature_scale: 0.1"));
  model = Opened("gemma2").model;
  model.attention_softcap = 12.3, model.logit_softcap = 4.56;
  EXPECT_EQ(refusal(model), "accepted");
  model = llama;
  model.activation = ActivationKind::relu;
  EXPECT_THAT(refusal(model), HasSubstr("cannot express {activation_func: relu}"));
  model = llama;
  model.attention_scale = 0.5;
  EXPECT_THAT(refusal(model), HasSubstr("softmax_scale: 0.5"));
  model = llama;
  model.qk_norm = true;
  EXPECT_THAT(refusal(model), HasSubstr("qk_layernorm: true"));
  model = llama;
  model.rotary.width = 8;
  EXPECT_THAT(refusal(model), HasSubstr("heads of 16 dims with 8 of them rotated"));
  model = Opened("qwen2").model;
  model.rotary.interleaved = true;
  EXPECT_THAT(refusal(model), HasSubstr("rotary_interleaved"));
  model = llama;
  model.family = "phi3";
  EXPECT_THAT(refusal(model), HasSubstr("family phi3 cannot be converted"));
  const Opened llama_model("llama");
  EXPECT_THAT([&] { llama_model.write(folder / "m.gguf", ExportFormat::fp8); },
              ThrowsMessage<ConfigError>(HasSubstr("GGUF has no FP8 tensors")));
  EXPECT_FALSE(std::filesystem::exists(folder / "m.gguf"));
}

TEST(GgufModel, WindowsThatAreThereAreNotWarnedOf) {
  ModelConfig model = Opened("gemma2").model;
  const auto notes = [&] {
    GgufHeadWriter head;
    add_gguf_config(head, model);
    head.add_tensor({"token_embd.weight", GgufTensorType::f32, {model.vocabulary, model.hidden}});
    for (int64_t i = 0; i < model.layers; ++i)
      head.add_tensor({fmt::format("t{}", i), GgufTensorType::f32, {1}});
    std::string text;
    for (const std::string& note :
         check_gguf_config(model, parse_gguf(head.head(), "F", GgufContent::head), {}))
      text += note.find("sliding windows") == std::string::npos ? "" : note;
    return text;
  };
  EXPECT_EQ(notes(), "");
  model.windows.assign(model.windows.size(), 0);  // as wide as the context
  EXPECT_EQ(notes(), "");
  model.windows.assign(model.windows.size(), 5);
  EXPECT_NE(notes(), "");
}

TEST(GgufModel, SaysWhereSlidingWindowsAreLost) {
  TemporaryFolder folder;
  const GgufWritten written = Opened("mistral").write(folder / "m.gguf");
  EXPECT_THAT(written.notes, testing::Contains(HasSubstr("no sliding windows")));
  const GgufWritten gemma = Opened("gemma2").write(folder / "g.gguf");
  EXPECT_THAT(gemma.notes, testing::Contains(HasSubstr("scale of scores")));
}

// Rotary frequencies without keys that describe them are recognised, or refused.
TEST(GgufModel, RotaryFactorsOfPublishedModelsAreKnown) {
  ModelConfig model = Opened("llama").model;
  model.rotary.scaling = RopeScalingKind::llama3;
  model.rotary.factor = 32;
  model.rotary.low_frequency_factor = 1;
  model.rotary.high_frequency_factor = 4;
  model.rotary.original_max_positions = 8192;
  model.rotary.base = 500000;
  GgufHeadWriter head;
  ModelConfig plain = model;
  plain.rotary.scaling = RopeScalingKind::none;
  add_gguf_config(head, plain);  // without our own key
  head.add_tensor({"token_embd.weight", GgufTensorType::f32, {model.vocabulary, model.hidden}});
  for (int i = 0; i < 4; ++i) head.add_tensor({fmt::format("t{}", i), GgufTensorType::f32, {1}});
  head.add_tensor({"output.weight", GgufTensorType::f32, {1}});
  const GgufHead read = parse_gguf(head.head(), "F", GgufContent::head);
  const Tensor factors = gguf_rope_factors(model.rotary);
  EXPECT_TRUE(check_gguf_config(model, read, factors).empty());
  factors.data<float>()[5] *= 1.01f;
  EXPECT_THAT([&] { check_gguf_config(model, read, factors); },
              ThrowsMessage<ConfigError>(HasSubstr("llama3 scaling")));
}

TEST(GgufModel, DamageIsAnError) {
  const Opened from("qwen3");
  TemporaryFolder folder;
  from.write(folder / "m.gguf");
  const std::string good = read_file(folder / "m.gguf");
  const auto refused = [&](const std::string& from_text, const std::string& to) {
    std::string file = good;
    file.replace(file.find(from_text), from_text.size(), to);
    try {
      read_gguf(GgufFile::from_memory(file, "F"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(refused("qwen3.block_count", "qwen3.block_cOunt"), HasSubstr("block_count"));
  EXPECT_THAT(refused("blk.0.attn_q.weight", "blk.9.attn_q.weight"), HasSubstr("no place"));
  EXPECT_THAT(refused("token_embd.weight", "token_embD.weight"), HasSubstr("token_embd.weight"));
  const std::string count = std::string("qwen3.block_count") + std::string("\4\0\0\0\2\0\0\0", 8);
  EXPECT_THAT(refused(count, count.substr(0, 21) + std::string("\0\0\0\1", 4)),
              HasSubstr("block_count is 16777216 in a file of"));
}

}  // namespace
}  // namespace viaduct
