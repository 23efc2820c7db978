// What a user's values take from the search of plans.

#include "plan/search_limits.h"

#include <gtest/gtest.h>

#include <set>

#include "run/run_config.h"

namespace viaduct {
namespace {

SpaceLimits space_of(const std::vector<std::string>& overrides) {
  RunSetup whole;
  whole.config.model.seq_length = 128;
  whole.model.moe.experts = 4;
  PlanRequest request;
  request.overrides = overrides;
  return search_limits(request, whole).space;
}

bool is_fixed(const SpaceLimits& space, LayoutPart part) {
  switch (part) {
    case LayoutPart::tp:
      return space.tp.has_value();
    case LayoutPart::cp:
      return space.cp.has_value();
    case LayoutPart::pp:
      return space.pp.has_value();
    case LayoutPart::vpp:
      return space.vpp.has_value();
    case LayoutPart::encoder_pp:
      return space.encoder_stages.has_value();
    case LayoutPart::encoder_tp:
      return space.encoder_tp.has_value();
    case LayoutPart::ep:
      return space.ep.has_value();
    case LayoutPart::etp:
      return space.etp.has_value();
    case LayoutPart::micro_batch:
      return space.micro_batch.has_value();
    case LayoutPart::recompute:
      return space.given_recompute;
    case LayoutPart::sharding:
      return space.given_sharding;
    case LayoutPart::sequence_parallel:
      return space.given_sequence_parallel;
  }
  return false;
}

std::set<LayoutPart> fixed_by(const std::vector<std::string>& overrides) {
  const SpaceLimits space = space_of(overrides);
  std::set<LayoutPart> fixed;
  for (int i = 0; i <= static_cast<int>(LayoutPart::sequence_parallel); ++i)
    if (is_fixed(space, static_cast<LayoutPart>(i))) fixed.insert(static_cast<LayoutPart>(i));
  return fixed;
}

TEST(SearchLimitsTest, AFieldThatDecidesAPartTakesItAlone) {
  EXPECT_EQ(fixed_by({}), std::set<LayoutPart>{});
  RunConfig config;
  const Schema schema = run_schema(config);
  std::set<LayoutPart> decided;
  for (const FieldGroup& group : schema.groups()) {
    for (const Field& field : group.fields()) {
      if (!field.layout_part) continue;
      const std::string value = !field.allowed.empty()          ? field.allowed.back()
                                : field.type.starts_with("int") ? "2"
                                                                : "true";
      EXPECT_EQ(fixed_by({field.full_name() + "=" + value}),
                std::set<LayoutPart>{*field.layout_part})
          << field.full_name();
      decided.insert(*field.layout_part);
    }
  }
  EXPECT_EQ(decided.size(), static_cast<size_t>(LayoutPart::sequence_parallel) + 1);
}

TEST(SearchLimitsTest, PresetsOfShardingTakeIt) {
  for (const char* preset : {"dist.fsdp=megatron", "dist.use_torch_fsdp2=true",
                             "model.tensor_parallel_num_weight_shards=4"})
    EXPECT_EQ(fixed_by({preset}), std::set<LayoutPart>{LayoutPart::sharding}) << preset;
}

// Otherwise the search would overwrite what the user asked for.
TEST(SearchLimitsTest, WhatTheSearchWritesDecidesAPart) {
  RunConfig config;
  const Schema schema = run_schema(config);
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::full}) {
      Layout layout;
      layout.recompute = recompute, layout.sharding = sharding, layout.ep = 2;
      layout.has_encoder = true, layout.encoder_stages = 2;
      for (const std::string& written : overrides_of(layout)) {
        const Field* field = schema.find(written.substr(0, written.find('=')));
        ASSERT_NE(field, nullptr) << written;
        EXPECT_TRUE(field->layout_part) << written;
      }
    }
  }
}

}  // namespace
}  // namespace viaduct
