#include "run/attention_backend.h"

#include <fmt/format.h>

#include "model/attention_fields.h"
#include "ops/cuda/library_attention.h"
#include "precision/precision_config.h"
#include "run/cuda_backend.h"
#include "run/run_config.h"

namespace viaduct {
namespace {

/// Of the smallest call of the backward: the query heads of one key-value head of one row.
int64_t least_workspace(const ModelFields& model) {
  cuda::LibraryAttention call;
  call.backward = true;
  call.documents = 1, call.kv_heads = 1;
  call.heads = model.num_attention_heads.value() / model.num_query_groups.value();
  call.queries = call.keys = model.seq_length.value();
  call.width = call.value_width = model.kv_channels.value();
  return cuda::library_workspace(call);
}

std::string why_not_library(const RunConfig& config, bool on_this_gpu) {
  const PrecisionConfig& precision = config.mixed_precision;
  if (dtype_bytes(precision_recipe(precision.recipe).activation) != 2) {
    return fmt::format(
        "cuDNN computes 16-bit activations, those of mixed_precision.recipe = {} "
        "are wider",
        choice_name(precision.recipe));
  }
  if (precision.fp8_dot_product_attention)
    return "cuDNN computes no attention with mixed_precision.fp8_dot_product_attention here";
  if (std::string reason = without_library_attention(config.model); !reason.empty()) return reason;
  const int64_t width = config.model.kv_channels.value();
  if (width > cuda::kMostLibraryWidth || width % cuda::kLibraryRun != 0)
    return fmt::format("cuDNN computes no attention with heads of {} here", width);
  if (const int64_t bytes = least_workspace(config.model); bytes > cuda::kMostLibraryWorkspace) {
    return fmt::format(
        "the backward of rows of {} tokens would need {} GiB of workspace, at most "
        "{} are taken",
        config.model.seq_length.value(), bytes >> 30, cuda::kMostLibraryWorkspace >> 30);
  }
  return on_this_gpu ? cuda_backend().attention_library_problem() : "";
}

}  // namespace

bool uses_this_gpu(const RunConfig& config) {
  return config.dist.on_cuda() && !config.cuda_target;
}

AttentionChoice automatic_attention(const RunConfig& config, bool on_this_gpu) {
  if (!config.cuda_target || *config.cuda_target < CudaTarget::sm_90a) return {};
  std::string reason = why_not_library(config, on_this_gpu);
  const bool taken = reason.empty();
  return {taken ? AttentionBackend::fused : AttentionBackend::flash, std::move(reason)};
}

}  // namespace viaduct
