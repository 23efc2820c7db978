// The balancing loss that `probe` dumps, of a model of a family with experts that has none.

#include "probe/aux_loss.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors_writer.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

TEST(AuxLoss, IsZeroWhereEveryLayerIsDense) {
  const auto golden = test::test_data("golden/glm4_moe");
  test::TemporaryFolder folder;
  auto config = nlohmann::json::parse(read_file(golden / "model/config.json"));
  config["num_hidden_layers"] = config["first_k_dense_replace"] = 1;
  write_file_atomically(folder / "config.json", config.dump());
  const SafetensorsFile all(golden / "model/model.safetensors");
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : all.tensors())
    if (!info.name.starts_with("model.layers.1."))
      tensors.emplace(info.name, all.tensor(info.name));
  write_safetensors(folder / "model.safetensors", tensors);
  const auto got = test::probe_case(folder.path(), golden / "golden.safetensors", {});
  EXPECT_EQ(*got.at("aux_loss").data<float>(), 0);
  EXPECT_EQ(*got.at("loss_with_aux").data<float>(), *got.at("loss").data<float>());
}

}  // namespace
}  // namespace viaduct
