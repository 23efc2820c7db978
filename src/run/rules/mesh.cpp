// Ranks and rows divide evenly.

#include <fmt/format.h>

#include <numeric>

#include "config/nearest_valid.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"
#include "run/run_length.h"

namespace viaduct {
namespace {

/// The ranks form a whole number of replicas, in both grids.
void validate_mesh(const RunConfig& config, Problems& problems) {
  const ParallelConfig& sizes = config.parallel;
  const int64_t ranks = config.dist.ranks, replica = sizes.model_ranks();
  const int64_t pp = sizes.stages();
  if (ranks % replica != 0 && sizes.encoder_pipeline_model_parallel_size > 0) {
    problems.add(
        "dist.ranks: {} is not divisible by context_parallel_size · "
        "(encoder_tensor_model_parallel_size · encoder_pipeline_model_parallel_size + "
        "tensor_model_parallel_size · pipeline_model_parallel_size) = {} · ({} · {} + {} · {}) = "
        "{}; nearest: {}",
        ranks, sizes.context_parallel_size, sizes.encoder_tensor(),
        sizes.encoder_pipeline_model_parallel_size, sizes.tensor_model_parallel_size,
        sizes.pipeline_model_parallel_size, replica, nearest_multiple(ranks, replica));
    return;
  }
  if (ranks % replica != 0) {
    problems.add(
        "dist.ranks: {} is not divisible by tensor_model_parallel_size · context_parallel_size · "
        "pipeline_model_parallel_size = {} · {} · {} = {}; nearest: {}",
        ranks, sizes.tensor_model_parallel_size, sizes.context_parallel_size, pp, replica,
        nearest_multiple(ranks, replica));
    return;
  }
  const int64_t ep = sizes.expert_model_parallel_size, etp = sizes.expert_tensor();
  // Of the stages that have experts: an encoder's may have other tensor ranks.
  const int64_t of_stage =
      ranks / replica * sizes.context_parallel_size * sizes.tensor_model_parallel_size;
  if (of_stage % (etp * ep) != 0 && sizes.encoder_tensor() != sizes.tensor_model_parallel_size) {
    problems.add(
        "model.expert_model_parallel_size: expert_tensor_parallel_size · "
        "expert_model_parallel_size = {} · {} does not divide the {} ranks of a stage of the "
        "decoder; nearest: {}",
        etp, ep, of_stage, nearest_divisor(ep, of_stage / std::gcd(of_stage, etp)));
    return;
  }
  if (of_stage % (etp * ep) != 0) {
    problems.add(
        "dist.ranks: {} is not divisible by expert_tensor_parallel_size · "
        "expert_model_parallel_size · pipeline_model_parallel_size = {} · {} · {} = {}; nearest: "
        "{}",
        ranks, etp, ep, pp, etp * ep * pp, nearest_multiple(ranks, etp * ep * pp));
    return;
  }
  const int64_t dp = ranks / replica, expert_dp = of_stage / (etp * ep);
  if (config.dist.use_tp_pp_dp_mapping && pp > 1 && dp != expert_dp) {
    problems.add(
        "dist.use_tp_pp_dp_mapping: stages come before data ranks, so that expert data ranks = {} "
        "must equal data ranks = {}; with false both orders of stages are the same",
        expert_dp, dp);
  }
}

/// ", or micro_batch_size = 2": the largest smaller one with which `batch` is a whole number of
/// micro-batches on `data_ranks`; empty if there is none.
std::string smaller_micro_batch(int64_t batch, int64_t micro_batch, int64_t data_ranks) {
  if (batch % data_ranks != 0) return "";
  for (int64_t rows = micro_batch - 1; rows >= 1; --rows)
    if (batch % (rows * data_ranks) == 0) return fmt::format(", or micro_batch_size = {}", rows);
  return "";
}

/// The global batch is a whole number of micro-batches on each data-parallel rank.
void validate_batch(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems) {
  // Only settings of the user: `probe` and `bench` set the batch themselves.
  const bool given =
      outcome.is_given("train.global_batch_size") || outcome.is_given("train.micro_batch_size");
  const int64_t data_ranks = data_parallel_size(config);
  const int64_t rows = config.train.micro_batch_rows() * data_ranks;
  const bool rounded = config.train.decrease_batch_size_if_needed;
  if (given && !rounded && rows > 0 && config.train.global_batch_size % rows != 0) {
    problems.add(
        "train.global_batch_size: {} is not divisible by micro_batch_size · data-parallel ranks = "
        "{} · {}; nearest: {}{}",
        config.train.global_batch_size, config.train.micro_batch_rows(), data_ranks,
        nearest_multiple(config.train.global_batch_size, rows),
        smaller_micro_batch(config.train.global_batch_size, config.train.micro_batch_rows(),
                            data_ranks));
  }
}

void refuse_mesh(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems) {
  validate_mesh(config, problems);
  validate_batch(config, outcome, problems);
  validate_run_length(config, outcome, problems);
}

}  // namespace

Topic mesh_topic() {
  std::vector<NoEffectRule> idle{
      {{"dist.use_tp_pp_dp_mapping"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool one = c.parallel.stages() == 1 || data_parallel_size(c) == 1;
         return reason_if(one, "with one pipeline stage or one data rank both orders are the same");
       }},
  };
  return {refuse_mesh, std::move(idle)};
}

}  // namespace viaduct
