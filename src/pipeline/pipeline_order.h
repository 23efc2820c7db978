#pragma once
// `model.pipeline_schedule`: the order of a stage's forwards and backwards.

#include <array>
#include <string_view>

namespace viaduct {

enum class PipelineOrder {
  one_f_one_b,  // interleaved where a stage has several chunks
  gpipe,
  zero_bubble,
  dualpipe_v,
  dualpipe,  // refused: kDualPipeRefused
};
constexpr auto choice_names(PipelineOrder) {
  return std::to_array<std::string_view>(
      {"1f1b", "gpipe", "zero_bubble", "dualpipe_v", "dualpipe"});
}

}  // namespace viaduct
