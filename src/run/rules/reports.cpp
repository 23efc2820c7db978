// What a run writes about itself: profiles, rates, and the operands of its products.

#include <cstdlib>

#include "base/units.h"
#include "run/nsys_command.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

std::string no_quantization(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(!precision_recipe(c.mixed_precision).products.any(),
                   recipe_without(c.mixed_precision, "FP8 or FP4 products"));
}

std::string not_inspected(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_quantization(c, outcome);
  if (!reason.empty()) return reason;
  return reason_if(!c.tensor_inspect.enabled, "tensor_inspect.enabled is not true");
}

void validate_profiling(const RunConfig& config, Problems& problems) {
  const ProfilingConfig& p = config.profiling;
  if (p.profile_step_end <= p.profile_step_start) {
    problems.add("profiling.profile_step_end: {} is not above profile_step_start = {}",
                 p.profile_step_end, p.profile_step_start);
  }
  if (p.use_nsys_profiler && p.trace) {
    problems.add(
        "profiling.use_nsys_profiler and profiling.trace are both true: each would time the other; "
        "expected only one of them");
  }
  if (!p.trace && !p.record_memory_history && !p.use_nsys_profiler) return;
  if (p.profile_step_start >= config.train.train_iters) {
    problems.add(
        "profiling.profile_step_start: {} before the first recorded one, but "
        "the run ends with step {} (train.train_iters)",
        counted(p.profile_step_start, "step comes", "steps come"), config.train.train_iters);
  }
  if (p.profile_ranks.empty()) problems.add("profiling.profile_ranks: no rank is named");
  for (const int rank : p.profile_ranks) {
    if (rank >= config.dist.ranks) {
      problems.add("profiling.profile_ranks: rank {} is not one of the run's {} (0 to {})", rank,
                   config.dist.ranks, config.dist.ranks - 1);
    }
  }
}

void validate_logger(const LoggerConfig& logger, Problems& problems) {
  if (!logger.log_throughput && logger.flops == CountedFlops::full)
    problems.add("logger.flops: full adds a rate, but log_throughput = false leaves rates out");
}

void refuse_reports(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  validate_profiling(config, problems);
  validate_logger(config.logger, problems);
}

}  // namespace

Topic reports_topic() {
  std::vector<NoEffectRule> idle{
      {{"profiling.profile_step_start", "profiling.profile_step_end", "profiling.profile_ranks"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool watched = c.profiling.use_nsys_profiler && c.dist.on_cuda();
         return reason_if(!c.profiling.trace && !c.profiling.record_memory_history && !watched,
                          "neither profiling.trace nor record_memory_history is on");
       }},
      {{"profiling.use_nsys_profiler"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return c.profiling.use_nsys_profiler
                    ? without_gpu(c, "has no GPU that Nsight Systems could record")
                    : std::string();
       }},
      {{"profiling.nsys_trace"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const std::string other = without_gpu(c, "has no GPU that Nsight Systems could record");
         return !other.empty() ? other
                               : reason_if(profiler_watches(::getenv),
                                           "the command that started the profiler says what it "
                                           "records");
       }},
      {{"tensor_inspect.enabled"}, no_quantization},
      {{"tensor_inspect.interval"}, not_inspected},
  };
  return {refuse_reports, std::move(idle)};
}

}  // namespace viaduct
