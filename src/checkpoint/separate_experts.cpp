#include "checkpoint/separate_experts.h"

#include <algorithm>
#include <optional>

#include "model/parameter_maker.h"

namespace viaduct {
namespace {

constexpr std::string_view kLayers = "layers.";

/// "….layers.3.REST".
struct LayerName {
  int64_t layer = 0;
  std::string rest;
};

std::optional<LayerName> parse(const std::string& name) {
  const size_t at = name.find(kLayers);
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = at + kLayers.size(), end = name.find('.', begin);
  if (end == std::string::npos || end == begin || end - begin > 6) return std::nullopt;
  const std::string number = name.substr(begin, end - begin);
  if (!std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return LayerName{std::stoll(number), name.substr(end + 1)};
}

/// What follows "layers.{}." in a pattern.
std::string rest_of(const std::string& pattern) {
  constexpr std::string_view kLayer = "layers.{}.";
  const size_t at = pattern.find(kLayer);
  return at == std::string::npos ? "" : pattern.substr(at + kLayer.size());
}

/// Whether a tensor has all experts of a layer: under transformers' name for `part`, in its block
/// or in the family's, or under the family's own.
bool has_all(const LayerName& name, const Shape& shape, const TensorNames& names,
             const std::string& part, const std::string& own) {
  if (shape.rank() != 3) return false;
  const std::string expert = rest_of(names.expert_gate);
  const std::string block = expert.substr(0, expert.find("{}"));  // "mlp.experts."
  return name.rest == "mlp.experts." + part || name.rest == block + part ||
         (!own.empty() && name.rest == rest_of(own) + ".weight");
}

bool is_gate_and_up(const LayerName& name, const Shape& shape, const TensorNames& names) {
  return has_all(name, shape, names, "gate_up_proj", names.experts_gate_up) && shape[1] % 2 == 0;
}

bool is_down(const LayerName& name, const Shape& shape, const TensorNames& names) {
  return has_all(name, shape, names, "down_proj", names.experts_down);
}

/// The bias of the router's choice, in any of transformers' places or in the family's.
bool is_load_bias(const LayerName& name, const TensorNames& names) {
  for (const char* known : {"mlp.e_score_correction_bias", "mlp.gate.e_score_correction_bias",
                            "mlp.gate.moe_statics.e_score_correction_bias"})
    if (name.rest == known) return true;
  return name.rest == rest_of(load_bias_name(names));
}

bool is_row(const Shape& shape) {
  return shape.rank() == 2 && shape[0] == 1;
}

bool is_router(const LayerName& name) {
  return name.rest == "mlp.gate.weight" || name.rest == "mlp.router.weight" ||
         name.rest == "block_sparse_moe.router.weight";
}

std::string weight_of(const std::string& pattern, int64_t layer) {
  return ParameterMaker::at(pattern, layer) + ".weight";
}

std::string weight_of(const std::string& pattern, int64_t layer, int64_t expert) {
  return ParameterMaker::at(ParameterMaker::at(pattern, layer), expert) + ".weight";
}

}  // namespace

bool experts_are_together(const TensorSource& stored, const TensorNames& names) {
  if (names.expert_gate.empty() || fuses_experts(names)) return false;
  return std::ranges::any_of(stored.tensors(), [&](const TensorInfo& info) {
    const auto name = parse(info.name);
    return name && (is_gate_and_up(*name, info.shape, names) || is_down(*name, info.shape, names) ||
                    (is_load_bias(*name, names) && is_row(info.shape)));
  });
}

std::unique_ptr<TensorSource> separate_experts(std::unique_ptr<TensorSource> stored,
                                               const TensorNames& names) {
  std::vector<ExpertSlice> slices;
  for (const TensorInfo& info : stored->tensors()) {
    const auto name = parse(info.name);
    const auto add_experts = [&](const std::string& pattern, int64_t rows, int64_t row) {
      for (int64_t e = 0; e < info.shape[0]; ++e)
        slices.push_back(
            {.info = {weight_of(pattern, name->layer, e), info.dtype, {rows, info.shape[2]}},
             .stored = info.name,
             .expert = e,
             .row = row});
    };
    if (name && is_gate_and_up(*name, info.shape, names)) {
      const int64_t rows = info.shape[1] / 2;
      add_experts(names.expert_gate, rows, 0);
      add_experts(names.expert_up, rows, rows);
    } else if (name && is_down(*name, info.shape, names)) {
      add_experts(names.expert_down, info.shape[1], 0);
    } else if (name && is_router(*name)) {
      slices.push_back({.info = {weight_of(names.router, name->layer), info.dtype, info.shape},
                        .stored = info.name});
    } else if (name && is_load_bias(*name, names)) {
      const bool row = is_row(info.shape);
      slices.push_back({.info = {ParameterMaker::at(load_bias_name(names), name->layer), info.dtype,
                                 row ? info.shape.without_first() : info.shape},
                        .stored = info.name,
                        .expert = row ? 0 : -1});
    } else {
      slices.push_back({.info = info, .stored = info.name});
    }
  }
  return std::make_unique<ExpertSlices>(std::move(stored), slices);
}

}  // namespace viaduct
