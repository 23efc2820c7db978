#include "plan/product_peak.h"

#include <fmt/format.h>

namespace viaduct {
namespace {

/// As people write a format of the catalogue.
std::string shown_format(const std::string& format) {
  if (format == "f64") return "FP64";
  if (format == "f32") return "FP32";
  if (format == "f16") return "FP16";
  if (format == "bf16") return "BF16";
  return format == "fp8" ? "FP8" : "FP4";
}

}  // namespace

std::string product_format(const PrecisionRecipe& recipe) {
  if (recipe.products.scaling == Scaling::nvfp4) return "fp4";
  return recipe.products.any() ? "fp8" : std::string(dtype_name(recipe.weight));
}

MatmulPeak product_peak(const Gpu& gpu, const PrecisionRecipe& recipe) {
  auto peak = gpu.dense_flops.find(product_format(recipe));
  if (peak == gpu.dense_flops.end()) peak = gpu.dense_flops.find("bf16");  // every GPU has it
  return {.tflops = peak->second / 1e12,
          .name = fmt::format("{} dense of {}", shown_format(peak->first), gpu.name)};
}

}  // namespace viaduct
