// The fused exchange of experts, flat and by domain, compared with Hugging Face's Mixtral tensor by
// tensor, in layouts of every kind; and quantized rows, which are rounded the same on any number of
// ranks.

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors_reader.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::probe_layout;
using test::relative_error;
using test::test_data;

constexpr double kLimit = 2e-5;
const std::string kTwo = "train.micro_batch_size=1";  // two micro-batches where dp is 1
const std::string kFlex = "model.moe_token_dispatcher_type=flex";

const std::filesystem::path& model() {
  static const std::filesystem::path path = test_data("golden/mixtral/model");
  return path;
}

/// ep · etp ranks, in domains of `domain` (0: flat).
LayoutCase flex(int ep, int etp, int domain, LayoutCase c) {
  const auto set = [&](const char* field, int value) {
    c.overrides.push_back(field + ("=" + std::to_string(value)));
  };
  c.overrides.push_back(kFlex);
  set("model.expert_model_parallel_size", ep);
  set("model.expert_tensor_parallel_size", etp);
  if (domain > 0) {
    set("dist.nvlink_domain_size", domain);
    c.overrides.push_back("model.moe_flex_dispatcher_backend=hierarchical");
  }
  c.name += "_ep" + std::to_string(ep) + "_etp" + std::to_string(etp) +
            (domain > 0 ? "_domains_of_" + std::to_string(domain) : "_flat");
  return c;
}

const std::string kChunks = "model.virtual_pipeline_model_parallel_size=2";
const std::vector<std::string> kWholeLayers{"model.recompute_granularity=full",
                                            "model.recompute_method=uniform",
                                            "model.recompute_num_layers=1"};
const std::vector<std::string> kMlp{"model.recompute_granularity=selective",
                                    "model.recompute_modules=[mlp,layernorm]"};

class FlexGradients : public testing::TestWithParam<LayoutCase> {};

TEST_P(FlexGradients, MatchTheReference) {
  const auto batch = test_data("golden/mixtral/golden.safetensors");
  const auto got = probe_layout(model(), batch, false, GetParam().overrides);
  EXPECT_EQ(test::expect_gradients_of(got, SafetensorsFile(batch), kLimit), 79);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, FlexGradients,
    testing::Values(flex(2, 1, 0, layout(1, 1, 1, 2)), flex(2, 2, 0, layout(2, 1, 1, 2)),
                    flex(4, 1, 0, layout(1, 4, 1, 1)),
                    flex(2, 1, 0, layout(1, 2, 2, 1, {kTwo, kChunks}, "interleaved")),
                    flex(2, 1, 1, layout(1, 1, 1, 2)), flex(4, 1, 1, layout(1, 4, 1, 1)),
                    flex(4, 1, 2, layout(1, 4, 1, 1)), flex(4, 1, 2, layout(2, 1, 1, 2)),
                    flex(4, 1, 2, layout(2, 2, 1, 1)), flex(2, 2, 2, layout(4, 1, 1, 1)),
                    flex(2, 2, 2, layout(2, 1, 1, 2)), flex(2, 1, 1, layout(1, 1, 2, 2)),
                    flex(2, 1, 1, layout(1, 2, 2, 1, {kTwo, kChunks}, "interleaved")),
                    flex(2, 1, 1,
                         layout(1, 2, 2, 1, {kTwo, "model.pipeline_schedule=zero_bubble"}, "zb")),
                    flex(4, 1, 2, layout(2, 2, 2, 1, {kTwo})),
                    flex(4, 1, 2, layout(1, 4, 1, 1, kWholeLayers, "recompute")),
                    flex(4, 1, 2, layout(1, 4, 1, 1, kMlp, "recompute_mlp"))),
    [](const auto& info) { return info.param.name; });

/// Choices by groups, shared experts beside the exchange, latent attention, norms over all heads.
TEST(FlexFamilies, ByDomainMatchTheirReferences) {
  for (const std::string family : {"deepseek_v2_lite", "deepseek_v3", "olmoe"}) {
    LayoutCase c = flex(4, 1, 2, layout(2, 2, 1, 1));
    if (family != "olmoe") c.overrides.push_back("model.moe_shared_expert_overlap=true");
    const auto batch = test_data("golden/" + family + "/golden.safetensors");
    const auto got =
        probe_layout(test_data("golden/" + family + "/model"), batch, false, c.overrides);
    EXPECT_GT(test::expect_gradients_of(got, SafetensorsFile(batch), kLimit), 30) << family;
  }
}

