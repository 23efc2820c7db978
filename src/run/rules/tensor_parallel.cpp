// What tensor ranks cut.

#include "config/nearest_valid.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// Heads, key-value heads and features must divide evenly over the `tp` ranks that `field` says.
void validate_cuts(const ModelFields& model, std::string_view field, int tp, Problems& problems) {
  const auto& heads = model.num_attention_heads;
  const auto& groups = model.num_query_groups;
  const auto& features = model.ffn_hidden_size;
  const auto add = [&](const char* what, int64_t number) {
    problems.add("model.{}: {} does not divide {} = {}; nearest: {}", field, tp, what, number,
                 nearest_divisor(tp, number));
  };
  if (!heads.is_auto() && heads.value() % tp != 0) add("num_attention_heads", heads.value());
  if (!features.is_auto() && features.value() % tp != 0) add("ffn_hidden_size", features.value());
  const auto cut_groups = [&](const char* what, int64_t k) {
    if (k % tp == 0 || tp % k == 0) return;
    problems.add("model.{}: {} and {} = {}: one must divide the other; nearest {}: {}", what, k,
                 field, tp, field,
                 nearest_valid(tp, [&](int64_t n) { return k % n == 0 || n % k == 0; }));
  };
  if (groups.is_auto()) return;
  cut_groups("num_query_groups", groups.value());
  const auto full = model.full_attention_num_query_groups.value_or(std::nullopt);
  if (!full) return;
  cut_groups("full_attention_num_query_groups", *full);
  // Ranks that share a key-value head sum its gradient in a group, which all layers have.
  const int64_t least = std::min(*full, groups.value());
  if (tp > least && *full != groups.value()) {
    problems.add(
        "model.full_attention_num_query_groups: {} beside num_query_groups = {} with {} = {}: "
        "expected at most {} tensor ranks, so that each has whole key-value heads in every layer",
        *full, groups.value(), field, tp, least);
  }
}

void validate_sequence(const RunConfig& config, Problems& problems) {
  const auto& wanted = config.parallel.sequence_parallel;
  if (wanted.is_auto() || !wanted.value()) return;
  const int64_t tp = config.parallel.tensor_model_parallel_size;
  const int64_t cp = config.parallel.context_parallel_size;
  if (tp == 1) {
    problems.add(
        "model.sequence_parallel: true needs tensor_model_parallel_size of at least 2, found 1; "
        "`auto` follows it");
  }
  const auto& length = config.model.seq_length;
  if (length.is_auto() || length.value() % cp != 0) return;
  const int64_t tokens = length.value() / cp * config.train.micro_batch_rows();
  if (tokens % tp != 0) {
    problems.add(
        "model.sequence_parallel: the {} tokens of a rank's micro-batch (seq_length / "
        "context_parallel_size · micro_batch_size = {} / {} · {}) are not divisible by "
        "tensor_model_parallel_size = {}; nearest: {} tokens",
        tokens, length.value(), cp, config.train.micro_batch_rows(), tp,
        nearest_multiple(tokens, tp));
  }
}

void refuse_tensor_parallel(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const ParallelConfig& sizes = config.parallel;
  const int tp = sizes.tensor_model_parallel_size, etp = sizes.encoder_tensor();
  validate_cuts(config.model, "tensor_model_parallel_size", tp, problems);
  // A vision tower has sizes of its own.
  if (etp != tp && encoder_layers(config) > 0)
    validate_cuts(config.model, "encoder_tensor_model_parallel_size", etp, problems);
  validate_sequence(config, problems);
}

}  // namespace

Topic tensor_parallel_topic() {
  std::vector<NoEffectRule> idle{
      {{"model.make_vocab_size_divisible_by"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(table_ranks(c) == 1, "model.tensor_model_parallel_size = 1");
       }},
  };
  return {refuse_tensor_parallel, std::move(idle)};
}

}  // namespace viaduct
