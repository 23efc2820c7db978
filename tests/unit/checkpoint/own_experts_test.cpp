// Families whose own files have all experts of a layer in one tensor, or the bias of their choice
// as a row: read as single experts, and written as they were.

#include "checkpoint/own_experts.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/separate_experts.h"
#include "model/family.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::patterned;
using test::TemporaryFolder;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Its experts: 3 of 4 features in layer 1 of 2; hidden size 6.
ModelConfig small_model(const std::string& family) {
  ModelConfig model;
  model.family = family;
  model.layers = 2, model.hidden = 6;
  model.moe.experts = 3, model.moe.feed_forward = 4;
  model.moe.layers = {0, 1};
  model.moe.load_bias = family == "ernie4_5_moe";
  return model;
}

std::unique_ptr<TensorSource> stored(const TemporaryFolder& folder,
                                     const std::map<std::string, Tensor>& tensors) {
  write_safetensors(folder / "model.safetensors", tensors);
  return std::make_unique<SafetensorsFolder>(folder.path());
}

const std::string kGranite = "model.layers.1.block_sparse_moe.";

std::map<std::string, Tensor> granites_tensors() {
  return {{kGranite + "input_linear.weight", patterned(DType::f32, {3, 8, 6}, 1)},
          {kGranite + "output_linear.weight", patterned(DType::f32, {3, 6, 4}, 2)},
          {kGranite + "router.layer.weight", patterned(DType::f32, {3, 6}, 3)},
          {"model.norm.weight", patterned(DType::f32, {6}, 4)}};
}

void expect_same(const TensorSource& found, const std::map<std::string, Tensor>& expected) {
  EXPECT_EQ(found.tensors().size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.find(name)->shape, tensor.shape()) << name;
    EXPECT_EQ(bytes_of(found.tensor(name)), bytes_of(tensor)) << name;
  }
}

TEST(OwnExperts, OfGraniteAreOneByOneInsideAndTogetherInFiles) {
  const TemporaryFolder folder;
  const TensorNames& names = model_family("granitemoe").names;
  const auto tensors = granites_tensors();
  auto source = stored(folder, tensors);
  ASSERT_TRUE(experts_are_together(*source, names));
  const auto single = separate_experts(std::move(source), names);
  const Tensor both = tensors.at(kGranite + "input_linear.weight");
  const auto rows = [&](int64_t expert, int64_t row) {
    return bytes_of(both).substr(static_cast<size_t>((expert * 8 + row) * 6 * 4), 4 * 6 * 4);
  };
  EXPECT_EQ(bytes_of(single->tensor(kGranite + "experts.2.gate_proj.weight")), rows(2, 0));
  EXPECT_EQ(bytes_of(single->tensor(kGranite + "experts.2.up_proj.weight")), rows(2, 4));
  EXPECT_EQ(single->find(kGranite + "experts.1.down_proj.weight")->shape, (Shape{6, 4}));
  expect_same(OwnExperts(*single, small_model("granitemoe")), tensors);
}

// As transformers 5 computes, and writes if told to keep its form.
TEST(OwnExperts, OfGraniteHaveOtherNamesInTransformersFive) {
  const TemporaryFolder folder;
  const TensorNames& names = model_family("granitemoe").names;
  const auto tensors = granites_tensors();
  const auto renamed = [&](const char* name) { return tensors.at(kGranite + name); };
  const auto single = separate_experts(
      stored(folder, {{kGranite + "experts.gate_up_proj", renamed("input_linear.weight")},
                      {kGranite + "experts.down_proj", renamed("output_linear.weight")},
                      {kGranite + "router.weight", renamed("router.layer.weight")},
                      {"model.norm.weight", tensors.at("model.norm.weight")}}),
      names);
  expect_same(OwnExperts(*single, small_model("granitemoe")), tensors);
}

TEST(OwnExperts, TheBiasOfErniesChoiceIsARowInFiles) {
  const std::string name = "model.layers.1.mlp.moe_statics.e_score_correction_bias";
  const TensorNames& names = model_family("ernie4_5_moe").names;
  const Tensor row = patterned(DType::f32, {1, 3}, 5);
  for (const std::string& place :
       {name, std::string("model.layers.1.mlp.gate.moe_statics.e_score_correction_bias")}) {
    const TemporaryFolder folder;
    auto source = stored(folder, {{place, row}});
    ASSERT_TRUE(experts_are_together(*source, names)) << place;
    const auto single = separate_experts(std::move(source), names);
    EXPECT_EQ(single->find(name)->shape, (Shape{3}));
    EXPECT_EQ(bytes_of(single->tensor(name)), bytes_of(row));
    expect_same(OwnExperts(*single, small_model("ernie4_5_moe")), {{name, row}});
  }
}

TEST(OwnExperts, LackNoneAndAreAlike) {
  const TemporaryFolder folder;
  std::map<std::string, Tensor> tensors;
  for (uint64_t e = 0; e < 3; ++e) {
    const std::string expert = kGranite + "experts." + std::to_string(e) + ".";
    tensors[expert + "gate_proj.weight"] = patterned(DType::f32, {4, 6}, e);
    tensors[expert + "up_proj.weight"] = patterned(DType::f32, {4, 6}, e + 3);
    tensors[expert + "down_proj.weight"] = patterned(DType::f32, {6, 4}, e + 6);
  }
  const ModelConfig model = small_model("granitemoe");
  const auto whole = stored(folder, tensors);
  EXPECT_EQ(OwnExperts(*whole, model).tensors().size(), 2u);
  const std::string one = kGranite + "experts.1.up_proj.weight";
  const auto join = [&](const std::map<std::string, Tensor>& of) {
    const TemporaryFolder other;
    const auto source = stored(other, of);
    (void)OwnExperts(*source, model);
  };
  auto wrong = tensors;
  wrong.at(one) = patterned(DType::f32, {4, 5}, 1);
  EXPECT_THAT([&] { join(wrong); }, ThrowsMessage<IoError>(HasSubstr("that of another expert")));
  wrong.erase(one);
  EXPECT_THAT([&] { join(wrong); }, ThrowsMessage<IoError>(HasSubstr(one + "\" is missing")));
}

TEST(OwnExperts, OfOtherFamiliesAreUnchanged) {
  const auto single =
      open_weights(resolve_model_folder(test::test_data("golden") / "mixtral" / "model"));
  const ModelConfig model =
      read_model_config(resolve_model_folder(test::test_data("golden") / "mixtral" / "model"));
  const OwnExperts own(*single, model);
  EXPECT_EQ(own.tensors().size(), single->tensors().size());
}

}  // namespace
}  // namespace viaduct
