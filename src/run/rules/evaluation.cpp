// What is evaluated, and the data of it.

#include "base/error.h"
#include "data/split.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// The data sets that are of one split alone; none: it has none.
std::optional<std::vector<std::string>> own_data(const DatasetConfig& data, Split split) {
  if (!data.blend_per_split || data.blend_per_split->size() != kSplitCount) return std::nullopt;
  return (*data.blend_per_split)[static_cast<size_t>(split)];
}

void validate_sample_prompts(const RunConfig& config, Problems& problems) {
  if (!config.validation.sample_prompts) return;
  if (config.parallel.context_parallel_size > 1) {
    problems.add(
        "validation.sample_prompts: answers are made token by token, which "
        "model.context_parallel_size = {} cannot cut; expected 1",
        config.parallel.context_parallel_size);
  }
  if (config.parallel.encoder_pipeline_model_parallel_size > 0) {
    problems.add(
        "validation.sample_prompts: answers are made token by token, for which the encoder is on "
        "the decoder's first stage; model.encoder_pipeline_model_parallel_size is {}, expected 0",
        config.parallel.encoder_pipeline_model_parallel_size);
  }
  if (config.tensor_overlap.tp_comm_overlap.value_or(false)) {
    problems.add(
        "validation.sample_prompts: answers are made token by token, but "
        "comm_overlap.tp_comm_overlap = true needs one shape for the whole run; `auto` follows it");
  }
}

void refuse_evaluation(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  validate_sample_prompts(config, problems);
  const ValidationConfig& v = config.validation;
  const DatasetConfig& data = config.dataset;
  // A dry run needs no data set.
  if (!data.mock && !data.blend && !data.blend_per_split) return;
  const auto weighted = [](const std::optional<std::vector<std::string>>& entries) {
    try {
      return entries && parse_blend(*entries).weights.has_value();
    } catch (const ConfigError&) {
      return false;  // reported where blends are checked
    }
  };
  const auto of_split = [&](Split split) {
    return data.blend ? data.blend : own_data(data, split);
  };
  if (v.multiple_validation_sets &&
      (!data.blend_per_split || !of_split(Split::valid) || weighted(of_split(Split::valid)))) {
    problems.add(
        "validation.multiple_validation_sets: true needs a list of data sets without weights as "
        "the second entry of dataset.blend_per_split");
  }
  if (v.full_validation && data.mock)
    problems.add("validation.full_validation: true, but mock data (dataset.mock) have no end");
  if (v.full_validation && (weighted(of_split(Split::valid)) || weighted(of_split(Split::test)))) {
    problems.add(
        "validation.full_validation: true reads each sample once, but a validation or test blend "
        "with weights repeats or omits samples");
  }
}

/// Data of which validation gets none.
std::string no_validation_data(const RunConfig& c, const ConfigOutcome&) {
  const DatasetConfig& data = c.dataset;
  if (data.mock) return "";
  if (data.blend_per_split) {
    return reason_if(!own_data(data, Split::valid),
                     "dataset.blend_per_split has no data sets for validation");
  }
  return reason_if(data.blend && !parse_split(data.split)[static_cast<size_t>(Split::valid)],
                   "dataset.split = " + data.split + " leaves validation no data");
}

}  // namespace

Topic evaluation_topic() {
  std::vector<NoEffectRule> idle{
      {{"validation.eval_iters", "validation.full_validation"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         return c.validation.evaluates() ? no_validation_data(c, outcome) : std::string();
       }},
      {{"validation.eval_interval"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         const ValidationConfig& v = c.validation;
         const bool besides = v.tasks || v.sample_prompts || !v.evaluates();
         return besides ? std::string() : no_validation_data(c, outcome);
       }},
      {{"train.early_stopping_patience"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.train.skip_train, "train.skip_train = true: nothing is trained");
       }},
  };
  return {refuse_evaluation, std::move(idle)};
}

}  // namespace viaduct
