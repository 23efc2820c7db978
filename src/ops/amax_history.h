#pragma once
// Delayed scaling: operands of a step get scales from magnitudes of earlier steps, so that no
// operand waits for a maximum over itself (Micikevicius et al. 2022, "FP8 formats for deep
// learning"; Transformer Engine, "DelayedScaling"). A scale is made from an amax
// (tensor/operand_scale.h): the one *chosen* for this step. The magnitudes of the step's operands
// are *noted* (recorded), and the end of the step chooses the next amax.

#include <cstdint>

#include "ops/dispatch.h"
#include "tensor/tensor.h"

namespace viaduct {

/// noted = max(noted, amax), and out = chosen; but infinity where amax is, so that the scale shows
/// that an element is not finite. All f32 [N], number by number, for N operands.
struct NoteAmaxArgs {
  Tensor amax;  // of an operand, as `largest_magnitude` has it
  Tensor noted, chosen, out;
};

void note_amax(OpContext& context, const NoteAmaxArgs& args);

/// The end of a step for N tensors, with the magnitudes of the last L steps:
///
///   history [N, L] shifts by one step; its first column = noted, or 0 where that is not finite
///   a = the first column (most_recent), or the largest of the row
///   chosen [N] = 2^margin · a; unchanged where a is 0
///   noted [N] = 0
///
/// All are f32, contiguous. The scale is then 2^margin · a / (largest element), Transformer
/// Engine's 1 / (fp8_max / amax / 2^margin). A magnitude that is not finite changes no scale, as
/// there; it is not kept in the history either, where it would hold all scales of L steps.
struct ChooseAmaxArgs {
  Tensor noted, history, chosen;
  bool most_recent = true;
  int64_t margin = 0;
};

void choose_amax(OpContext& context, const ChooseAmaxArgs& args);

}  // namespace viaduct
