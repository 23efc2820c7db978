// Folders with all experts of a layer in one tensor, as transformers 5 computes with them: the same
// weights as those of single experts.

#include "checkpoint/separate_experts.h"

#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"
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
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path golden(const std::string& family) {
  return test::test_data("golden") / family / "model";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The folder of a family with its experts together. `gate`, `up`, `down`: what single ones are
/// called.
void write_together(const std::string& family, const std::string& block, const std::string& gate,
                    const std::string& up, const std::string& down,
                    const std::filesystem::path& to) {
  const auto single = open_weights(resolve_model_folder(golden(family)));
  const ModelConfig config = read_model_config(resolve_model_folder(golden(family)));
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : single->tensors()) {
    if (info.name.find(".experts.") != std::string::npos) continue;
    std::string name = replaced(info.name, block + ".gate.weight", "mlp.gate.weight");
    name = replaced(name, block + ".e_score", "mlp.e_score");
    tensors[replaced(name, "mlp.moe_statics.", "mlp.gate.moe_statics.")] =
        single->tensor(info.name);
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (!config.moe.routes(layer)) continue;
    const std::string before = fmt::format("model.layers.{}.", layer);
    const auto joined = [&](const std::vector<std::string>& parts) {
      std::string bytes;
      Shape shape{config.moe.experts, 0, 0};
      for (int64_t e = 0; e < config.moe.experts; ++e) {
        shape[1] = 0;
        for (const std::string& part : parts) {
          const Tensor one =
              single->tensor(fmt::format("{}{}.experts.{}.{}.weight", before, block, e, part));
          bytes += bytes_of(one);
          shape[1] += one.dim(0), shape[2] = one.dim(1);
        }
      }
      const Tensor all = host_tensor(DType::f32, shape);
      std::memcpy(all.raw(), bytes.data(), bytes.size());
      return all;
    };
    tensors[before + "mlp.experts.gate_up_proj"] = joined({gate, up});
    tensors[before + "mlp.experts.down_proj"] = joined({down});
  }
  write_safetensors(to / "model.safetensors", tensors);
  write_file_atomically(to / "config.json", read_file(golden(family) / "config.json"));
}

void expect_same(const std::filesystem::path& folder, const std::string& family) {
  const auto single = open_weights(resolve_model_folder(golden(family)));
  const auto together = open_weights(resolve_model_folder(folder));
  check_tensors_fit(read_model_config(resolve_model_folder(folder)), *together);
  EXPECT_EQ(together->tensors().size(), single->tensors().size());
  for (const TensorInfo& info : single->tensors()) {
    ASSERT_TRUE(together->contains(info.name)) << info.name;
    EXPECT_EQ(bytes_of(together->tensor(info.name)), bytes_of(single->tensor(info.name)))
        << info.name;
    if (info.shape.rank() != 2 || info.shape[0] < 2) continue;
    // All rows but the first, columns 1 and 2, without the first of these elements.
    const Piece piece{{{1, 1}, {info.shape[0] - 1, 2}}, 1, 2 * (info.shape[0] - 1)};
    std::string a(static_cast<size_t>(piece.elements() * 4), '\0'), b = a;
    together->read_into(info.name, piece, reinterpret_cast<std::byte*>(a.data()));
    single->read_into(info.name, piece, reinterpret_cast<std::byte*>(b.data()));
    EXPECT_EQ(a, b) << info.name;
  }
}

TEST(SeparateExperts, AreThoseOfTheFamilysOwnFiles) {
  for (const char* family : {"olmoe", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3",
                             "glm4_moe", "glm4_moe_lite", "dots1", "ernie4_5_moe", "solar_open"}) {
    TemporaryFolder folder;
    write_together(family, "mlp", "gate_proj", "up_proj", "down_proj", folder.path());
    expect_same(folder.path(), family);
  }
}

TEST(SeparateExperts, OfMixtralHaveItsNames) {
  TemporaryFolder folder;
  for (const char* family : {"mixtral", "minimax_m2"}) {
    write_together(family, "block_sparse_moe", "w1", "w3", "w2", folder.path());
    expect_same(folder.path(), family);
  }
}

TEST(SeparateExperts, AreNotLookedForElsewhere) {
  for (const char* family : {"llama", "mixtral", "gpt_oss"}) {
    const SafetensorsFolder stored(golden(family));
    EXPECT_FALSE(experts_are_together(stored, model_family(family).names)) << family;
  }
}

TEST(MissingTensors, AreListedWithThoseThatAreThereInstead) {
  TemporaryFolder folder;
  const SafetensorsFolder stored(golden("olmoe"));
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : stored.tensors())
    tensors[replaced(info.name, ".mlp.experts.", ".mlp.specialists.")] = stored.tensor(info.name);
  write_safetensors(folder / "model.safetensors", tensors);
  write_file_atomically(folder / "config.json", read_file(golden("olmoe") / "config.json"));
  const ModelFolder renamed = resolve_model_folder(folder.path());
  EXPECT_THAT([&] { check_tensors_fit(read_model_config(renamed), *open_weights(renamed)); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr("mlp.experts.0.gate_proj.weight is missing"),
                        HasSubstr("tensors of no parameter that are there (24): "),
                        HasSubstr("model.layers.0.mlp.specialists.0.down_proj.weight (f32 ["))));
}

}  // namespace
}  // namespace viaduct