/// Dropped choices have no rows in either exchange. The dropped ones depend on the layout, so the
/// reference is the plain exchange of the same layout.
TEST(FlexCapacity, ByDomainDropsTheSame) {
  const auto batch = test_data("golden/mixtral/golden.safetensors");
  for (const int domain : {1, 2}) {
    LayoutCase c = flex(4, 1, domain, layout(2, 2, 1, 1));
    c.overrides.push_back("model.moe_expert_capacity_factor=0.75");
    const auto by_domain = probe_layout(model(), batch, false, c.overrides);
    c.overrides.push_back("model.moe_token_dispatcher_type=alltoall");
    c.overrides.push_back("model.moe_flex_dispatcher_backend=null");
    const auto plain = probe_layout(model(), batch, false, c.overrides);
    c.overrides.push_back("model.moe_expert_capacity_factor=null");
    const auto all = probe_layout(model(), batch, false, c.overrides);
    double largest = 0;
    for (const auto& [name, tensor] : plain) {
      EXPECT_LE(relative_error(by_domain.at(name), tensor), kLimit) << name;
      largest = std::max(largest, relative_error(all.at(name), tensor));
    }
    EXPECT_GT(largest, 1e-2) << "nothing was dropped";
  }
}

std::map<std::string, Tensor> quantized(LayoutCase c) {
  c.overrides.push_back("model.moe_dispatch_fwd_dtype=mxfp8");
  c.overrides.push_back("model.moe_combine_bwd_dtype=mxfp8");
  return probe_layout(model(), test_data("golden/mixtral/golden.safetensors"), false, c.overrides);
}

/// All gradients together, ‖a − b‖ / ‖b‖.
double distance(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  double difference = 0, size = 0;
  for (const auto& [name, tensor] : b) {
    if (!name.starts_with("grad.")) continue;
    const float *x = a.at(name).data<float>(), *y = tensor.data<float>();
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      difference += double{x[i] - y[i]} * double{x[i] - y[i]};
      size += double{y[i]} * double{y[i]};
    }
  }
  return std::sqrt(difference / size);
}

/// The distance from unrounded rows is that of FP8 from BF16 (docs/low-precision.md).
void expect_near(const std::map<std::string, Tensor>& got,
                 const std::map<std::string, Tensor>& plain) {
  EXPECT_LE(relative_error(got.at("logits"), plain.at("logits")), 0.05);
  EXPECT_LE(distance(got, plain), 0.1);
  EXPECT_GT(distance(got, plain), 1e-2) << "nothing was rounded";
  for (const auto& [name, tensor] : plain) EXPECT_LE(relative_error(got.at(name), tensor), 0.25);
}

/// Data ranks compute every row as one rank does, and rows have their own scales.
TEST(FlexQuantized, RanksRoundAsOneRankDoes) {
  const auto alone = quantized(flex(1, 1, 0, layout(1, 1, 1, 1)));
  const auto ranks = quantized(flex(2, 1, 0, layout(1, 1, 1, 2)));
  for (const auto& [name, tensor] : alone)
    EXPECT_LE(relative_error(ranks.at(name), tensor), kLimit) << name;
  const auto batch = test_data("golden/mixtral/golden.safetensors");
  expect_near(alone, probe_layout(model(), batch, false, {kFlex}));
}

/// Each of the two formats is of its own direction: one rounds what experts read, the other only
/// the gradients of their results.
TEST(FlexQuantized, EachFormatRoundsItsOwnDirection) {
  const auto batch = test_data("golden/mixtral/golden.safetensors");
  const auto with = [&](const std::string& format) {
    LayoutCase c = flex(2, 1, 0, layout(1, 1, 1, 2));
    if (!format.empty()) c.overrides.push_back(format);
    return probe_layout(model(), batch, false, c.overrides);
  };
  const auto plain = with(""), forward = with("model.moe_dispatch_fwd_dtype=mxfp8"),
             backward = with("model.moe_combine_bwd_dtype=mxfp8");
  EXPECT_EQ(relative_error(backward.at("logits"), plain.at("logits")), 0);
  EXPECT_GT(distance(backward, plain), 1e-2);
  EXPECT_GT(relative_error(forward.at("logits"), plain.at("logits")), 1e-3);
}

/// Gradients are rounded a second time inside domains.
TEST(FlexQuantized, ByDomainIsAsNear) {
  const auto batch = test_data("golden/mixtral/golden.safetensors");
  expect_near(quantized(flex(4, 1, 2, layout(1, 4, 1, 1))),
              probe_layout(model(), batch, false, {kFlex}));
}

}  // namespace
}  // namespace viaduct
