#pragma once
// All entries of the table of ops, for code that does the same with each of them.

#include "ops/table.h"

namespace viaduct {

/// The arguments of an entry's op: `decltype(args_of_entry(&OpTable::gemm))`. Never called.
template <class Args>
Args args_of_entry(OpEntry<Args> OpTable::*);

/// Calls `f.template operator()<&OpTable::NAME>()` for each entry.
template <class F>
void for_each_entry(F&& f) {
  using T = OpTable;
  const auto all = [&]<auto... kEntries>() {
    // Traits, the functions of forms, a switch that fills the place of a pointer, and entries of
    // one size.
    constexpr size_t kEntrySize = sizeof(OpEntry<CopyArgs>), kSwitch = alignof(OpEntry<CopyArgs>);
    static_assert(sizeof(T) == sizeof(Traits) + sizeof(T::gemm_forms) + sizeof(T::produced_forms) +
                                   kSwitch + sizeof...(kEntries) * kEntrySize,
                  "an op of the table is not in this list");
    (f.template operator()<kEntries>(), ...);
  };
  // clang-format off
  all.template operator()<
      &T::gemm, &T::convert_operand, &T::expand_operand, &T::largest_magnitude,
      &T::quantization_error, &T::square_magnitudes, &T::square_scales, &T::square_codes,
      &T::quantize_nf4, &T::quantize_absmax, &T::dequantize_nf4,
      &T::dequantize_blocks,
      &T::note_amax, &T::choose_amax, &T::column_sum, &T::bias_add, &T::norm_forward, &T::norm_backward,
      &T::activation_forward, &T::activation_backward, &T::xielu_forward, &T::xielu_backward, &T::rotary, &T::attention_forward,
      &T::attention_delta, &T::attention_backward, &T::attention_merge, &T::attention_sink,
      &T::attention_sink_backward, &T::repeat_heads, &T::sum_heads, &T::score_product,
      &T::score_softmax, &T::score_softmax_backward, &T::score_dropout, &T::score_bias, &T::score_bias_backward, &T::embedding_forward,
      &T::embedding_backward, &T::cross_entropy_forward, &T::cross_entropy_backward, &T::lse_share,
      &T::lse_join, &T::soft_cap, &T::soft_cap_backward, &T::row_largest, &T::row_exponential,
      &T::row_sum, &T::row_divide, &T::row_pick, &T::softmax_loss_backward, &T::add, &T::multiply,
      &T::copy, &T::sum_rows, &T::scale, &T::fill, &T::dropout, &T::random_normal,
      &T::reproducible_sum, &T::reproducible_sums, &T::widen_sum, &T::narrow_sum, &T::sum_value,
      &T::gradient_norm, &T::adamw, &T::momentum, &T::adafactor_limits, &T::adafactor_sums,
      &T::adafactor_moments, &T::adafactor_direction, &T::adafactor_update, &T::muon_momentum,
      &T::normalize, &T::muon_update, &T::expand_state, &T::store_state, &T::route,
      &T::route_backward, &T::router_loss, &T::count_choices, &T::load_error, &T::move_load_bias,
      &T::limit_experts, &T::sinkhorn_bias, &T::count_margins, &T::quantile_bias, &T::jitter,
      &T::random_rows, &T::sort_by_expert, &T::arrival_order, &T::combine_rows,
      &T::combine_rows_backward, &T::row_dots, &T::combine_weights_backward, &T::grouped_gemm,
      &T::expert_bias, &T::expert_bias_backward>();
  // clang-format on
}

}  // namespace viaduct
