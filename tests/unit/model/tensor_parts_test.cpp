// Parameters cut over the tensor axis: the parts of all ranks together are every logical tensor
// exactly once.

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "base/error.h"
#include "support/tensor_ranks.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::TensorRun;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Sizes {
  int64_t heads, kv_heads, vocabulary, multiple;
  int tp;
};

constexpr Sizes kSizes[] = {{4, 2, 13, 1, 1}, {4, 2, 13, 1, 2}, {4, 2, 13, 3, 4},
                            {4, 4, 16, 1, 4}, {4, 1, 13, 1, 2}, {8, 2, 100, 7, 8},
                            {6, 3, 10, 1, 3}, {6, 2, 10, 4, 6}};

ModelConfig sized(const ModelConfig& base, const Sizes& s) {
  ModelConfig c = base;
  c.heads = s.heads;
  c.kv_heads = c.family == "gpt2" ? s.heads : s.kv_heads;
  c.feed_forward = 24;
  c.vocabulary = s.vocabulary;
  return c;
}

int64_t logical_index(const Part& part, int64_t i) {
  if (part.logical_shape.rank() == 1) return part.box.begin[0] + i;
  const int64_t columns = part.box.size[1];
  return (part.box.begin[0] + i / columns) * part.logical_shape[1] + part.box.begin[1] +
         i % columns;
}

TEST(TensorParts, OwnedBoxesCoverEveryLogicalTensorOnce) {
  for (const auto& [name, base] : test::tiny_models()) {
    for (const Sizes& s : kSizes) {
      SCOPED_TRACE(testing::Message()
                   << name << " heads " << s.heads << " kv " << s.kv_heads << " tp " << s.tp);
      TensorRun run{sized(base, s), "fp32", s.tp, true, s.multiple};
      const auto ranks = test::parameters_by_rank(run);
      std::map<std::string, std::vector<int>> owned, held;
      for (const auto& parameters : ranks) {
        ASSERT_EQ(parameters.size(), ranks[0].size());
        for (size_t i = 0; i < parameters.size(); ++i) {
          EXPECT_EQ(parameters[i].path, ranks[0][i].path);
          EXPECT_EQ(parameters[i].shape, ranks[0][i].shape) << parameters[i].path;
          int64_t row = 0;
          for (const Part& part : parameters[i].parts) {
            EXPECT_EQ(part.storage_row, row) << parameters[i].path;
            row += part.rows();
            auto& mine = owned[part.name];
            auto& all = held[part.name];
            mine.resize(static_cast<size_t>(part.logical_shape.elements()));
            all.resize(mine.size());
            for (int64_t e = 0; e < part.box.size.elements(); ++e) {
              const auto at = static_cast<size_t>(logical_index(part, e));
              mine[at] += part.owned;
              ++all[at];
            }
          }
          EXPECT_LE(row, parameters[i].shape[0]) << parameters[i].path;
        }
      }
      const auto one = test::parameters_by_rank({run.model, "fp32", 1});
      std::set<std::string> names;
      for (const Parameter& p : one[0])
        for (const Part& part : p.parts) names.insert(part.name);
      EXPECT_EQ(owned.size(), names.size());
      for (const auto& [tensor, counts] : owned) {
        EXPECT_TRUE(names.contains(tensor)) << tensor;
        for (const int count : counts) ASSERT_EQ(count, 1) << tensor;
        for (const int count : held[tensor]) ASSERT_EQ(s.tp % count, 0) << tensor;
      }
    }
  }
}

TEST(TensorParts, OneRankHoldsEveryTensorInOnePart) {
  for (const auto& [name, config] : test::tiny_models()) {
    const auto ranks = test::parameters_by_rank({config, "fp32", 1});
    for (const Parameter& p : ranks[0]) {
      for (const Part& part : p.parts) {
        EXPECT_EQ(part.box.size, part.logical_shape) << part.name;
        EXPECT_EQ(part.replicas, Replicas::none) << part.name;
        EXPECT_TRUE(part.owned) << part.name;
      }
    }
  }
}

const Part& part_named(const std::vector<Parameter>& parameters, const std::string& name,
                       size_t skip = 0) {
  for (const Parameter& p : parameters)
    for (const Part& part : p.parts)
      if (part.name == name && skip-- == 0) return part;
  fail<ConfigError>("no part {}", name);
}

