// A tensor of all experts seen as one tensor an expert, and back; also packed MXFP4 experts.

#include "checkpoint/fused_experts.h"

#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/quantized_weights.h"
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
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kAll = "model.layers.0.mlp.experts.gate_up_proj";
constexpr const char* kThird = "model.layers.0.mlp.experts.2.gate_up_proj";

std::vector<std::string> fused() {
  return fused_expert_names(model_family("gpt_oss").names);
}

std::unique_ptr<TensorSource> stored(const TemporaryFolder& folder,
                                     const std::map<std::string, Tensor>& tensors) {
  write_safetensors(folder / "model.safetensors", tensors);
  return std::make_unique<SafetensorsFolder>(folder.path());
}

TEST(FusedExperts, AreThoseOfGptOssAlone) {
  EXPECT_EQ(fused(), (std::vector<std::string>{"gate_up_proj", "gate_up_proj_bias", "down_proj",
                                               "down_proj_bias"}));
  EXPECT_TRUE(fused_expert_names(model_family("mixtral").names).empty());
  EXPECT_TRUE(fused_expert_names(model_family("llama").names).empty());
}

TEST(FusedExperts, SplitAndJoinedAreTheSameBytes) {
  const std::map<std::string, Tensor> tensors{
      {kAll, patterned(DType::f32, {3, 4, 6}, 1)},
      {std::string(kAll) + "_bias", patterned(DType::bf16, {3, 6}, 2)},
      {"model.layers.0.mlp.router.weight", patterned(DType::f32, {3, 4}, 3)}};
  TemporaryFolder folder;
  const auto single = split_experts(stored(folder, tensors), fused());
  const TensorSource& split = *single;
  EXPECT_EQ(split.tensors().size(), 7u);
  ASSERT_NE(split.find(kThird), nullptr);
  EXPECT_EQ(split.find(kThird)->shape, (Shape{4, 6}));
  EXPECT_EQ(split.find(kAll), nullptr);
  EXPECT_EQ(bytes_of(split.tensor(kThird)), bytes_of(tensors.at(kAll).select(2)));
  // Rows 1 and 2, columns 2 to 5, without the first and the last of them.
  const Piece piece{{{1, 2}, {2, 4}}, 1, 7};
  const Tensor read = host_tensor(DType::f32, {6});
  split.read_into(kThird, piece, static_cast<std::byte*>(read.raw()));
  const float* whole = tensors.at(kAll).data<float>() + 2 * 24;
  EXPECT_EQ(read.data<float>()[0], whole[6 + 3]);
  EXPECT_EQ(read.data<float>()[5], whole[12 + 4]);
  EXPECT_THROW(split.read_into(kThird, {{{3, 0}, {2, 6}}, 0, 12}, nullptr), ShapeError);

  const JoinedExperts joined(split, fused());
  ASSERT_EQ(joined.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_NE(joined.find(name), nullptr) << name;
    EXPECT_EQ(joined.find(name)->shape, tensor.shape()) << name;
    EXPECT_EQ(bytes_of(joined.tensor(name)), bytes_of(tensor)) << name;
  }
}

TEST(FusedExperts, PackedOnesAreDecodedOneAtATime) {
  const auto bytes = [](const Shape& shape, int first) {
    const Tensor tensor = host_tensor(DType::u8, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      static_cast<uint8_t*>(tensor.raw())[i] = static_cast<uint8_t>(first + i % 7);
    return tensor;
  };
  TemporaryFolder folder;
  const std::map<std::string, Tensor> tensors{
      {std::string(kAll) + "_blocks", bytes({3, 6, 2, 16}, 17)},
      {std::string(kAll) + "_scales", bytes({3, 6, 2}, 120)}};
  const auto config =
      read_quantization_config(R"({"quantization_config": {"quant_method": "mxfp4"}})", "test");
  const QuantizedWeights whole(stored(folder, tensors), *config);
  const Tensor expected = whole.tensor(kAll);  // [3, 64, 6]
  const auto split = split_experts(std::make_unique<QuantizedWeights>(
                                       std::make_unique<SafetensorsFolder>(folder.path()), *config),
                                   fused());
  EXPECT_EQ(split->find(kThird)->shape, (Shape{64, 6}));
  EXPECT_EQ(bytes_of(split->tensor(kThird)), bytes_of(expected.select(2)));
}

TEST(FusedExperts, RefuseWhatDoesNotFit) {
  TemporaryFolder twice;
  EXPECT_THAT(
      [&] {
        split_experts(stored(twice, {{kAll, patterned(DType::f32, {3, 4, 6}, 1)},
                                     {kThird, patterned(DType::f32, {4, 6}, 1)}}),
                      fused());
      },
      ThrowsMessage<IoError>(HasSubstr("twice")));
  TemporaryFolder gap;
  const auto one = stored(gap, {{kThird, patterned(DType::f32, {4, 6}, 1)}});
  EXPECT_THAT([&] { JoinedExperts(*one, fused()); },
              ThrowsMessage<IoError>(HasSubstr("of expert 0 is missing")));
}

}  // namespace
}  // namespace viaduct
