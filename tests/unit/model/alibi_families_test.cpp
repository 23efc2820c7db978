// Families that have ALiBi or other positions, as their config.json says.

#include <gmock/gmock.h>

#include "base/error.h"
#include "model/family.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

TEST(AlibiFamilies, FalconMayHaveLinearBiasesInPlaceOfRotaryPositions) {
  const ModelConfig model = read_hf_config(
      R"({"model_type": "falcon", "hidden_size": 16, "num_attention_heads": 2, "alibi": true,
          "multi_query": false, "parallel_attn": false, "rope_theta": 10000.0})",
      "config.json");
  EXPECT_EQ(model.positions, PositionKind::linear_bias);
  EXPECT_TRUE(model.linear_bias_scaled);
  EXPECT_EQ(model.kv_heads, 2);
  const ModelConfig again = read_hf_config(write_hf_config(model), "again");
  EXPECT_EQ(again.positions, PositionKind::linear_bias);
  EXPECT_TRUE(again.linear_bias_scaled);
  // What other families call ALiBi does not scale them.
  ModelConfig unscaled = model;
  unscaled.linear_bias_scaled = false;
  EXPECT_THROW(write_hf_config(unscaled), ConfigError);
}

TEST(AlibiFamilies, MptWithoutAlibiHasLearnedPositions) {
  const std::string mpt = R"({"model_type": "mpt", "n_layers": 2, "d_model": 16, "n_heads": 2, )";
  const ModelConfig model = read_hf_config(
      mpt + R"("learned_pos_emb": true, "attn_config": {"alibi": false}})", "config.json");
  EXPECT_EQ(model.positions, PositionKind::learned);
  EXPECT_EQ(read_hf_config(write_hf_config(model), "again").positions, PositionKind::learned);
  // ALiBi is in place of them.
  EXPECT_EQ(read_hf_config(mpt + R"("learned_pos_emb": true})", "config.json").positions,
            PositionKind::linear_bias);
  EXPECT_THAT(
      [&] {
        read_hf_config(mpt + R"("learned_pos_emb": false, "attn_config": {"alibi": false}})",
                       "config.json");
      },
      testing::ThrowsMessage<ConfigError>(HasSubstr("alibi is false, and so is learned_pos_emb")));
}

}  // namespace
}  // namespace viaduct
