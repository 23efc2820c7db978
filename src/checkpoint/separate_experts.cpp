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

bool is_gate_and_up(const LayerName& name, const Shape& shape) {
  return name.rest == "mlp.experts.gate_up_proj" && shape.rank() == 3 && shape[1] % 2 == 0;
}

bool is_down(const LayerName& name, const Shape& shape) {
  return name.rest == "mlp.experts.down_proj" && shape.rank() == 3;
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
  return std::any_of(stored.tensors().begin(), stored.tensors().end(), [](const TensorInfo& info) {
    const auto name = parse(info.name);
    return name && (is_gate_and_up(*name, info.shape) || is_down(*name, info.shape));
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
    if (name && is_gate_and_up(*name, info.shape)) {
      const int64_t rows = info.shape[1] / 2;
      add_experts(names.expert_gate, rows, 0);
      add_experts(names.expert_up, rows, rows);
    } else if (name && is_down(*name, info.shape)) {
      add_experts(names.expert_down, info.shape[1], 0);
    } else if (name && name->rest == "mlp.gate.weight") {
      slices.push_back({.info = {weight_of(names.router, name->layer), info.dtype, info.shape},
                        .stored = info.name});
    } else {
      slices.push_back({.info = info, .stored = info.name});
    }
  }
  return std::make_unique<ExpertSlices>(std::move(stored), slices);
}

}  // namespace viaduct
