#include "nn/quantization_log.h"

#include <algorithm>

#include "ops/elementwise.h"

namespace viaduct {
namespace {

constexpr int64_t kRowsOfPage = 4096;  // 320 KiB

/// Whether there is something to measure.
bool is_measured(const OperandForm& form, const Tensor& matrix) {
  return form.element && matrix.elements() > 0;
}

/// A copy on the host of sums, one read in the record. On sim they are zeros.
Tensor read_sums(Device& device, const Tensor& sums) {
  if (device.record() != nullptr)
    device.record()->host_read("quantization errors", device.record_event(kComputeStream).position);
  Tensor host = host_tensor(DType::f64, sums.shape());
  if (device.executes())
    device.copy_to_host(sums, host);
  else
    std::fill_n(host.data<double>(), host.elements(), 0.0);
  return host;
}

}  // namespace

bool is_worse(const QuantizationError& a, const QuantizationError& b) {
  const bool a_bad = a.not_finite > 0, b_bad = b.not_finite > 0;
  if (a_bad != b_bad) return a_bad;
  return a.relative_error() > b.relative_error();
}

void MeasuredOperand::merge(const MeasuredOperand& other) {
  all.merge(other.all);
  if (other.worst_expert < 0) return;
  if (worst_expert >= 0 && !is_worse(other.worst, worst)) return;
  worst_expert = other.worst_expert;
  worst = other.worst;
}

void QuantizationLog::begin_step(OpContext& context) {
  for (const Tensor& page : pages_) fill(context, {page, 0});
  for (auto& [name, place] : places_) place.used = false;
}

bool QuantizationLog::has(const std::string& tensor) const {
  const auto found = places_.find(tensor);
  return found != places_.end() && found->second.used;
}

Tensor QuantizationLog::sums(OpContext& context, const std::string& tensor, int64_t count,
                             int64_t first_expert) {
  const auto [found, is_new] = places_.try_emplace(tensor);
  Place& place = found->second;
  if (is_new) {
    if (pages_.empty() || taken_ + count > pages_.back().dim(0)) {
      pages_.push_back(context.allocate(DType::f64, {std::max(count, kRowsOfPage), kErrorSums},
                                        MemoryTag::other));
      fill(context, {pages_.back(), 0});
      taken_ = 0;
    }
    place = {pages_.size() - 1, taken_, count, first_expert};
    taken_ += count;
  }
  place.used = true;
  return pages_[place.page].slice(0, place.begin, place.count);
}

void QuantizationLog::add(OpContext& context, const std::string& tensor, const Tensor& matrix,
                          const OperandForm& form, const Tensor& amax,
                          const StochasticRounding& rounding) {
  if (!is_measured(form, matrix)) return;
  QuantizationErrorArgs args{.matrix = matrix, .form = form};
  args.sums = sums(context, tensor, 1, -1);
  if (has_matrix_scale(form)) args.amax = amax.slice(0, 0, 1);
  if (form.element == DType::e2m1x2) args.rounding = rounding;
  quantization_error(context, args);
}

void QuantizationLog::add_weight(OpContext& context, const std::string& tensor,
                                 const Tensor& matrix, const Operand& operand) {
  if (!is_measured(operand.form(), matrix)) return;
  quantization_error(context,
                     {.matrix = matrix, .operand = operand, .sums = sums(context, tensor, 1, -1)});
}

void QuantizationLog::add_rows(OpContext& context, const std::string& tensor,
                               const GroupedGemmArgs& args, int64_t first) {
  const OperandForm form = expert_forms(args).a;
  if (!is_measured(form, args.a)) return;
  QuantizationErrorArgs measured{.matrix = args.a, .form = form};
  measured.sums = sums(context, tensor, args.offsets.dim(0) - 1, first);
  measured.offsets = args.offsets;
  measured.amax = args.a_amax;
  measured.rounding = args.rounding;
  quantization_error(context, measured);
}

void QuantizationLog::add_weights(OpContext& context, const std::string& tensor,
                                  const Tensor& weights, const Operand& operands, int64_t first) {
  if (!is_measured(operands.form(), weights)) return;
  quantization_error(context, {.matrix = weights,
                               .operand = operands,
                               .sums = sums(context, tensor, operands.count(), first)});
}

QuantizationLog::Tensors QuantizationLog::read(Device& device) const {
  std::vector<Tensor> pages;
  for (const Tensor& page : pages_) pages.push_back(read_sums(device, page));
  Tensors tensors;
  for (const auto& [name, place] : places_) {
    if (!place.used) continue;
    MeasuredOperand& of = tensors[name];
    for (int64_t i = 0; i < place.count; ++i) {
      const QuantizationError error =
          error_of_sums(pages[place.page].data<double>() + (place.begin + i) * kErrorSums);
      if (place.first_expert < 0)
        of.all = error;
      else if (error.elements > 0)
        of.merge({error, place.first_expert + i, error});
    }
  }
  return tensors;
}

}  // namespace viaduct
