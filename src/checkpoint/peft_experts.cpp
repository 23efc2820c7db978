#include "checkpoint/peft_experts.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/derived_source.h"
#include "checkpoint/layer_experts.h"
#include "checkpoint/peft_missing.h"
#include "checkpoint/round_tensor.h"
#include "model/expert_adapters.h"
#include "model/parameter_maker.h"

namespace viaduct {
namespace {

constexpr const char* kInner = ".base_layer";

/// One expert's factor in a tensor of all.
struct Slice {
  std::string stored;
  int64_t expert = 0, experts = 0;
  bool first = true;  // A
};

class SplitAdapter final : public DerivedSource {
 public:
  explicit SplitAdapter(std::unique_ptr<TensorSource> stored) : DerivedSource(std::move(stored)) {}

  void add(const TensorInfo& info) { add(info, {info.name}); }
  void add(const TensorInfo& info, Slice slice) {
    const auto [place, fresh] = places_.try_emplace(info.name, infos_.size());
    VIADUCT_CHECK(IoError, fresh, "{}: has {} twice: of one expert and of all", where(),
                  shown_name(info.name));
    infos_.push_back(info);
    slices_.push_back(std::move(slice));
  }

  const TensorInfo* find(const std::string& name) const override {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &infos_[found->second];
  }

  Tensor tensor(const std::string& name) const override {
    const auto found = places_.find(name);
    if (found == places_.end()) fail_missing(name);
    const Slice& slice = slices_[found->second];
    const Tensor stored = stored_->tensor(slice.stored);
    if (slice.experts == 0) return stored;
    const Shape& shape = infos_[found->second].shape;
    if (slice.first) return stored.slice(0, slice.expert * shape[0], shape[0]);
    const Tensor all = in_fp32(stored);
    const Tensor one = host_tensor(DType::f32, shape);
    for (int64_t o = 0; o < shape[0]; ++o)
      for (int64_t j = 0; j < shape[1]; ++j)
        one.data<float>()[o * shape[1] + j] =
            all.data<float>()[o * all.dim(1) + j * slice.experts + slice.expert];
    return one;
  }

