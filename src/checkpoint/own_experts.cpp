#include "checkpoint/own_experts.h"

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/expert_slices.h"
#include "checkpoint/parameter_io.h"
#include "model/family.h"
#include "model/parameter_maker.h"

namespace viaduct {
namespace {

/// A tensor of the export and those that it is made of.
struct OwnForm {
  std::string name;
  std::vector<std::string> parts;
  int64_t experts = 1;  // its first dim; the parts of an expert are one above the other
};

std::string weight_at(const std::string& pattern, int64_t layer, int64_t expert) {
  return ParameterMaker::at(ParameterMaker::at(pattern, layer), expert) + ".weight";
}

std::vector<OwnForm> own_forms(const ModelConfig& model, const TensorNames& names) {
  std::vector<OwnForm> forms;
  if (!model.moe.any()) return forms;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    if (!model.moe.routes(layer)) continue;
    const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
    if (names.load_bias_row && model.moe.load_bias)
      forms.push_back({at(load_bias_name(names)), {at(load_bias_name(names))}});
    if (names.experts_gate_up.empty()) continue;
    OwnForm up{at(names.experts_gate_up) + ".weight", {}, model.moe.experts},
        down{at(names.experts_down) + ".weight", {}, model.moe.experts};
    for (int64_t e = 0; e < model.moe.experts; ++e) {
      if (model.gated) up.parts.push_back(weight_at(names.expert_gate, layer, e));
      up.parts.push_back(weight_at(names.expert_up, layer, e));
      down.parts.push_back(weight_at(names.expert_down, layer, e));
    }
    forms.push_back(std::move(up));
    forms.push_back(std::move(down));
  }
  return forms;
}

}  // namespace

OwnExperts::OwnExperts(const TensorSource& single, const ModelConfig& model)
    : JoinedTensors(single) {
  const TensorNames& names = model_family(model.family).names;
  std::unordered_map<std::string, size_t> form_of;  // by the name of a part
  std::vector<OwnForm> forms = own_forms(model, names);
  for (size_t i = 0; i < forms.size(); ++i) {
    for (std::string& part : forms[i].parts) {
      part = stored_name(single, part, names);
      form_of.emplace(part, i);
    }
  }
  for (const TensorInfo& info : single.tensors()) {
    const auto found = form_of.find(info.name);
    if (found == form_of.end()) {
      joined_.emplace(info.name, Joined{infos_.size(), {}});
      infos_.push_back(info);
      continue;
    }
    const OwnForm& form = forms[found->second];
    if (joined_.contains(form.name)) continue;  // of an expert before
    int64_t rows = 0;
    for (const std::string& part : form.parts) {
      const TensorInfo* one = single.find(part);
      VIADUCT_CHECK(IoError, one != nullptr, "{}: \"{}\" is missing", where(), shown_name(part));
      VIADUCT_CHECK(
          IoError,
          one->dtype == info.dtype && one->shape.without_first() == info.shape.without_first(),
          "{}: tensor \"{}\" is {} {}, that of another expert {} {}", where(), shown_name(part),
          dtype_name(one->dtype), to_string(one->shape), dtype_name(info.dtype),
          to_string(info.shape));
      rows += one->shape[0];
    }
    joined_.emplace(form.name, Joined{infos_.size(), form.parts});
    infos_.push_back(
        {form.name, info.dtype,
         with_first(form.experts, with_first(rows / form.experts, info.shape.without_first()))});
  }
}

}  // namespace viaduct
