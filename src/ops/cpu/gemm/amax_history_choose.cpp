// Choice and launch of the ops of delayed scaling on the cpu: a few numbers for each tensor.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/cpu_ops.h"

namespace viaduct::cpu {
namespace {

Choice choose_note(const NoteAmaxArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "scalar";
  choice.cost.bytes_read = args.amax.bytes() + args.noted.bytes() + args.chosen.bytes();
  choice.cost.bytes_written = args.noted.bytes() + args.out.bytes();
  return choice;
}

void launch_note(OpContext&, const Choice&, const NoteAmaxArgs& args, void*) {
  for (int64_t i = 0; i < args.amax.dim(0); ++i) {
    const float amax = args.amax.data<float>()[i];
    float& noted = args.noted.data<float>()[i];
    noted = std::max(noted, amax);
    args.out.data<float>()[i] =
        std::isfinite(amax) ? args.chosen.data<float>()[i] : std::numeric_limits<float>::infinity();
  }
}

Choice choose_end(const ChooseAmaxArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "scalar";
  choice.cost.bytes_read = args.noted.bytes() + args.history.bytes() + args.chosen.bytes();
  choice.cost.bytes_written = choice.cost.bytes_read;
  return choice;
}

void launch_end(OpContext&, const Choice&, const ChooseAmaxArgs& args, void*) {
  const int64_t tensors = args.history.dim(0), steps = args.history.dim(1);
  float* const noted = args.noted.data<float>();
  float* const chosen = args.chosen.data<float>();
  for (int64_t i = 0; i < tensors; ++i) {
    float* const history = args.history.data<float>() + i * steps;
    std::copy_backward(history, history + steps - 1, history + steps);
    history[0] = std::isfinite(noted[i]) ? noted[i] : 0;
    noted[i] = 0;
    const float a = args.most_recent ? history[0] : *std::max_element(history, history + steps);
    if (a == 0) continue;
    const float scaled = std::ldexp(a, static_cast<int>(args.margin));
    chosen[i] = std::min(scaled, std::numeric_limits<float>::max());
  }
}

}  // namespace

void add_amax_history(OpTable& table, CpuIsa) {
  table.note_amax = {choose_note, launch_note};
  table.choose_amax = {choose_end, launch_end};
}

}  // namespace viaduct::cpu
