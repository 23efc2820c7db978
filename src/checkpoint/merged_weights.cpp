#include "checkpoint/merged_weights.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "checkpoint/check_finite.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/peft_experts.h"
#include "checkpoint/round_tensor.h"
#include "model/adapter_trained.h"
#include "model/expert_adapters.h"
#include "model/family.h"
#include "model/parameter_maker.h"

namespace viaduct {
namespace {

/// row [columns] += factor · other.
void add_row(float* row, const float* other, float factor, int64_t columns) {
  for (int64_t i = 0; i < columns; ++i) row[i] += factor * other[i];
}

/// W [out, in] += scale · B [out, r] · A [r, in]; `transposed`: W is stored [in, out].
void add_terms(const Tensor& w, const Tensor& a, const Tensor& b, double scale, bool transposed) {
  const int64_t rank = a.dim(0), rows = w.dim(0), columns = w.dim(1);
  const auto s = static_cast<float>(scale);
  // The factor of each row's elements, and the rows that are added, [r, columns].
  Tensor added = a;
  if (transposed) {
    added = host_tensor(DType::f32, {rank, columns});
    for (int64_t o = 0; o < columns; ++o)
      for (int64_t j = 0; j < rank; ++j)
        added.data<float>()[j * columns + o] = b.data<float>()[o * rank + j];
  }
  const Tensor term = host_tensor(DType::f32, {1, columns});
  for (int64_t row = 0; row < rows; ++row) {
    std::fill_n(term.data<float>(), columns, 0.0f);
    for (int64_t j = 0; j < rank; ++j) {
      const float factor =
          transposed ? a.data<float>()[j * rows + row] : b.data<float>()[row * rank + j];
      add_row(term.data<float>(), added.data<float>() + j * columns, factor, columns);
    }
    add_row(w.data<float>() + row * columns, term.data<float>(), s, columns);
  }
}

/// Row i of W [out, in] becomes m_i · row / ‖row‖; `transposed`: W is stored [in, out].
void apply_magnitudes(const Tensor& w, const Tensor& m, bool transposed) {
  const int64_t rows = w.dim(0), columns = w.dim(1), features = m.dim(0);
  float* const values = w.data<float>();
  std::vector<double> squares(static_cast<size_t>(features), 0);
  const auto feature = [&](int64_t row, int64_t column) {
    return static_cast<size_t>(transposed ? column : row);
  };
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const double value = values[r * columns + c];
      squares[feature(r, c)] += value * value;
    }
  std::vector<float> factors(static_cast<size_t>(features));
  for (size_t i = 0; i < factors.size(); ++i) {
    const double norm = std::sqrt(squares[i]);
    factors[i] = norm > 0 ? static_cast<float>(m.data<float>()[i] / norm) : 0;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) values[r * columns + c] *= factors[feature(r, c)];
}

class MergedWeights final : public DerivedSource {
 public:
  MergedWeights(std::unique_ptr<TensorSource> base, PeftAdapter adapter, const ModelConfig& model,
                std::optional<DType> dtype)
      : DerivedSource(std::move(base)), adapter_(std::move(adapter)) {
    const TensorNames& names = model_family(model.family).names;
    infos_ = stored_->tensors();
    for (size_t i = 0; i < infos_.size(); ++i) places_[infos_[i].name] = i;
    const std::string together = joined_expert_name(names);
    const std::string end = together.empty() ? "" : together.substr(together.rfind('.'));
    for (const auto& [module, shape] : adapter_.settings.modules) {
      const std::string before = module.substr(0, module.rfind('.'));
      if (is_expert_module(module) && !end.empty() && module.ends_with(end)) {
        // Gate and up of an expert have one B, gate above up.
        const auto own = [&](const std::string& name) {
          return before + name.substr(name.rfind('.'));
        };
        const int64_t features = model.moe.feed_forward;
        add(own(names.expert_gate) + ".weight", {module, 0, features}, names, dtype);
        add(own(names.expert_up) + ".weight", {module, features, features}, names, dtype);
      } else if (is_expert_module(module) && fuses_experts(names)) {
        add(module, {module, 0, 0, true}, names, dtype);
      } else {
        add(module + ".weight", {module, 0, 0, names.transposed}, names, dtype);
      }
    }
    for (const TensorInfo& info : adapter_.tensors->tensors()) {
      const std::string name = without_adapter_prefix(info.name);
      const std::string module = module_of_parameter(name);
      if (!adapter_.settings.trained.contains(module)) continue;
      replace(stored_name(*stored_, name, names), info, dtype);
      if (module != names.token_embedding) continue;
      for (const std::string& copy : table_copies(model))
        if (stored_->contains(copy + ".weight")) replace(copy + ".weight", info, dtype);
    }
  }

