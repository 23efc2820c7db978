// In which order the stages of a pipeline work, and their messages.

#include "base/units.h"
#include "config/nearest_valid.h"
#include "pipeline/schedule.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"
#include "run/run_length.h"

namespace viaduct {
namespace {

/// The rules of one configuration, with the numbers they share.
class StageOrder {
 public:
  StageOrder(const RunConfig& config, Problems& problems)
      : config_(config),
        pipeline_(config.pipeline),
        problems_(problems),
        pp_(config.parallel.pipeline_model_parallel_size),
        stages_(config.parallel.stages()),
        chunks_(pipeline_.virtual_stages(pp_)) {}

  void check() {
    check_schedule();
    check_messages();
    check_deferral();
    if (config_.ddp.overlap_param_gather_with_optimizer_step && chunks_ == 1) {
      problems_.add(
          "optimizer.overlap_param_gather_with_optimizer_step: true needs "
          "virtual_pipeline_model_parallel_size of at least 2, found 1");
    }
  }

 private:
  void check_schedule() {
    if (pipeline_.pipeline_schedule == PipelineOrder::dualpipe) {
      problems_.add("model.pipeline_schedule: {}", kDualPipeRefused);
      return;
    }
    if (pipeline_.pipeline_schedule == PipelineOrder::dualpipe_v) return check_dualpipe_v();
    if (chunks_ > 1 && pipeline_.pipeline_schedule != PipelineOrder::one_f_one_b) {
      problems_.add(
          "model.pipeline_schedule: {} has one chunk a stage, and "
          "virtual_pipeline_model_parallel_size is {}; 1f1b has several, and dualpipe_v two",
          choice_name(pipeline_.pipeline_schedule), chunks_);
    }
    const auto& given = pipeline_.microbatch_group_size_per_vp_stage;
    if (chunks_ == 1) {
      if (given) {
        problems_.add(
            "model.microbatch_group_size_per_vp_stage: {} needs virtual stages; "
            "virtual_pipeline_model_parallel_size is 1",
            *given);
      }
      return;
    }
    const int64_t group = pipeline_.group_size(pp_);
    if (group < pp_) {
      problems_.add(
          "model.microbatch_group_size_per_vp_stage: {} is below pipeline_model_parallel_size = "
          "{}; nearest: {}",
          group, pp_, pp_);
      return;
    }
    const int64_t rows = config_.train.micro_batch_rows() * data_parallel_size(config_);
    const BatchSchedule batches = batch_schedule(config_);
    if (rows == 0 || !batches.problems().empty()) return;  // reported elsewhere
    for (const BatchSchedule::Size& size : batches.sizes()) {
      if (size.rows % rows == 0 && !check_group(size.rows / rows, group)) return;
    }
  }

  void check_dualpipe_v() {
    constexpr const char* kName = "model.pipeline_schedule: dualpipe_v";
    if (pp_ == 1 || chunks_ != 2) {
      problems_.add(
          "{} needs pipeline_model_parallel_size of at least 2 and "
          "virtual_pipeline_model_parallel_size = 2, found {} and {}",
          kName, pp_, chunks_);
    }
    if (const auto& group = pipeline_.microbatch_group_size_per_vp_stage)
      problems_.add("{} has no groups, and microbatch_group_size_per_vp_stage is {}; expected null",
                    kName, *group);
    if (pipeline_.num_layers_in_first_pipeline_stage ||
        pipeline_.num_layers_in_last_pipeline_stage) {
      problems_.add(
          "{} has two chunks at different depths on each rank: write the layers of each in "
          "pipeline_model_parallel_layout in place of num_layers_in_first/last_pipeline_stage",
          kName);
    }
    if (!pipeline_.overlap_p2p_comm.value_or(true) || pipeline_.batch_p2p_comm.value_or(false)) {
      problems_.add(
          "{} needs comm_overlap.overlap_p2p_comm = true: its stages are not in step, so blocking "
          "messages would deadlock",
          kName);
    }
    const int64_t rows = config_.train.micro_batch_rows() * data_parallel_size(config_);
    const BatchSchedule batches = batch_schedule(config_);
    if (rows == 0 || !batches.problems().empty()) return;  // reported elsewhere
    for (const BatchSchedule::Size& size : batches.sizes()) {
      const int64_t count = size.rows / rows;
      if (size.rows % rows != 0 || count >= 2 * int64_t{pp_}) continue;
      problems_.add(
          "{} needs at least 2 · pipeline_model_parallel_size = {} micro-batches in a step, and "
          "train.global_batch_size = {} has {}",
          kName, 2 * pp_, size.rows, count);
      return;
    }
  }

