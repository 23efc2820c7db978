// Folders of PEFT without some of the tensors that their settings ask for.

#include "checkpoint/peft_missing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::test_data;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// A golden adapter of PEFT's, whose tensors and settings are changed.
class Folder {
 public:
  explicit Folder(const std::string& adapter, const std::string& model)
      : model_(read_model_config(resolve_model_folder(test_data("golden") / model / "model"))) {
    const auto from = test_data("golden") / adapter / "adapter";
    config = json::parse(read_file(from / kAdapterConfigFile));
    const SafetensorsFile file(from / kAdapterWeightsFile);
    for (const TensorInfo& info : file.tensors()) tensors_[info.name] = file.tensor(info.name);
  }
  /// Removes the tensors with `part` in their names; how many.
  size_t lose(const std::string& part) {
    return std::erase_if(
        tensors_, [&](const auto& tensor) { return tensor.first.find(part) != std::string::npos; });
  }
  PeftAdapter open() const {
    write_file_atomically(folder_ / kAdapterConfigFile, config.dump());
    write_safetensors(folder_ / kAdapterWeightsFile, tensors_);
    return open_adapter(folder_.path(), model_);
  }
  void expect_missing(const std::string& said, const std::string& number) const {
    EXPECT_THAT([&] { open(); },
                ThrowsMessage<IoError>(AllOf(HasSubstr(said), HasSubstr("(" + number + " of"))));
  }

  json config;

 private:
  ModelConfig model_;
  test::TemporaryFolder folder_;
  std::map<std::string, Tensor> tensors_;
};

const std::string kLast = "base_model.model.model.layers.3.";

TEST(PeftMissing, TensorsOfALayerAreNamed) {
  Folder folder("lora_llama", "llama");
  EXPECT_EQ(folder.lose("layers.3.mlp.up_proj.lora_B"), 1u);
  folder.expect_missing(": " + kLast + "mlp.up_proj.lora_B.weight is missing", "1 tensor");
  EXPECT_EQ(folder.lose("layers.3.mlp.up_proj"), 1u);
  folder.expect_missing(
      kLast + "mlp.up_proj.lora_A.weight, " + kLast + "mlp.up_proj.lora_B.weight are missing",
      "2 tensors");
  EXPECT_EQ(folder.lose("layers.3"), 12u);
  folder.expect_missing(" and 10 more are missing", "14 tensors");
  // The settings explain it.
  folder.config["layers_to_transform"] = {0, 1, 2};
  EXPECT_EQ(folder.open().settings.modules.size(), 21u);
  folder.config.erase("layers_to_transform");
  folder.config["exclude_modules"] = ".*layers\\.3\\..*";
  EXPECT_EQ(folder.open().settings.modules.size(), 21u);
  folder.config.erase("exclude_modules");
  folder.config["target_modules"] = ".*layers\\.[0-2]\\..*";
  EXPECT_EQ(folder.open().settings.modules.size(), 21u);
  folder.config["target_modules"] = "all-linear";
  folder.expect_missing("are missing", "14 tensors");
  // PEFT's own list, which is not here: a kind of layers has adapters or not.
  folder.config["target_modules"] = nullptr;
  folder.expect_missing("are missing", "14 tensors");
  EXPECT_EQ(folder.lose("o_proj"), 6u);
  folder.expect_missing("are missing", "12 tensors");
}

TEST(PeftMissing, AKindOfLayersThatIsAskedForIsThere) {
  Folder folder("lora_llama", "llama");
  EXPECT_EQ(folder.lose("v_proj"), 8u);
  folder.expect_missing("layers.0.self_attn.v_proj.lora_A.weight", "8 tensors");
  // A regular expression that only Python reads may leave it out.
  folder.config["target_modules"] = "(?i).*[QKO]_proj|.*mlp.*";
  EXPECT_EQ(folder.open().settings.modules.size(), 24u);
}

TEST(PeftMissing, MagnitudesAreTensorsOfALayerToo) {
  Folder folder("dora_llama", "llama");
  EXPECT_EQ(folder.lose("layers.3.self_attn.q_proj.lora_magnitude_vector"), 1u);
  folder.expect_missing(kLast + "self_attn.q_proj.lora_magnitude_vector is missing", "1 tensor");
}

TEST(PeftMissing, OfExpertsThatAreParameters) {
  Folder folder("lora_experts", "mixtral");
  EXPECT_NO_THROW(folder.open());
  EXPECT_EQ(folder.lose("layers.1.mlp.experts.lora_A"), 1u);
  folder.expect_missing("layers.1.mlp.experts.lora_A.weight is missing", "1 tensor");
  folder.lose("layers.1.mlp.experts");
  folder.expect_missing("layers.1.mlp.experts.base_layer.lora_A.weight", "4 tensors");
}

TEST(PeftMissing, OfExpertsWithANameEach) {
  Folder folder("lora_experts_v4", "mixtral");
  EXPECT_NO_THROW(folder.open());
  EXPECT_EQ(folder.lose("layers.1.block_sparse_moe.experts.2.w1"), 2u);
  folder.expect_missing("layers.1.block_sparse_moe.experts.2.w1.lora_A.weight", "2 tensors");
}

}  // namespace
}  // namespace viaduct
