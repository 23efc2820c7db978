// The sizes of the model, those of a step, and its further tokens.

#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.h"
#include "config/nearest_valid.h"
#include "model/family.h"
#include "model/model_fields.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// model.position_embedding_type, or what the family makes of auto.
PositionKind positions_of(const ModelFields& model) {
  if (!model.position_embedding_type.is_auto()) return model.position_embedding_type.value();
  ModelFields of_family;
  of_family.family = model.family;
  of_family.resolve();
  return of_family.position_embedding_type.value();
}

void validate_model(const ModelFields& model, Problems& problems) {
  const auto& heads = model.num_attention_heads;
  const auto& groups = model.num_query_groups;
  if (!heads.is_auto() && !groups.is_auto() && heads.value() % groups.value() != 0) {
    problems.add("model.num_query_groups: {} does not divide num_attention_heads = {}; nearest: {}",
                 groups.value(), heads.value(), nearest_divisor(groups.value(), heads.value()));
  }
  if (!heads.is_auto() && !model.hidden_size.is_auto() && model.kv_channels.is_auto() &&
      model.hidden_size.value() % heads.value() != 0) {
    problems.add(
        "model.num_attention_heads: {} does not divide hidden_size = {} (and kv_channels, the "
        "size of a head, is not given); nearest: {}",
        heads.value(), model.hidden_size.value(),
        nearest_divisor(heads.value(), model.hidden_size.value()));
  }
  if (!model.num_layers.is_auto() && !model.window_layers.is_auto() &&
      !model.window_layers.value().empty() &&
      static_cast<int64_t>(model.window_layers.value().size()) != model.num_layers.value()) {
    problems.add("model.window_layers: {} for {}",
                 counted(std::ssize(model.window_layers.value()), "entry", "entries"),
                 counted(model.num_layers.value(), "layer"));
  }
  const PositionKind positions = positions_of(model);
  if (model.rotary_interleaved.value_or(false)) {
    if (positions != PositionKind::rotary) {
      problems.add("model.rotary_interleaved: true, but positions are {}, which have no pairs",
                   choice_name(positions));
    } else if (!model.apply_rope_fusion) {
      problems.add(
          "model.rotary_interleaved: true, but apply_rope_fusion is false, which supports only "
          "pairs of halves");
    }
  }
  if (positions == PositionKind::learned && !model.seq_length.is_auto() &&
      !model.max_position_embeddings.is_auto() &&
      model.seq_length.value() > model.max_position_embeddings.value()) {
    problems.add("model.seq_length: {} is longer than the model's {} learned positions",
                 model.seq_length.value(), model.max_position_embeddings.value());
  }
}

double number_of(const Auto<int64_t>& value) {
  return static_cast<double>(value.value_or(1));
}

/// Sizes so large that they must be a mistake: building even the plan would take all memory or
/// would not end. Each field has its own bound; products are bounded here.
void validate_sizes(const RunConfig& config, Problems& problems) {
  // A micro-batch is built on the host; parameters and activations are counted in int64 bytes.
  constexpr double kMostTokens = 1 << 26, kMostElements = 1e16;
  constexpr double kMostLayerPasses = 1 << 21;  // of a step, which the dry run records one by one
  const ModelFields& m = config.model;
  const double rows = static_cast<double>(config.train.micro_batch_rows());
  const double tokens = rows * number_of(m.seq_length);
  if (tokens > kMostTokens) {
    problems.add(
        "train.micro_batch_size: {} of model.seq_length = {}: {:.4g} tokens at a time, at "
        "most {:.0f} are possible",
        counted(config.train.micro_batch_rows(), "row"), number_of(m.seq_length), tokens,
        kMostTokens);
  }
  const double hidden = number_of(m.hidden_size), ffn = number_of(m.ffn_hidden_size),
               heads = number_of(m.num_attention_heads) * number_of(m.kv_channels);
  const double parameters = number_of(m.num_layers) * hidden * (4 * heads + 3 * ffn) +
                            2 * number_of(m.vocab_size) * hidden;
  if (parameters > kMostElements) {
    problems.add(
        "model.num_layers, hidden_size, ffn_hidden_size, num_attention_heads · kv_channels "
        "and vocab_size: about {:.2g} parameters, at most {:.0e} can be counted",
        parameters, kMostElements);
  }
  const double passes = number_of(m.num_layers) *
                        static_cast<double>(config.train.global_batch_size) / rows /
                        static_cast<double>(config.dist.ranks);
  if (passes > kMostLayerPasses) {
    problems.add(
        "train.global_batch_size: {} in micro-batches of {}, through model.num_layers = {} on "
        "{}: {:.3g} passes through layers in a step on each rank, at most {:.0f} are planned",
        counted(config.train.global_batch_size, "row"), rows, number_of(m.num_layers),
        counted(config.dist.ranks, "rank"), passes, kMostLayerPasses);
  }
}

void validate_multi_token(const RunConfig& config, Problems& problems) {
  const auto& layers = config.model.mtp_num_layers;
  if (layers.is_auto() || layers.value().value_or(0) == 0) return;
  std::vector<std::string> named;
  for (const ModelFamily& family : model_families()) {
    if (!family.names.mtp_projection.empty()) named.push_back(family.model_type);
  }
  const auto& family = config.model.family;
  if (!family.is_auto() && std::find(named.begin(), named.end(), family.value()) == named.end()) {
    problems.add(
        "model.mtp_num_layers: family {} has no names for such layers; families with them: {}",
        family.value(), fmt::join(named, ", "));
  }
  const auto& length = config.model.seq_length;
  if (!length.is_auto() && *layers.value() >= length.value()) {
    problems.add(
        "model.mtp_num_layers: {} with rows of seq_length = {} tokens, where no token has one that "
        "far ahead; expected fewer layers",
        *layers.value(), length.value());
  }
}

void refuse_model(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  validate_model(config.model, problems);
  validate_sizes(config, problems);
  validate_multi_token(config, problems);
}

}  // namespace

Topic model_topic() {
  return {refuse_model};
}

}  // namespace viaduct