  /// False if the micro-batches of a step do not fit the groups.
  bool check_group(int64_t count, int64_t group) {
    const int64_t remainder = count % group;
    if (count < group || (remainder != 0 && remainder < pp_)) {
      problems_.add(
          "model.microbatch_group_size_per_vp_stage: groups of {} cut the {} of a "
          "step and leave {}, fewer than pipeline_model_parallel_size = {}; nearest: {} "
          "micro-batches",
          group, counted(count, "micro-batch", "micro-batches"), remainder, pp_,
          nearest_valid(count, [&](int64_t n) {
            return n >= group && (n % group == 0 || n % group >= pp_);
          }));
      return false;
    }
    return true;
  }

  void check_messages() {
    const bool overlap = pipeline_.overlap_p2p_comm.value_or(false);
    const bool blocks =
        !pipeline_.overlap_p2p_comm.value_or(true) || pipeline_.batch_p2p_comm.value_or(false);
    const bool in_v = pipeline_.pipeline_schedule == PipelineOrder::dualpipe_v;
    if (stages_ > pp_ && chunks_ > 1 && blocks && !in_v) {
      problems_.add(
          "model.encoder_pipeline_model_parallel_size: {} in front of stages of {} chunks needs "
          "comm_overlap.overlap_p2p_comm = true: they are not in step, so blocking messages would "
          "deadlock; or virtual_pipeline_model_parallel_size = null",
          stages_ - pp_, chunks_);
    }
    if (overlap && pipeline_.batch_p2p_comm.value_or(false)) {
      problems_.add(
          "comm_overlap.overlap_p2p_comm: true and model.batch_p2p_comm = true exclude each other: "
          "grouped messages are waited for together");
    }
    const bool overlap_by_itself = pipeline_.overlap_p2p_comm.is_auto() && pp_ > 1 && chunks_ > 1 &&
                                   !pipeline_.batch_p2p_comm.value_or(false);
    if (pipeline_.overlap_p2p_comm_warmup_flush && !overlap && !overlap_by_itself) {
      problems_.add(
          "model.overlap_p2p_comm_warmup_flush: true needs comm_overlap.overlap_p2p_comm, which is "
          "off");
    }
    if (stages_ > 1 && pipeline_.pipeline_schedule == PipelineOrder::zero_bubble && !overlap &&
        !pipeline_.batch_p2p_comm.value_or(true)) {
      problems_.add(
          "model.batch_p2p_comm: false needs comm_overlap.overlap_p2p_comm where "
          "pipeline_schedule = zero_bubble: its messages would deadlock one after the other");
    }
  }

  void check_deferral() {
    if (!pipeline_.defer_embedding_wgrad_compute) {
      if (pipeline_.wgrad_deferral_limit > 0) {
        problems_.add(
            "comm_overlap.wgrad_deferral_limit: {} needs defer_embedding_wgrad_compute, which is "
            "off",
            pipeline_.wgrad_deferral_limit);
      }
      return;
    }
    if (pipeline_.delays_weight_gradients()) {
      problems_.add(
          "comm_overlap.defer_embedding_wgrad_compute: pipeline_schedule = {} weight gradients "
          "already; 1f1b and gpipe do not",
          pipeline_.pipeline_schedule == PipelineOrder::zero_bubble ? "zero_bubble delays all"
                                                                    : "dualpipe_v delays");
    }
    if (stages_ < 2) {
      problems_.add(
          "comm_overlap.defer_embedding_wgrad_compute: true needs pipeline_model_parallel_size of "
          "at least 2, found {}",
          pp_);
    }
    if (pipeline_.wgrad_deferral_limit < 0) {
      problems_.add(
          "comm_overlap.wgrad_deferral_limit: {}: defer_embedding_wgrad_compute needs a limit from "
          "0 (all micro-batches)",
          pipeline_.wgrad_deferral_limit);
    }
  }

  const RunConfig& config_;
  const PipelineConfig& pipeline_;
  Problems& problems_;
  const int pp_;
  const int stages_;  // with those of an encoder
  const int chunks_;  // of a stage
};

void refuse_pipeline_schedule(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  StageOrder(config, problems).check();
}

}  // namespace

Topic pipeline_schedule_topic() {
  const auto overlaps_anyway = [](const RunConfig& c, const ConfigOutcome&) {
    const int pp = c.parallel.pipeline_model_parallel_size;
    if (c.pipeline.pipeline_schedule == PipelineOrder::dualpipe_v)
      return std::string("model.pipeline_schedule = dualpipe_v overlaps them anyway");
    return reason_if(c.parallel.stages() > pp && c.pipeline.virtual_stages(pp) > 1,
                     "an encoder's stages in front of virtual stages overlap them anyway");
  };
  std::vector<NoEffectRule> idle{
      {{"model.overlap_p2p_comm_warmup_flush"}, overlaps_anyway},
      {{"model.deallocate_pipeline_outputs", "model.pipeline_dtype", "model.variable_seq_lengths",
        "model.batch_p2p_comm", "comm_overlap.overlap_p2p_comm"},
       one_stage},
  };
  return {refuse_pipeline_schedule, std::move(idle)};
}

}  // namespace viaduct
