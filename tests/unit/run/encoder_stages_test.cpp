// Stages of an encoder in front of the decoder's: how many ranks, which of them, what groups they
// form and what each stage has, by formulas of the test; and what is refused.

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "comm/group_kinds.h"
#include "run/resolved_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::operator+;
using testing::AllOf;
using testing::HasSubstr;

struct World {
  int tp = 1, dp = 1, encoder_stages = 0, stages = 1, chunks = 1;

  int place() const { return tp * dp; }  // ranks of a stage
  int ranks() const { return place() * (encoder_stages + stages); }
  Overrides overrides() const {
    const auto set = [](const char* name, int value) {
      return std::string(name) + "=" + std::to_string(value);
    };
    Overrides list;
    if (chunks > 1) list = {set("model.virtual_pipeline_model_parallel_size", chunks)};
    return list + Overrides{"model.num_layers=4",
                            "model.encoder_num_layers=6",
                            "train.micro_batch_size=1",
                            "train.global_batch_size=" + std::to_string(4 * dp),
                            set("dist.ranks", ranks()),
                            set("model.tensor_model_parallel_size", tp),
                            set("model.encoder_pipeline_model_parallel_size", encoder_stages),
                            set("model.pipeline_model_parallel_size", stages)};
  }
};

std::string refusal(const Overrides& overrides) {
  try {
    test::setup_of(test::tiny_run("t5") + overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

Parallelism parallelism_of(const Overrides& overrides) {
  const RunSetup setup = test::setup_of(test::tiny_run("t5") + overrides);
  return resolve_run(setup.config, setup.model).parallelism;
}

/// The ranks at one place of these stages, for each place; ranks of other stages are alone.
std::vector<std::vector<GlobalRank>> at_each_place(const World& world,
                                                   const std::vector<int>& stages) {
  std::vector<std::vector<GlobalRank>> groups;
  for (int rank = 0; rank < world.ranks(); ++rank) {
    const int stage = rank / world.place(), place = rank % world.place();
    if (std::ranges::find(stages, stage) == stages.end()) {
      groups.push_back(std::vector{GlobalRank{rank}});
    } else if (stage == stages.front()) {
      groups.emplace_back();
      for (const int other : stages) groups.back().push_back({other * world.place() + place});
    }
  }
  return groups;
}

std::vector<int> counted_from(int first, int end) {
  std::vector<int> list;
  for (int i = first; i < end; ++i) list.push_back(i);
  return list;
}

TEST(EncoderStages, GroupsAreThoseOfTheFormula) {
  for (const World& world :
       {World{1, 1, 1, 1}, World{2, 1, 1, 2}, World{1, 2, 2, 1}, World{2, 2, 3, 2},
        World{1, 1, 2, 4}, World{2, 2, 0, 2}, World{2, 1, 3, 2, 2}}) {
    SCOPED_TRACE(world.ranks());
    const Mesh mesh = parallelism_of(world.overrides()).mesh;
    const int first = world.encoder_stages, last = world.encoder_stages + world.stages - 1;
    // The first lookup, the decoder's, and the tied head.
    std::vector<int> table{0};
    for (const int stage : {first, last})
      if (stage != table.back()) table.push_back(stage);
    const auto expect = [&](GroupKind kind, const std::vector<int>& stages) {
      EXPECT_EQ(all_groups(mesh, kind), at_each_place(world, stages)) << group_kind_name(kind);
    };
    expect(GroupKind::pp, counted_from(0, last + 1));
    expect(GroupKind::embedding, table);
    expect(GroupKind::encoder_positions, counted_from(0, std::max(1, first)));
    expect(GroupKind::decoder_positions, counted_from(first, last + 1));
  }
}

TEST(EncoderStages, AnUntiedHeadHoldsNoTable) {
  const World world{.encoder_stages = 2, .stages = 2};
  const Mesh mesh = parallelism_of(world.overrides() +
                                   Overrides{"model.share_embeddings_and_output_weights=false"})
                        .mesh;
  EXPECT_EQ(all_groups(mesh, GroupKind::embedding), at_each_place(world, {0, 2}));
}

TEST(EncoderStages, LayersOfEachStage) {
  const auto text = [](const Overrides& overrides) {
    std::string all;
    for (const ChunkLayers& chunk : parallelism_of(overrides).layer_map) {
      const EncoderChunk& encoder = chunk.encoder;
      all += (all.empty() ? "" : " | ") + std::string(encoder.embedding ? "e" : "") +
             std::string(static_cast<size_t>(encoder.blocks), '.') + (encoder.norm ? "n" : "") +
             (chunk.embedding ? "E" : "") + std::string(static_cast<size_t>(chunk.blocks), '-') +
             (chunk.head ? "L" : "");
    }
    return all;
  };
  EXPECT_EQ(text(World{1, 1, 2, 2}.overrides()), "e... | ...n | E-- | --L");
  EXPECT_EQ(text(World{1, 1, 1, 1}.overrides()), "e......n | E----L");
  EXPECT_EQ(text(World{1, 1, 0, 2}.overrides()), "e......nE-- | --L");
  EXPECT_EQ(text(World{1, 1, 0, 2}.overrides() +
                 Overrides{"model.virtual_pipeline_model_parallel_size=2"}),
            "e......nE- | - | - | -L");
  EXPECT_EQ(text(World{1, 1, 2, 2, 2}.overrides()), "e... | ...n | E- | - | - | -L");
}

// Behind the encoder's stages the chunks go round the others.
TEST(EncoderStages, ChunksOfEachRank) {
  const auto ranks = [](const Overrides& more) {
    const Parallelism p = parallelism_of(World{1, 1, 2, 2, 2}.overrides() + more);
    std::string all;
    for (size_t i = 0; i < p.layer_map.size(); ++i) {
      const StageOrder order = p.stage_order();
      const auto number = static_cast<int64_t>(i);
      const int rank = order.rank_of(number), chunk = order.chunk_of(number);
      EXPECT_EQ(order.virtual_stage(rank, chunk), number);
      EXPECT_LT(chunk, order.chunks(rank, 2));
      all += std::to_string(rank) + "." + std::to_string(chunk) + " ";
    }
    return all;
  };
  EXPECT_EQ(ranks({}), "0.0 1.0 2.0 3.0 2.1 3.1 ");
  EXPECT_EQ(ranks({"model.pipeline_schedule=dualpipe_v"}), "0.0 1.0 2.0 3.0 3.1 2.1 ");
}

TEST(EncoderStages, RanksAreCountedOverBothHalves) {
  const World world{.tp = 2, .encoder_stages = 1, .stages = 2};
  EXPECT_THAT(refusal(world.overrides() + Overrides{"dist.ranks=8"}),
              AllOf(HasSubstr("dist.ranks: 8 is not divisible by context_parallel_size · "
                              "(encoder_tensor_model_parallel_size · "),
                    HasSubstr("= 1 · (2 · 1 + 2 · 2) = 6; nearest: 6 or 12")));
  EXPECT_EQ(refusal(world.overrides() + Overrides{"model.encoder_tensor_model_parallel_size=2"}),
            "no error");
}

TEST(EncoderStages, WhatCannotBeIsRefusedWithTheNearestLayout) {
  const Overrides staged = World{.encoder_stages = 2, .stages = 2}.overrides();
  for (const auto& [overrides, text] : std::vector<std::pair<Overrides, std::string>>{
           {{"model.encoder_num_layers=5"}, "2 does not divide encoder_num_layers = 5; nearest: 1"},
           {{"model.virtual_pipeline_model_parallel_size=2", "model.batch_p2p_comm=true"},
            "2 in front of stages of 2 chunks needs comm_overlap.overlap_p2p_comm = true"},
           {{"model.virtual_pipeline_model_parallel_size=2", "comm_overlap.overlap_p2p_comm=false"},
            "or virtual_pipeline_model_parallel_size = null"},
           {{"dist.use_tp_pp_dp_mapping=true"}, "dist.use_tp_pp_dp_mapping"}}) {
    EXPECT_THAT(refusal(staged + overrides), HasSubstr(text));
  }
  // Tensor ranks of its own.
  const auto own = [&](int etp, int tp, const Overrides& more) {
    return refusal(staged +
                   Overrides{"model.encoder_tensor_model_parallel_size=" + std::to_string(etp),
                             "model.tensor_model_parallel_size=" + std::to_string(tp),
                             "dist.ranks=" + std::to_string(2 * (etp + tp))} +
                   more);
  };
  EXPECT_EQ(own(2, 1, {}), "no error");
  EXPECT_EQ(own(2, 1, {"optimizer.optimizer=muon"}), "no error");
  EXPECT_THAT(own(3, 2, {"model.num_attention_heads=6", "model.ffn_hidden_size=96"}),
              HasSubstr("encoder_tensor_model_parallel_size: 3: neither it nor "
                        "tensor_model_parallel_size = 2 divides the other; nearest: 2"));
  EXPECT_THAT(own(8, 1, {}), HasSubstr("model.encoder_tensor_model_parallel_size: 8 does not "
                                       "divide num_attention_heads = 4; nearest: 4"));
  EXPECT_THAT(own(4, 1, {"model.ffn_hidden_size=66"}),
              HasSubstr("encoder_tensor_model_parallel_size: 4 does not divide ffn_hidden_size"));
  EXPECT_THAT(own(1, 2, {"model.variable_seq_lengths=true"}),
              HasSubstr("model.variable_seq_lengths: true is not implemented with "
                        "model.encoder_tensor_model_parallel_size = 1"));
  EXPECT_THAT(own(1, 2, {"optimizer.optimizer=adafactor"}),
              HasSubstr("optimizer.optimizer: adafactor is not implemented with "
                        "model.encoder_tensor_model_parallel_size other than tp (the two cuts of "
                        "the token table would drift apart); expected adam"));
  EXPECT_THAT(
      own(4, 2,
          {"model.sequence_parallel=true", "model.seq_length=32", "model.encoder_seq_length=34"}),
      HasSubstr("are not divisible by encoder_tensor_model_parallel_size = 4; nearest: 32 "
                "or 36 tokens"));
  const Overrides scales{"optimizer.use_precision_aware_optimizer=true",
                         "optimizer.exp_avg_dtype=fp8"};
  EXPECT_EQ(own(2, 1, scales), "no error");
  EXPECT_THAT(own(2, 1, scales + Overrides{"model.make_vocab_size_divisible_by=3"}),
              HasSubstr("model.make_vocab_size_divisible_by: 3 rows of "));
  EXPECT_THAT(refusal(staged + Overrides{"model.encoder_tensor_model_parallel_size=2",
                                         "dist.ranks=24", "train.global_batch_size=16",
                                         "ddp.num_distributed_optimizer_instances=2",
                                         "ddp.data_parallel_sharding_strategy=optim_grads_params",
                                         "ddp.outer_dp_sharding_strategy=optim"}),
              HasSubstr("ddp.outer_dp_sharding_strategy: optim is not implemented with"));
  EXPECT_THAT(refusal({"model.encoder_tensor_model_parallel_size=1"}),
              HasSubstr("needs encoder_pipeline_model_parallel_size above 0"));
  EXPECT_THAT(refusal({"model.family=llama", "model.encoder_pipeline_model_parallel_size=1",
                       "dist.ranks=2"}),
              HasSubstr("needs a model with an encoder"));
}

}  // namespace
}  // namespace viaduct