TEST(TensorParts, WhoHoldsWhat) {
  const auto llama = test::parameters_by_rank({test::tiny_model("llama"), "fp32", 4, false, 3});
  const auto at = [&](int rank, const std::string& name) -> const Part& {
    return part_named(llama[static_cast<size_t>(rank)], name);
  };
  // With two key-value heads on four ranks, neighbours share one.
  const std::string k = "model.layers.0.self_attn.k_proj.weight";
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(at(rank, k).box, (Box{{rank / 2 * 6, 0}, {6, 16}}));
    EXPECT_EQ(at(rank, k).replicas, Replicas::tp_kv);
    EXPECT_EQ(at(rank, k).replica_gradient, ReplicaGradient::partial);
    EXPECT_EQ(at(rank, k).owned, rank % 2 == 0);
    EXPECT_EQ(at(rank, k).storage_row, 6);
    EXPECT_EQ(at(rank, "model.layers.1.mlp.down_proj.weight").box, (Box{{0, 3 * rank}, {16, 3}}));
    EXPECT_EQ(at(rank, "model.layers.1.mlp.up_proj.weight").box, (Box{{3 * rank, 0}, {3, 16}}));
    EXPECT_EQ(at(rank, "model.layers.1.mlp.up_proj.weight").storage_row, 3);
    EXPECT_EQ(at(rank, "model.norm.weight").replicas, Replicas::tp);
    EXPECT_EQ(at(rank, "model.norm.weight").replica_gradient, ReplicaGradient::equal);
  }
  // 13 rows padded to a multiple of 3 · 4: six a rank, and the last rank has only padding.
  EXPECT_EQ(at(2, "lm_head.weight").box, (Box{{12, 0}, {1, 16}}));
  EXPECT_EQ(llama[3].front().shape, (Shape{6, 16}));
  EXPECT_TRUE(llama[3].front().parts.empty());

  // The fused tensor of GPT-2 [in, 3 H] is cut in its three runs of columns.
  const auto gpt2 = test::parameters_by_rank({test::tiny_model("gpt2"), "fp32", 2, true});
  for (size_t run = 0; run < 3; ++run) {
    const auto begin = static_cast<int64_t>(16 * run + 8);
    EXPECT_EQ(part_named(gpt2[1], "transformer.h.0.attn.c_attn.weight", run).box,
              (Box{{0, begin}, {16, 8}}));
    EXPECT_EQ(part_named(gpt2[1], "transformer.h.0.attn.c_attn.bias", run).box,
              (Box{{begin}, {8}}));
  }
  EXPECT_EQ(part_named(gpt2[1], "transformer.h.0.attn.c_proj.weight").box, (Box{{8, 0}, {8, 16}}));
  for (const char* name : {"transformer.h.0.attn.c_proj.bias", "transformer.wpe.weight",
                           "transformer.h.1.ln_2.bias"}) {
    EXPECT_EQ(part_named(gpt2[1], name).replica_gradient, ReplicaGradient::partial) << name;
    EXPECT_FALSE(part_named(gpt2[1], name).owned) << name;
  }
  const auto qwen3 = test::parameters_by_rank({test::tiny_model("qwen3"), "fp32", 2, false});
  EXPECT_EQ(part_named(qwen3[0], "model.layers.0.self_attn.k_norm.weight").replica_gradient,
            ReplicaGradient::partial);
}

TEST(TensorParts, SizesThatDoNotDivideAreNamed) {
  const auto build = [](int64_t heads, int64_t kv, int64_t ff, int tp) {
    ModelConfig c = test::tiny_model("llama");
    c.heads = heads, c.kv_heads = kv, c.feed_forward = ff;
    test::parameters_by_rank({c, "fp32", tp});
  };
  EXPECT_THAT([&] { build(6, 6, 12, 4); },
              ThrowsMessage<ConfigError>(HasSubstr("6 attention heads do not divide by 4")));
  EXPECT_THAT([&] { build(4, 4, 10, 4); },
              ThrowsMessage<ConfigError>(HasSubstr("10 feed-forward features do not divide by 4")));
  EXPECT_THAT([&] { build(12, 3, 12, 2); },
              ThrowsMessage<ConfigError>(HasSubstr("3 key-value heads and 2 tensor")));
}

}  // namespace
}  // namespace viaduct
