// T5 whose encoder nothing trains in, for only layers of the decoder have adapters: gradients of a
// step, losses of ten and the weights behind them are those of a run whose gradients go back
// through the encoder, where one of its matrices has an adapter that adds next to nothing. In
// layouts gradients and losses are those of that run on one rank.

#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::operator+;

constexpr double kLimit = 2e-5;

/// Of the encoder's adapter.
const std::string kModule = "encoder.block.0.layer.0.SelfAttention.q",
                  kEncoders = "base_model.model." + kModule + ".lora_B.weight";

using Settings = std::vector<std::string>;
using Values = std::map<std::string, Tensor>;

/// What has adapters, and how.
struct Adapted {
  std::string scheme, modules;
  Settings more = {};

  Settings without(const std::string& further = "") const {
    return Settings{"peft.scheme=" + scheme, "peft.dim=3",
                    "peft.target_modules=[" + modules + further + "]"} +
           more;
  }
  /// The same beside the encoder's first queries.
  Settings with_encoder() const {
    return without("," + kModule) + Settings{"peft.alpha_pattern={encoder.*: 1.0e-30}"};
  }
};

const Adapted kLora{"lora", "decoder.*"}, kDora{"dora", "decoder.*"},
    /// Nothing reads the encoder's output for a gradient.
    kSelf{"lora", "decoder.*.SelfAttention.*"},
    kDropped{"lora",
             "decoder.*",
             {"peft.dropout=0.3", "model.hidden_dropout=0.1", "model.attention_dropout=0.1"}},
    kDoraDropped{"dora", "decoder.*", {"peft.dropout=0.3"}};

/// Logits, loss and gradients of a step, and losses, norms and weights of ten.
Values values_of(const Settings& settings, const LayoutCase& layout) {
  const auto folder = test::test_data("golden/t5");
  const auto probe = [&](const char* batch, bool train, const Settings& more) {
    return test::probe_layout(folder / "model", folder / batch, train,
                              settings + more + layout.overrides);
  };
  Values all = probe("golden.safetensors", false, {});
  for (const auto& [name, tensor] : probe("train.safetensors", true, test::reference_optimizer()))
    all["trained." + name] = tensor;
  return all;
}

TEST(FrozenEncoder, EqualsARunThatGoesBackThroughIt) {
  for (const Adapted& adapted : {kLora, kDora, kSelf, kDropped, kDoraDropped}) {
    SCOPED_TRACE(adapted.scheme + " of " + adapted.modules);
    const LayoutCase one = layout(1, 1, 1, 1);
    const Values got = values_of(adapted.without(), one);
    EXPECT_FALSE(got.contains("grad." + kEncoders));
    const Values expected = values_of(adapted.with_encoder(), one);
    EXPECT_TRUE(expected.contains("grad." + kEncoders));
    // Magnitudes of the encoder's adapter train, and are rounded at the start.
    const bool dora = adapted.scheme == "dora";
    for (const auto& [name, tensor] : got) {
      if (dora && (name.starts_with("trained.") || name == "grad_norm")) continue;
      EXPECT_LE(test::relative_error(tensor, expected.at(name)), dora ? kLimit : 0) << name;
    }
  }
}

/// `epp` stages of the encoder, of `etp` tensor ranks, in front of `pp` of the decoder.
LayoutCase stages(int epp, int etp, int tp, int pp, Settings more, const std::string& suffix) {
  const Settings own{"dist.ranks=" + std::to_string(etp * epp + tp * pp),
                     "train.micro_batch_size=1",
                     "model.encoder_pipeline_model_parallel_size=" + std::to_string(epp)};
  if (epp > 0 && etp != tp)
    more.push_back("model.encoder_tensor_model_parallel_size=" + std::to_string(etp));
  return layout(tp, 1, pp, 1, own + more,
                "encoder" + std::to_string(epp) + "_etp" + std::to_string(etp) + suffix);
}

class FrozenEncoderLayout : public testing::TestWithParam<LayoutCase> {};

void expect_one_rank(const Adapted& adapted, const LayoutCase& layout, const Values& expected) {
  SCOPED_TRACE(adapted.scheme + " of " + adapted.modules);
  int gradients = 0;
  for (const auto& [name, tensor] : values_of(adapted.without(), layout)) {
    // Adam divides by the size of gradients, also of those that are rounding alone.
    if (name.starts_with("trained.final.")) continue;
    EXPECT_LE(test::relative_error(tensor, expected.at(name)),
              name.starts_with("trained.") ? 10 * kLimit : kLimit)
        << name;
    gradients += name.starts_with("grad.") ? 1 : 0;
  }
  EXPECT_GT(gradients, 10);
}

TEST_P(FrozenEncoderLayout, EqualsOneRank) {
  static const LayoutCase rows = layout(1, 1, 1, 1, {"train.micro_batch_size=1"});
  static const Values lora = values_of(kLora.with_encoder(), rows),
                      self = values_of(kSelf.with_encoder(), rows);
  expect_one_rank(kLora, GetParam(), lora);
  expect_one_rank(kSelf, GetParam(), self);
}

std::vector<LayoutCase> layouts() {
  const std::string cut = "model.sequence_parallel=true", whole = "model.sequence_parallel=false",
                    chunks = "model.virtual_pipeline_model_parallel_size=2";
  const Settings again{"model.recompute_granularity=full", "model.recompute_method=uniform",
                       "model.recompute_num_layers=1"};
  return {
      stages(0, 1, 1, 2, {}, ""),
      stages(0, 1, 1, 2, again + Settings{chunks}, "_chunks_recompute"),
      stages(1, 1, 1, 1, {}, ""),
      stages(2, 1, 1, 2, again + Settings{chunks}, "_chunks_recompute"),
      stages(1, 2, 1, 1, {}, ""),
      stages(1, 1, 2, 1, {whole}, ""),
      stages(2, 2, 2, 1, {cut, "model.pipeline_schedule=zero_bubble"}, "_sequence"),
      layout(1, 2, 1, 1, {"train.micro_batch_size=2", "model.cp_comm_type=all_gather"}),
      layout(1, 1, 1, 2,
             {"train.micro_batch_size=1", "ddp.data_parallel_sharding_strategy=optim_grads_params"},
             "full")};
}

INSTANTIATE_TEST_SUITE_P(Cases, FrozenEncoderLayout, testing::ValuesIn(layouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
