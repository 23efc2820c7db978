#pragma once
// `checkpoint.dist_ckpt_strictness`: what is an error where a source of weights does not fit a run.

#include <array>
#include <string_view>

namespace viaduct {

/// By Megatron's names: a tensor that the run has and the source lacks is unexpected, `_all` also
/// covers tensors that the run does not use.
enum class Strictness {
  assume_ok_unexpected,  // as raise_unexpected, but found when it is read
  log_unexpected,
  log_all,
  raise_unexpected,
  raise_all,
};
constexpr auto choice_names(Strictness) {
  return std::to_array<std::string_view>(
      {"assume_ok_unexpected", "log_unexpected", "log_all", "raise_unexpected", "raise_all"});
}

}  // namespace viaduct
