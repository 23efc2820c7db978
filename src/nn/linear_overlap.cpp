#include "nn/linear_overlap.h"

#include "nn/tensor_exchange.h"

namespace viaduct {
namespace {

/// The rows of the table of overlaps of a layer; weight gradients of row-parallel layers exchange
/// nothing.
struct Rows {
  OverlapGemm fprop, dgrad;
  std::optional<OverlapGemm> wgrad;
};

Rows rows_of(LinearRole role) {
  switch (role) {
    case LinearRole::qkv:
      return {OverlapGemm::qkv_fprop, OverlapGemm::qkv_dgrad, OverlapGemm::qkv_wgrad};
    case LinearRole::proj:
      return {OverlapGemm::proj_fprop, OverlapGemm::proj_dgrad, std::nullopt};
    case LinearRole::fc1:
      return {OverlapGemm::fc1_fprop, OverlapGemm::fc1_dgrad, OverlapGemm::fc1_wgrad};
    case LinearRole::fc2:
      break;
  }
  return {OverlapGemm::fc2_fprop, OverlapGemm::fc2_dgrad, std::nullopt};
}

}  // namespace

const GemmOverlap& LinearOverlap::forward(const RankContext& context) const {
  return context.settings.overlap[rows_of(role_).fprop];
}

const GemmOverlap& LinearOverlap::input_gradient(const RankContext& context) const {
  return context.settings.overlap[rows_of(role_).dgrad];
}

GemmOverlap LinearOverlap::weight_gradient(const RankContext& context) const {
  const auto row = rows_of(role_).wgrad;
  return row ? context.settings.overlap[*row] : GemmOverlap();
}

bool LinearOverlap::multiplies_all_rows(const RankContext& context) const {
  return !stream_is_cut(context) || forward(context).method != OverlapMethod::ring_exchange;
}

bool LinearOverlap::differentiates_all_rows(const RankContext& context) const {
  return !stream_is_cut(context) || input_gradient(context).method != OverlapMethod::ring_exchange;
}

bool LinearOverlap::gathers_beside_input_gradient(const RankContext& context) const {
  return overlaps_backward() && input_gradient(context).method == OverlapMethod::bulk;
}

bool LinearOverlap::makes_weight_gradient_early(const RankContext& context) const {
  const auto row = rows_of(role_).wgrad;
  return overlaps_backward() && row && context.settings.overlap[*row].method == OverlapMethod::bulk;
}

}  // namespace viaduct
