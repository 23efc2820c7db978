// Planned knobs of FP8 and FP4.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobRow kFp8[] = {
    {"fp8", "string or null", "null", "e4m3 hybrid",
     "FP8 in the linear layers of blocks; hybrid: gradients in E5M2.", "excludes fp4"},
    {"fp8_recipe", "string", "tensorwise", "delayed tensorwise blockwise mxfp8",
     "Scaling: from the history of maxima, from the tensor, by blocks, or MXFP8's 32 elements.",
     "GEMM sizes divisible by 16 (MXFP8: 32)"},
    {"tp_only_amax_red", "bool", "false", "",
     "Maxima are reduced over tp alone instead of tp, dp and cp.", "delayed"},
    {"fp8_margin", "int", "0", "", "Scales leave this many powers of two of headroom.", ""},
    {"fp8_amax_history_len", "int", "1", "", "Steps of the history of maxima.", "delayed"},
    {"fp8_amax_compute_algo", "string", "most_recent", "most_recent max",
     "Which value of the history gives the scale.", "delayed"},
    {"fp8_wgrad", "bool", "true", "", "Weight-gradient GEMMs in FP8.", ""},
    {"fp8_dot_product_attention", "bool", "false", "", "Attention products in FP8.", ""},
    {"fp8_multi_head_attention", "bool", "false", "", "Attention input and output in FP8.", ""},
    {"first_last_layers_bf16", "bool", "false", "", "First and last layers stay in BF16.",
     "not with delayed"},
    {"num_layers_at_start_in_bf16", "int", "1", "", "Number of these layers at the start.",
     "at most layers of a stage"},
    {"num_layers_at_end_in_bf16", "int", "1", "", "Number of these layers at the end.",
     "at most layers of a stage"},
    {"fp8_param_gather", "bool", "false", "",
     "Weights are stored and gathered in FP8; masters stay FP32.", "a recipe that supports it",
     "fp8_param fp8_params ddp.fp8_param_gather"},
    {"reuse_grad_buf_for_mxfp8_param_ag", "bool", "false", "",
     "MXFP8 weights are gathered through the gradient buffer.",
     "MXFP8 with fp8_param_gather; not with overlap_param_gather_with_optimizer_step"},
    {"fp4", "string or null", "null", "e2m1", "FP4 in the linear layers of blocks.",
     "excludes fp8"},
    {"fp4_recipe", "string", "nvfp4", "nvfp4", "Scaling of FP4.", ""},
    {"fp4_param_gather", "bool", "false", "", "Weights are gathered in FP4.",
     "a recipe that supports it", "ddp.fp4_param_gather"},
};

}  // namespace

std::vector<KnobTable> precision() {
  return {{"mixed_precision", "", "FP8 and FP4", kFp8}};
}

}  // namespace viaduct::catalogue_tables
