// Exchanges of tensor ranks that run beside GEMMs.

#include "nn/gemm_overlap.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// Why nothing overlaps.
std::string no_overlap(const RunConfig& c, const ConfigOutcome&) {
  const std::string one = one_tensor_rank(c);
  return !one.empty() ? one
                      : reason_if(!c.tensor_overlap.tp_comm_overlap.value(),
                                  "comm_overlap.tp_comm_overlap is off");
}

std::string no_kernels(const RunConfig& c, const ConfigOutcome& outcome) {
  if (!tells_kernels(c))
    return stated("dist.device", c.dist.device_kind()) + " has no kernels of NCCL";
  return no_overlap(c, outcome);
}

std::string same_table(const RunConfig& run, const RunConfig& without) {
  Problems said;  // by refuse_gemm_overlap
  return reason_if(gemm_overlap(without, said) == gemm_overlap(run, said),
                   "each GEMM that allows it does the same by default");
}

void refuse_gemm_overlap(const RunConfig& config, const ConfigOutcome& outcome,
                         Problems& problems) {
  const TensorOverlapConfig& overlap = config.tensor_overlap;
  const int tp = config.parallel.tensor_model_parallel_size;
  if (overlap.tp_comm_overlap_rs_dgrad) {
    for (const char* bulk : {"model.tp_comm_bulk_dgrad", "model.tp_comm_bulk_wgrad"}) {
      const auto given = outcome.given.find(bulk);
      if (given != outcome.given.end() && same_value(given->second, write_value(true)))
        problems.add("{}: true and tp_comm_overlap_rs_dgrad=true exclude each other", bulk);
    }
  }
  if (!overlap.tp_comm_overlap.is_auto() && overlap.tp_comm_overlap.value()) {
    if (tp == 1) {
      problems.add(
          "comm_overlap.tp_comm_overlap: true needs tensor_model_parallel_size of at least 2, "
          "found 1; `auto` follows it");
    } else if (!config.parallel.sequence_parallel.value_or(true)) {
      problems.add(
          "comm_overlap.tp_comm_overlap: true needs model.sequence_parallel, which is false");
    }
    if (config.pipeline.variable_seq_lengths) {
      problems.add(
          "comm_overlap.tp_comm_overlap: true needs one shape for the whole run, but "
          "model.variable_seq_lengths is true");
    }
  }
  gemm_overlap(config, problems);
}

}  // namespace

Topic gemm_overlap_topic() {
  std::vector<NoEffectRule> idle{
      {{"model.tp_comm_bulk_dgrad", "model.tp_comm_bulk_wgrad", "model.tp_comm_overlap_ag",
        "model.tp_comm_overlap_rs", "model.tp_comm_overlap_rs_dgrad",
        "model.tp_comm_overlap_disable_qkv", "model.tp_comm_overlap_disable_fc1",
        "comm_overlap.tp_comm_overlap_cfg", "comm_overlap.method", "comm_overlap.num_splits",
        "comm_overlap.aggregate", "comm_overlap.fp8_buf"},
       no_overlap,
       same_table},
      // Of connections and kernels, which have other multiprocessors then.
      {{"comm_overlap.num_sm", "comm_overlap.cga_size", "comm_overlap.set_sm_margin",
        "comm_overlap.atomic_gemm", "comm_overlap.use_ce"},
       no_kernels,
       same_table},
  };
  return {refuse_gemm_overlap, std::move(idle)};
}

}  // namespace viaduct