 private:
  std::unordered_map<std::string, size_t> places_;
  std::vector<Slice> slices_;
};

/// Whether a target names the parameter: it is the end of its name.
bool targets_it(const std::vector<std::string>& targets, const std::string& parameter) {
  return std::ranges::any_of(targets, [&](const std::string& target) {
    return parameter == target || parameter.ends_with("." + target);
  });
}

/// What a tensor that PEFT has for a parameter of a layer is.
struct FusedName {
  const LayerExperts* layer = nullptr;
  bool routes = false;                // of the router, else of all experts
  bool inner = false, first = false;  // with base_layer; A
};

/// By name. A router's are among them where PEFT adapts it as a parameter.
std::unordered_map<std::string, FusedName> fused_names(const std::vector<LayerExperts>& layers,
                                                       const std::vector<std::string>& targets) {
  std::unordered_map<std::string, FusedName> names;
  for (const LayerExperts& layer : layers) {
    for (const bool first : {false, true}) {
      const std::string end = first ? kAdapterA : kAdapterB;
      for (const bool inner : {false, true})
        names[kAdapterPrefix + layer.fused + (inner ? kInner : "") + end] = {&layer, false, inner,
                                                                             first};
      if (targets_it(targets, layer.its_parameter))
        names[kAdapterPrefix + module_of_parameter(layer.its_parameter) + end] = {&layer, true,
                                                                                  false, first};
    }
  }
  return names;
}

/// The tensors of the parameters that the targets name, which PEFT has of every layer of a model
/// without multi-token prediction.
void check_parameters_there(const TensorSource& source, const std::vector<LayerExperts>& layers,
                            const std::vector<std::string>& targets) {
  std::vector<std::string> missing;
  const auto demand = [&](const std::string& module) {
    for (const char* end : {kAdapterA, kAdapterB})
      if (const std::string name = kAdapterPrefix + module + end; !source.contains(name))
        missing.push_back(name);
  };
  for (const LayerExperts& layer : layers) {
    if (layer.further) continue;
    const bool up = targets_it(targets, layer.up_parameter()),
               down = targets_it(targets, layer.down_parameter());
    if (up && down) demand(layer.fused + kInner);
    if (up || down) demand(layer.fused);
    if (targets_it(targets, layer.its_parameter)) demand(module_of_parameter(layer.its_parameter));
  }
  fail_if_missing(missing, source.where());
}

}  // namespace

SplitExperts split_expert_adapter(std::unique_ptr<TensorSource> stored,
                                  const std::vector<std::string>& targets,
                                  const ModelConfig& model) {
  const std::vector<LayerExperts> layers = layers_with_experts(model);
  const TensorSource& source = *stored;
  for (const std::string& target : targets) {
    const bool known = std::ranges::any_of(layers, [&](const LayerExperts& layer) {
      return targets_it({target}, layer.up_parameter()) ||
             targets_it({target}, layer.down_parameter()) ||
             targets_it({target}, layer.its_parameter);
    });
    VIADUCT_CHECK(ConfigError, known,
                  "{}: target_parameters = {} is not supported: expected mlp.experts.gate_up_proj "
                  "and mlp.experts.down_proj, or gate.weight, of a model with experts",
                  source.where(), shown_name(target));
  }
  check_parameters_there(source, layers, targets);
  auto split = std::make_unique<SplitAdapter>(std::move(stored));
  SplitExperts result;
  const int64_t experts = model.moe.experts;
  const auto names = fused_names(layers, targets);
  for (const TensorInfo& info : source.tensors()) {
    const auto known = names.find(info.name);
    if (known == names.end()) {
      split->add(info);
      continue;
    }
    const FusedName& fused = known->second;
    const LayerExperts& layer = *fused.layer;
    if (fused.routes) {
      result.parameters[layer.router] = layer.its_parameter;
      TensorInfo own = info;
      own.name = kAdapterPrefix + layer.router + (fused.first ? kAdapterA : kAdapterB);
      split->add(own, {info.name});
      continue;
    }
    const std::string prefix = kAdapterPrefix + layer.fused;
    // The inner of two is gate and up; of one, what the settings say.
    const bool both = source.contains(prefix + kInner + kAdapterA);
    const bool of_up = targets_it(targets, layer.up_parameter()),
               of_down = targets_it(targets, layer.down_parameter());
    VIADUCT_CHECK(IoError, both || of_up != of_down,
                  "{}: {} is of one parameter of the experts, but target_parameters of "
                  "adapter_config.json names none of {} and {}",
                  source.where(), shown_name(info.name), layer.up_parameter(),
                  layer.down_parameter());
    const bool up = both ? fused.inner : of_up;
    const std::string& module = up ? layer.together : layer.down;
    const int64_t in = up ? model.hidden : model.moe.feed_forward,
                  out = up ? layer.up_rows : model.hidden;
    const int64_t all = info.shape.rank() == 2 ? info.shape[fused.first ? 0 : 1] : 0;
    const int64_t width = info.shape.rank() == 2 ? info.shape[fused.first ? 1 : 0] : 0;
    VIADUCT_CHECK(IoError, all > 0 && all % experts == 0 && width == (fused.first ? in : out),
                  "{}: {} is {}, but {} experts of the model have [{}, {}]: expected {}: it is of "
                  "another model",
                  source.where(), shown_name(info.name), to_string(info.shape), experts, out, in,
                  fused.first ? fmt::format("[{} · r, {}]", experts, in)
                              : fmt::format("[{}, r · {}]", out, experts));
    const int64_t rank = all / experts;
    for (int64_t e = 0; e < experts; ++e) {
      const std::string own = ParameterMaker::at(module, e);
      result.parameters[own] = up ? layer.up_parameter() : layer.down_parameter();
      TensorInfo one;
      one.name = kAdapterPrefix + own + (fused.first ? kAdapterA : kAdapterB);
      one.dtype = fused.first ? info.dtype : DType::f32;
      one.shape = fused.first ? Shape{rank, in} : Shape{out, rank};
      split->add(one, {info.name, e, experts, fused.first});
    }
  }
  result.tensors = std::move(split);
  return result;
}

namespace {

/// A piece of the joined matrices: of a module, at these rows of A_e and B_e.
struct Block {
  std::string module;  // "{}" is the expert
  int64_t first_rank = 0, first_row = 0;
};

void fuse(const std::vector<Block>& blocks, const std::string& to, int64_t experts, int64_t rank,
          int64_t out, FunctionRef<Tensor(const std::string&)> read, FusedExperts& fused) {
  Tensor all_a, all_b;
  for (const Block& block : blocks) {
    for (int64_t e = 0; e < experts; ++e) {
      const std::string name = kAdapterPrefix + ParameterMaker::at(block.module, e);
      const Tensor a = read(name + kAdapterA), b = read(name + kAdapterB);
      if (a) {
        const int64_t in = a.dim(1);
        if (!all_a) all_a = host_tensor(DType::f32, {experts * rank, in});
        const Tensor values = in_fp32(a);
        std::copy_n(values.data<float>(), values.elements(),
                    all_a.data<float>() + (e * rank + block.first_rank) * in);
      }
      if (!b) continue;
      if (!all_b) all_b = host_tensor(DType::f32, {out, rank * experts});
      const Tensor values = in_fp32(b);
      for (int64_t o = 0; o < b.dim(0); ++o)
        for (int64_t j = 0; j < b.dim(1); ++j)
          all_b.data<float>()[(block.first_row + o) * rank * experts +
                              (block.first_rank + j) * experts + e] =
              values.data<float>()[o * b.dim(1) + j];
    }
  }
  if (all_a) fused.tensors[kAdapterPrefix + to + kAdapterA] = all_a;
  if (all_b) fused.tensors[kAdapterPrefix + to + kAdapterB] = all_b;
}

/// The adapter that the experts of a layer have under this name; null if the first has none.
const AdapterShape* shape_of_all(const AdapterSettings& settings, const std::string& module) {
  return module.empty() ? nullptr : settings.of(ParameterMaker::at(module, 0));
}

bool same_shape(const AdapterShape* one, const AdapterShape* other) {
  return (one == nullptr) == (other == nullptr) && (one == nullptr || *one == *other);
}

}  // namespace

std::string experts_apart(const AdapterSettings& settings, const ModelConfig& model) {
  for (const LayerExperts& layer : layers_with_experts(model)) {
    for (const std::string& module : {layer.together, layer.gate, layer.up, layer.down}) {
      const AdapterShape* first = shape_of_all(settings, module);
      for (int64_t e = 1; !module.empty() && e < model.moe.experts; ++e)
        if (!same_shape(first, settings.of(ParameterMaker::at(module, e))))
          return fmt::format(
              "PEFT holds the experts of a layer together, but {} and {} have different adapters",
              ParameterMaker::at(module, 0), ParameterMaker::at(module, e));
    }
    if (layer.gate.empty()) continue;
    if (!same_shape(shape_of_all(settings, layer.gate), shape_of_all(settings, layer.up)))
      return fmt::format(
          "PEFT holds {} and {} of experts together: expected both with one rank and alpha",
          layer.gate, layer.up);
  }
  return "";
}

FusedExperts fuse_expert_adapters(const AdapterSettings& settings, const ModelConfig& model,
                                  FunctionRef<Tensor(const std::string&)> read) {
  const std::string apart = experts_apart(settings, model);
  VIADUCT_CHECK(ConfigError, apart.empty(), "adapter: {}", apart);
  FusedExperts fused;
  const int64_t experts = model.moe.experts, features = model.moe.feed_forward;
  for (const LayerExperts& layer : layers_with_experts(model)) {
    const AdapterShape* together = shape_of_all(settings, layer.together);
    const AdapterShape* gate = shape_of_all(settings, layer.gate);
    const AdapterShape* down = shape_of_all(settings, layer.down);
    if (together != nullptr || gate != nullptr) {
      AdapterShape shape = together != nullptr ? *together : *gate;
      std::vector<Block> blocks{{layer.together}};
      if (gate != nullptr) {
        blocks = {{layer.gate}, {layer.up, gate->rank, features}};
        shape.rank *= 2;
        shape.alpha *= shape.rank_stabilized ? std::sqrt(2.0) : 2.0;  // the scale stays
      }
      fused.parameters[layer.up_parameter()] = shape;
      fuse(blocks, layer.fused + (down != nullptr ? kInner : ""), experts, shape.rank,
           layer.up_rows, read, fused);
    }
    if (down == nullptr) continue;
    fused.parameters[layer.down_parameter()] = *down;
    fuse({{layer.down}}, layer.fused, experts, down->rank, model.hidden, read, fused);
  }
  return fused;
}

}  // namespace viaduct
