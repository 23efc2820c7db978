#include "nn/tensor_parallel_config.h"

namespace viaduct {
namespace {

/// Settings of GPUs, of every GEMM that hides an exchange and has none of its own.
void add_kernel_fields(FieldGroup& group, KernelSettings& kernels) {
  group
      .field("num_sm", kernels.num_sm,
             "Multiprocessors that NCCL's kernels take for the exchange beside a GEMM, exactly; "
             "null: NCCL's choice, or that of dist.nccl_communicator_config_path. Products with "
             "different numbers have connections of their own. Megatron has 16, and 1 on rings.")
      .range(1, kMostSm)
      .constraint("at most the GPU's multiprocessors");
  group
      .field("cga_size", kernels.cga_size,
             "Blocks of a cluster of NCCL's kernels for the exchange beside a GEMM, from compute "
             "capability 9.0 on; null: NCCL's choice. Megatron has 2, and 1 on rings.")
      .range(1, kMostCga)
      .constraint("at most num_sm");
  group
      .field("set_sm_margin", kernels.set_sm_margin,
             "The GEMM leaves num_sm multiprocessors to the exchange beside it: cuBLASLt chooses "
             "its kernel for the others.")
      .constraint("needs num_sm");
  group
      .field("atomic_gemm", kernels.atomic_gemm,
             "Chunks are handed over by counters inside one product. No library for GPUs has this "
             "any more.")
      .constraint("false on cuda");
  group
      .field("use_ce", kernels.use_ce,
             "Copy engines move the data of the all-gather beside a GEMM (qkv_dgrad and fc1_dgrad "
             "with method bulk), so that it takes no multiprocessors; null: NCCL's choice. "
             "Megatron has true, for its rings.")
      .constraint("method bulk; ddp.nccl_ub without disable_symmetric_registration; NCCL 2.28");
}

}  // namespace

FieldGroup tensor_overlap_fields(TensorOverlapConfig& config) {
  FieldGroup group("comm_overlap", "Communication hidden under computation.");
  group.on_resume(resume::free);
  group
      .field("tp_comm_overlap", config.tp_comm_overlap,
             "Tensor-parallel communication is hidden under the GEMMs it feeds; auto: on if tp > "
             "1, sequence parallel and static shapes allow it.")
      .constraint("tp > 1, sequence_parallel, not with variable_seq_lengths");
  group
      .field("tp_comm_overlap_cfg", config.tp_comm_overlap_cfg,
             "Per GEMM (qkv_fprop, qkv_dgrad, qkv_wgrad, proj_fprop, proj_dgrad, fc1_fprop, "
             "fc1_dgrad, fc1_wgrad, fc2_fprop, fc2_dgrad): a map with method, num_splits, "
             "aggregate, fp8_buf, num_sm, cga_size, set_sm_margin and use_ce, instead of those of "
             "this "
             "section; or the name of one of Megatron-Bridge's tables "
             "(userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192); null: built-in choices.")
      .constraint(
          "bulk only for qkv/fc1 dgrad and wgrad; pipeline only where an output is "
          "reduce-scattered; fp8_buf, which some tables by name set, needs a recipe with FP8 "
          "products");
  group
      .field("method", config.method,
             "Overlap method of the GEMMs that allow it and have no method in tp_comm_overlap_cfg; "
             "null: ring_exchange for gathers, pipeline for proj_fprop and fc2_fprop, bulk for qkv "
             "and fc1 dgrad and wgrad.")
      .one_of({OverlapMethod::bulk, OverlapMethod::ring_exchange, OverlapMethod::pipeline});
  group
      .field("num_splits", config.num_splits,
             "Chunks of a pipelined GEMM; null: 4, or the largest smaller number that divides. "
             "Rings have tp chunks.")
      .range(1)
      .constraint(
          "divides the output features; into multiples of 16 for a GPU's quantized products, of "
          "128 where 128 share a scale")
      .alias("num_split");
  group.field("aggregate", config.aggregate, "Ring steps move chunks in pairs.")
      .constraint("tp is even");
  group
      .field("fp8_buf", config.fp8_buf,
             "Where the output of a layer with FP8 products is reduce-scattered in chunks "
             "(pipeline, ring_exchange), the ranks' parts travel as E4M3, with an FP32 scale for "
             "each 64 elements, and are summed in FP32: 1.0625 bytes per element instead of 2. "
             "Megatron-Bridge has it on.")
      .constraint("a recipe with FP8 products; chunks of columns divisible by 64");
  add_kernel_fields(group, config.kernels);
  return group;
}

FieldGroup tensor_switch_fields(TensorOverlapConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  const auto add = [&](const char* name, bool& member, const char* doc) -> Field& {
    return group.field(name, member, doc).alias(std::string("comm_overlap.") + name);
  };
  add("tp_comm_bulk_dgrad", config.tp_comm_bulk_dgrad,
      "The gather of saved inputs runs during the input-gradient GEMM (qkv, fc1).")
      .constraint("excludes tp_comm_overlap_rs_dgrad");
  add("tp_comm_bulk_wgrad", config.tp_comm_bulk_wgrad,
      "The reduce-scatter of input gradients runs during the weight-gradient GEMM (qkv, fc1).")
      .constraint(
          "excludes tp_comm_overlap_rs_dgrad; no effect under pipeline_schedule=zero_bubble or "
          "dualpipe_v and delay_wgrad_compute, where weight gradients wait");
  add("tp_comm_overlap_ag", config.tp_comm_overlap_ag,
      "Gathers are cut into ring steps between GEMM chunks.");
  add("tp_comm_overlap_rs", config.tp_comm_overlap_rs,
      "Reduce-scatters are cut into chunks behind GEMM chunks.");
  add("tp_comm_overlap_rs_dgrad", config.tp_comm_overlap_rs_dgrad,
      "The reduce-scatter of input gradients overlaps the GEMM that makes them.")
      .constraint("replaces both bulk modes");
  add("tp_comm_overlap_disable_qkv", config.tp_comm_overlap_disable_qkv, "No overlap on qkv.");
  add("tp_comm_overlap_disable_fc1", config.tp_comm_overlap_disable_fc1, "No overlap on fc1.");
  return group;
}

std::string waiting_gradients_note(const GemmOverlapTable& table,
                                   const OverlapConditions& conditions) {
  if (!conditions.weight_gradients_wait || table == GemmOverlapTable{}) return "";
  std::string rows;
  for (const OverlapGemm gemm : {OverlapGemm::qkv_dgrad, OverlapGemm::qkv_wgrad,
                                 OverlapGemm::fc1_dgrad, OverlapGemm::fc1_wgrad}) {
    rows += fmt::format("{}{} {}", rows.empty() ? "" : ", ", overlap_gemm_name(gemm),
                        choice_name(table[gemm].method));
  }
  return fmt::format(
      "comm_overlap.tp_comm_overlap: weight gradients wait for their half of the backward "
      "(model.pipeline_schedule=zero_bubble or dualpipe_v, or comm_overlap.delay_wgrad_compute) "
      "and hide no exchange of input gradients: {}",
      rows);
}

}  // namespace viaduct
