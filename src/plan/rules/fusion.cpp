// Fused operations.

#include <fmt/format.h>

#include "base/units.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

std::string bytes(double value) {
  return format_bytes(static_cast<int64_t>(value));
}

Finding fusion_off(const Figures& f, const Thresholds&) {
  const FusionConfig& c = f.config.fusion;
  std::vector<std::string> off;
  if (!c.bias_activation_fusion.value_or(true) &&
      fuses_with_bias(f.config.model.activation_func.value_or(FeedForwardActivation::silu)))
    off.emplace_back("model.bias_activation_fusion=true");
  if (!c.bias_dropout_fusion) off.emplace_back("model.bias_dropout_fusion=true");
  if (!c.gradient_accumulation_fusion) off.emplace_back("model.gradient_accumulation_fusion=true");
  if (!f.config.model.apply_rope_fusion && f.model.positions == PositionKind::rotary)
    off.emplace_back("model.apply_rope_fusion=true");
  if (off.empty()) return not_applicable("all fusions that are legal are on");
  // Before the list is moved from: the order of arguments is not given.
  const auto count = static_cast<double>(off.size());
  std::string text = fmt::format("{} off: more passes over activations, and {} launches a step",
                                 counted(std::ssize(off), "fusion is", "fusions are"), f.launches);
  return if_gain(Level::warn, std::move(text), {{"off", count, ""}}, {change(std::move(off))});
}

Finding ce_unfused(const Figures& f, const Thresholds&) {
  if (f.config.fusion.cross_entropy_loss_fusion) return not_applicable("the loss is fused");
  const double logits = f.tokens() * static_cast<double>(f.model.vocabulary) / f.tp;
  return fires(
      Level::warn,
      fmt::format("the composed loss needs about {} of logits and probabilities, the fused one {}",
                  bytes(10 * logits), bytes(2 * logits)),
      {{"composed", 10 * logits, "bytes"}, {"fused", 2 * logits, "bytes"}},
      {change({"model.cross_entropy_loss_fusion=true"})});
}

Finding attention_unfused(const Figures& f, const Thresholds&) {
  if (f.model.flash_attention) return not_applicable("attention holds no scores");
  if (f.length < 1024) return not_applicable(fmt::format("rows have {} tokens", f.length));
  const double scores = 5 * static_cast<double>(f.model.heads) *
                        static_cast<double>(f.micro_batch) * static_cast<double>(f.length) *
                        static_cast<double>(f.length) / f.tp / f.cp;
  return fires(Level::warn,
               fmt::format("attention keeps its scores: {} a layer and micro-batch", bytes(scores)),
               {{"scores", scores, "bytes"}}, {change({"model.attention_backend=flash"})});
}

}  // namespace

RuleGroup fusion_rules() {
  return {
      "Fusions",
      {{"fusion-off", kPlan, "warn: a fusion that is legal is off", "Turn it on.", "",
        "guides, fusion", fusion_off},
       {"ce-unfused", kPlan, "warn: the loss is not fused",
        "Fuse it: 2T·vocabulary/t bytes instead of about 10.", "", "guides, fusion", ce_unfused},
       {"attention-unfused", kPlan, "warn: attention keeps scores, s ≥ 1024",
        "Use flash attention; masked_softmax_fusion acts on the other path only.", "",
        "guides, fusion; benchmark page", attention_unfused}}};
}

}  // namespace viaduct::rules
