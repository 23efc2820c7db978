// Which layers the stages of a pipeline have.

#include "base/units.h"
#include "config/nearest_valid.h"
#include "pipeline/stage_layout.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// The rules of one configuration, with the numbers they share.
class StageLayers {
 public:
  StageLayers(const RunConfig& config, Problems& problems)
      : config_(config),
        pipeline_(config.pipeline),
        problems_(problems),
        pp_(config.parallel.pipeline_model_parallel_size),
        layers_(config.model.num_layers.value_or(0)),
        chunks_(pipeline_.virtual_stages(pp_)) {}

  void check() {
    if (pipeline_.pipeline_model_parallel_layout) {
      check_layout();
    } else if (ends_given()) {
      check_ends();
    } else {
      check_even();
    }
    if (chunks_ > 1 && pp_ == 1 && !pipeline_.virtual_pipeline_model_parallel_size) {
      problems_.add(
          "model.pipeline_model_parallel_layout: {} stages for pipeline_model_parallel_size = 1, "
          "and several on a rank need at least 2; nearest: 1 stage, or {} ranks",
          chunks_, chunks_);
    } else if (chunks_ > 1 && pp_ == 1) {
      problems_.add(
          "model.virtual_pipeline_model_parallel_size: {} needs pipeline_model_parallel_size of at "
          "least 2, found 1",
          chunks_);
    }
  }

 private:
  bool ends_given() const {
    return pipeline_.num_layers_in_first_pipeline_stage ||
           pipeline_.num_layers_in_last_pipeline_stage;
  }
  bool accounts() const {
    return pipeline_.account_for_embedding_in_pipeline_split ||
           pipeline_.account_for_loss_in_pipeline_split;
  }

  void check_layout() {
    const auto& further = config_.model.mtp_num_layers;
    const auto stages = parse_stage_layout(
        *pipeline_.pipeline_model_parallel_layout, layers_, pp_, problems_,
        further.is_auto() ? std::optional<int64_t>() : further.value().value_or(0));
    const int chunks = std::max<int>(1, static_cast<int>(stages.size()) / pp_);
    const auto& given = pipeline_.virtual_pipeline_model_parallel_size;
    if (given && *given != chunks) {
      problems_.add(
          "model.virtual_pipeline_model_parallel_size: {}, but pipeline_model_parallel_layout has "
          "{} over {} = {}",
          *given, counted(std::ssize(stages), "stage"), counted(pp_, "rank"), chunks);
    }
    if (ends_given() || accounts()) {
      problems_.add(
          "model.pipeline_model_parallel_layout: excludes num_layers_in_first/last_pipeline_stage "
          "and account_for_embedding/loss_in_pipeline_split");
    }
  }

  void check_even() {
    if (layers_ == 0) return;
    const bool embedding = pipeline_.account_for_embedding_in_pipeline_split,
               loss = pipeline_.account_for_loss_in_pipeline_split;
    const int64_t extra = (embedding ? 1 : 0) + (loss ? 1 : 0);
    const int64_t stages = int64_t{pp_} * chunks_;
    if ((layers_ + extra) % stages == 0) return;
    const std::string further =
        extra == 0 ? ""
                   : fmt::format(" + {} ({}{}{})", extra, embedding ? "embedding" : "",
                                 extra == 2 ? " and " : "", loss ? "loss" : "");
    problems_.add(
        "model.num_layers: {}{} is not divisible by pipeline_model_parallel_size · "
        "virtual_pipeline_model_parallel_size = {} · {}; nearest: {}, or set "
        "num_layers_in_first/last_pipeline_stage or pipeline_model_parallel_layout",
        layers_, further, pp_, chunks_,
        nearest_valid(layers_, [&](int64_t n) { return (n + extra) % stages == 0; }));
  }

  void check_ends() {
    const auto& first = pipeline_.num_layers_in_first_pipeline_stage;
    const auto& last = pipeline_.num_layers_in_last_pipeline_stage;
    if (accounts()) {
      problems_.add(
          "model.account_for_embedding/loss_in_pipeline_split: not together with "
          "num_layers_in_first/last_pipeline_stage");
    }
    const int64_t given = (first ? 1 : 0) + (last ? 1 : 0);
    if (pp_ < 2) {
      const char* ends = !last ? "first" : !first ? "last" : "first/last";
      problems_.add(
          "model.num_layers_in_{}_pipeline_stage: needs pipeline_model_parallel_size of at least "
          "2, "
          "found {}",
          ends, pp_);
      return;
    }
    check_end("num_layers_in_first_pipeline_stage", first);
    check_end("num_layers_in_last_pipeline_stage", last);
    if (layers_ == 0) return;
    const int64_t at_ends = first.value_or(0) + last.value_or(0);
    const int64_t rest = layers_ - at_ends, stages = pp_ - given;
    const int64_t step = stages * chunks_;
    if (stages == 0 && rest != 0) {
      problems_.add(
          "model.num_layers: {}, but the first and last stage are the only ones and have {} + {} = "
          "{}",
          layers_, *first, *last, at_ends);
    } else if (stages > 0 && (rest <= 0 || rest % step != 0)) {
      problems_.add(
          "model.num_layers: {} - {} of num_layers_in_first/last_pipeline_stage = {} for the other "
          "{} is not a positive multiple of stages · virtual stages = {} · {}; nearest: {}",
          layers_, counted(at_ends, "layer"), rest, counted(stages, "stage"), stages, chunks_,
          nearest_valid(layers_,
                        [&](int64_t n) { return n > at_ends && (n - at_ends) % step == 0; }));
    }
  }

  void check_end(const char* name, const std::optional<int>& layers) {
    if (!layers || *layers % chunks_ == 0) return;
    problems_.add(
        "model.{}: {} is not divisible by virtual_pipeline_model_parallel_size = {}; nearest: {}",
        name, *layers, chunks_, nearest_multiple(*layers, chunks_));
  }

  const RunConfig& config_;
  const PipelineConfig& pipeline_;
  Problems& problems_;
  const int pp_;
  const int64_t layers_;  // 0: not known yet
  const int chunks_;      // of a stage
};

void refuse_pipeline(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  StageLayers(config, problems).check();
}

}  // namespace

Topic pipeline_topic() {
  std::vector<NoEffectRule> idle{
      {{"model.account_for_embedding_in_pipeline_split",
        "model.account_for_loss_in_pipeline_split"},
       one_stage},
  };
  return {refuse_pipeline, std::move(idle)};
}

}  // namespace viaduct
