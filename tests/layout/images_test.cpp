// A model with images in layouts: data-parallel ranks, of which one has no image, with every way to
// shard what they hold, tensor ranks with and without sequence parallel, stages of which the first
// has the tower, and context ranks that share the images, of which Gemma's see ahead: the
// reference's logits, loss and gradients.

#include <gtest/gtest.h>

#include "support/layout_run.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::ModelLayout;

std::vector<ModelLayout> cases() {
  const std::string strategy = "ddp.data_parallel_sharding_strategy=",
                    rows = "train.micro_batch_size=1",
                    first = "model.num_layers_in_first_pipeline_stage=1",
                    exchange = "model.cp_comm_type=a2a";
  const std::vector<std::string> llava{"llava_clip", "llava_siglip"},
      full{"model.recompute_granularity=full", "model.recompute_method=uniform",
           "model.recompute_num_layers=1"},
      offload{"model.fine_grained_activation_offloading=true",
              "model.offload_modules=[attn_norm,qkv_linear,core_attn,attn_proj,mlp_norm,mlp]",
              "model.min_offloaded_tensor_size=0"};
  std::vector<LayoutCase> layouts{
      layout(1, 1, 1, 3),
      layout(1, 1, 1, 3, {strategy + "optim_grads"}, "gradients"),
      layout(1, 1, 1, 3, {strategy + "optim_grads_params"}, "full"),
      layout(2, 1, 1, 1),
      layout(2, 1, 1, 1, {"model.sequence_parallel=false"}, "whole_stream"),
      layout(2, 1, 1, 1, {rows}, "rows"),
      layout(2, 1, 1, 3, {strategy + "optim_grads_params"}, "full"),
      layout(1, 1, 2, 1, {first}),
      layout(2, 1, 2, 1, {first, rows}, "rows"),
      layout(1, 1, 2, 3, {first, strategy + "optim_grads_params"}, "full"),
      layout(2, 1, 1, 1, full, "recompute"),
      layout(2, 1, 1, 1, offload, "offload")};
  for (LayoutCase one : {layout(1, 2, 1, 1), layout(1, 2, 1, 1, {rows}, "rows"),
                         layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a"),
                         layout(2, 2, 1, 1, {rows}, "rows"), layout(2, 2, 2, 1, {rows}, "rows")}) {
    one.only = llava;
    layouts.push_back(std::move(one));
  }
  // Gemma's tokens of images see those ahead: a rank has all tokens of some heads.
  std::vector<std::string> recompute = full;
  recompute.push_back(exchange);
  for (LayoutCase one :
       {layout(1, 2, 1, 1, {exchange}, "ahead"), layout(1, 2, 1, 1, {exchange, rows}, "ahead_rows"),
        layout(1, 2, 1, 1, recompute, "ahead_recompute"),
        layout(1, 2, 2, 1, {exchange, rows, first}, "ahead")}) {
    one.only = {"gemma3_images"};
    layouts.push_back(std::move(one));
  }
  std::vector<ModelLayout> cases;
  for (const char* model : {"gemma3_images", "llava_clip", "llava_siglip"}) {
    for (const LayoutCase& one : layouts)
      if (one.suits(model)) cases.push_back({model, one});
  }
  return cases;
}

class ImagesLayout : public testing::TestWithParam<ModelLayout> {};

TEST_P(ImagesLayout, GivesTheReferencesGradients) {
  EXPECT_GT(test::expect_reference(GetParam(), 2e-5), 40);
}

INSTANTIATE_TEST_SUITE_P(Cases, ImagesLayout, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace viaduct
