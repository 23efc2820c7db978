#include "nn/gemm_overlap_presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"

namespace viaduct {
namespace {

// {name, H, tp, {bulk multiprocessors}, {pipeline multiprocessors, 0: ring}, fp8_buf, aggregate}
constexpr OverlapPreset kPresets[] = {
    {"userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192", 8192, 4, {4, 24, 2, 4}, {24, 16}},
    {"userbuffers_fp8_h100_h8192_tp4_mbs1_seqlen8192", 8192, 4, {4, 24, 2, 4}, {0, 0}},
    {"userbuffers_bf16_b200_h8192_tp2_mbs1_seqlen8192", 8192, 2, {16, 24, 2, 4}, {32, 16}},
    {"userbuffers_fp8_b200_h8192_tp2_mbs1_seqlen8192", 8192, 2, {4, 24, 2, 4}, {0, 0}},
    {"userbuffers_bf16_h100_h16384_tp8_cp2_mbs1_seqlen8192", 16384, 8, {2, 24, 2, 2}, {24, 8}},
    {"userbuffers_fp8_h100_h16384_tp8_cp2_mbs1_seqlen8192", 16384, 8, {2, 24, 2, 2}, {0, 0}},
    {"userbuffers_bf16_b200_h16384_tp4_cp2_mbs1_seqlen8192", 16384, 4, {8, 24, 2, 2}, {32, 8}},
    {"userbuffers_fp8_b200_h16384_tp4_cp2_mbs1_seqlen8192", 16384, 4, {8, 32, 2, 8}, {0, 0}},
    {"userbuffers_fp8_h100_h8192_tp2_mbs1_seqlen4096_lora", 8192, 2, {2, 0, -1, 0}, {0, 0}, true},
    {"userbuffers_fp8_h100_h16384_tp4_mbs1_seqlen2048_lora",
     16384,
     4,
     {2, 0, -1, 0},
     {32, 16},
     true,
     true},
    {"userbuffers_bf16_h100_h6144_tp2_mbs2_seqlen2048", 6144, 2, {8, 16, 4, 16}, {16, 24}},
    {"userbuffers_fp8_h100_h6144_tp2_mbs2_seqlen2048", 6144, 2, {8, 16, 4, 16}, {16, 24}, true},
    {"userbuffers_bf16_h100_h12288_tp4_mbs1_seqlen2048", 12288, 4, {4, 4, 2, 4}, {24, 0}},
    {"userbuffers_fp8_h100_h12288_tp4_mbs1_seqlen2048", 12288, 4, {4, 4, 2, 4}, {0, 0}},
    {"userbuffers_bf16_b200_h12288_tp4_mbs1_seqlen2048", 12288, 4, {4, 16, 2, 8}, {0, 0}},
    {"userbuffers_fp8_b200_h12288_tp4_mbs1_seqlen2048", 12288, 4, {4, 16, 2, 8}, {0, 0}},
    {"userbuffers_bf16_b200_h6144_tp2_mbs1_seqlen4096", 6144, 2, {8, 32, 2, 8}, {0, 0}},
    {"userbuffers_bf16_b200_h18432_tp8_mbs1_seqlen4096", 18432, 8, {8, 32, 2, 8}, {0, 24}},
    {"userbuffers_fp8_b200_h18432_tp8_mbs1_seqlen4096", 18432, 8, {8, 32, 2, 8}, {0, 0}},
};
constexpr int kSplits = 4;            // of every pipeline
constexpr int kPipelineOfDgrad = 16;  // multiprocessors

std::string pipeline(int multiprocessors, bool fp8_buf) {
  return fmt::format(
      "{{method: pipeline, num_sm: {}, cga_size: 2, num_splits: {}, set_sm_margin: true{}}}",
      multiprocessors, kSplits, fp8_buf ? ", fp8_buf: true" : "");
}

}  // namespace

Value OverlapPreset::table() const {
  std::string text = "{";
  const auto add = [&](std::string_view gemm, const std::string& row) {
    text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", gemm, row);
  };
  constexpr std::string_view kBulk[] = {"qkv_dgrad", "qkv_wgrad", "fc1_dgrad", "fc1_wgrad"};
  for (size_t i = 0; i < std::size(kBulk); ++i) {
    if (bulk[i] < 0) add(kBulk[i], pipeline(kPipelineOfDgrad, fp8_buf));
    if (bulk[i] > 0)
      add(kBulk[i], fmt::format("{{num_sm: {}, cga_size: 2, set_sm_margin: false}}", bulk[i]));
  }
  for (const char* gather : {"qkv_fprop", "proj_dgrad", "fc1_fprop", "fc2_dgrad"})
    add(gather, fmt::format("{{aggregate: {}}}", aggregate));
  constexpr std::string_view kScatter[] = {"proj_fprop", "fc2_fprop"};
  for (size_t i = 0; i < std::size(kScatter); ++i) {
    add(kScatter[i], scatter[i] > 0
                         ? pipeline(scatter[i], fp8_buf)
                         : fmt::format("{{method: ring_exchange, aggregate: false, num_sm: 1, "
                                       "set_sm_margin: true{}}}",
                                       fp8_buf ? ", fp8_buf: true" : ""));
  }
  return parse_yaml(text + "}", std::string(name));
}

std::vector<std::string> overlap_preset_names() {
  std::vector<std::string> names;
  for (const OverlapPreset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

const OverlapPreset* overlap_preset(std::string_view name, Problems& problems,
                                    std::vector<std::string>* notes) {
  const auto found = std::find_if(std::begin(kPresets), std::end(kPresets),
                                  [&](const OverlapPreset& preset) { return preset.name == name; });
  if (found == std::end(kPresets)) {
    const auto names = overlap_preset_names();
    const auto near = nearest_name(std::string(name), names);
    problems.add("comm_overlap.tp_comm_overlap_cfg: no table is called '{}'{}", name.substr(0, 60),
                 near ? fmt::format(", did you mean '{}'?", *near)
                      : fmt::format("; there are {}", fmt::join(names, ", ")));
    return nullptr;
  }
  if (notes != nullptr) {
    notes->push_back(fmt::format(
        "comm_overlap.tp_comm_overlap_cfg={}: num_sm, cga_size and set_sm_margin of the table have "
        "no effect: they are told to kernels of GPUs",
        name));
  }
  return found;
}

}  // namespace viaduct