  const TensorInfo* find(const std::string& name) const override {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &infos_[found->second];
  }

  Tensor tensor(const std::string& name) const override {
    if (const auto own = replaced_.find(name); own != replaced_.end()) {
      const Tensor values = in_fp32(adapter_.tensors->tensor(own->second));
      adapter_.tensors->check_read();
      Rounding rounding;
      return rounded_tensor(values, find(name)->dtype, name, rounding);
    }
    const auto found = modules_.find(name);
    if (found == modules_.end()) return stored_->tensor(name);
    const Changed& by = found->second;
    const auto factor = [&](const char* suffix) {
      return in_fp32(adapter_.tensors->tensor(kAdapterPrefix + by.module + suffix));
    };
    const Tensor weight = in_fp32(stored_->tensor(name)), b = factor(kAdapterB);
    add_terms(weight, factor(kAdapterA), by.rows > 0 ? b.slice(0, by.first_row, by.rows) : b,
              adapter_.settings.modules.at(by.module).scale(), by.transposed);
    if (adapter_.settings.magnitudes)
      apply_magnitudes(weight, factor(kAdapterMagnitude), by.transposed);
    adapter_.tensors->check_read();
    check_finite(weight, name, adapter_.tensors->where() + ": merged with the model");
    Rounding rounding;
    return rounded_tensor(weight, find(name)->dtype, name, rounding);
  }

 private:
  /// The module that changes a weight, and the rows of its B that do; 0: all.
  struct Changed {
    std::string module;
    int64_t first_row = 0, rows = 0;
    bool transposed = false;
  };

  void add(const std::string& weight, Changed by, const TensorNames& names,
           std::optional<DType> dtype) {
    const std::string name = stored_name(*stored_, weight, names);
    const auto found = places_.find(name);
    VIADUCT_CHECK(IoError, found != places_.end(), "{}: has no {}, which the adapter {} changes",
                  stored_->where(), name, adapter_.tensors->where());
    if (dtype) infos_[found->second].dtype = *dtype;
    modules_[name] = std::move(by);
  }

  /// The tensor `name` of the base is `by` of the adapter's files instead.
  void replace(const std::string& name, const TensorInfo& by, std::optional<DType> dtype) {
    const auto found = places_.find(name);
    VIADUCT_CHECK(IoError, found != places_.end() && infos_[found->second].shape == by.shape,
                  "{}: has {} {}, but the model's own is {}", adapter_.tensors->where(), by.name,
                  to_string(by.shape),
                  found == places_.end() ? "missing" : to_string(infos_[found->second].shape));
    if (dtype) infos_[found->second].dtype = *dtype;
    replaced_[name] = by.name;
  }

  PeftAdapter adapter_;
  std::unordered_map<std::string, size_t> places_;
  std::unordered_map<std::string, Changed> modules_;       // by the weight's name
  std::unordered_map<std::string, std::string> replaced_;  // tensors of the adapter's files
};

}  // namespace

std::unique_ptr<TensorSource> merge_adapter(std::unique_ptr<TensorSource> base, PeftAdapter adapter,
                                            const ModelConfig& model, std::optional<DType> dtype) {
  return std::make_unique<MergedWeights>(std::move(base), std::move(adapter), model, dtype);
}

}  // namespace viaduct
