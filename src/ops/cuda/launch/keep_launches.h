#pragma once
// Launches that the device may keep, to make them together later (device/launch_groups.h).

#include "device/cuda/cuda_device.h"
#include "ops/cuda/launch/note_arguments.h"
#include "ops/table.h"
#include "ops/unowned_args.h"

namespace viaduct::cuda {

/// Makes a launch of the table that `kDirect` returns, or gives it to the device, which makes it
/// later.
template <auto kEntry, const OpTable& (*kDirect)()>
void launch_or_keep(OpContext& context, const Choice& choice,
                    const decltype(args_of_entry(kEntry))& args, void* workspace) {
  const auto launch = (kDirect().*kEntry).launch;
  auto* const device = dynamic_cast<CudaDevice*>(&context.device);
  KeptLaunches* const kept = device == nullptr ? nullptr : device->kept_launches();
  if (kept == nullptr) return launch(context, choice, args, workspace);
  const bool keeps = context.stream == kComputeStream;
  if (StepRecord* const record = context.device.record()) record->set_in_graph(keeps);
  if (!keeps) return launch(context, choice, args, workspace);
  kept->note(launch);
  kept->note_text(choice.kernel);
  kept->note(choice.variant);
  kept->note(workspace);
  note_arguments(*kept, args);
  kept->add(choice.launches, [launch, context, choice, args = unowned_args(args),
                              workspace]() mutable { launch(context, choice, args, workspace); });
}

/// `table`, whose launches are those of `kDirect`'s table, made now or later as the device says.
template <const OpTable& (*kDirect)()>
OpTable keep_launches(OpTable table) {
  for_each_entry([&]<auto kEntry>() {
    if ((kDirect().*kEntry).launch != nullptr)
      (table.*kEntry).launch = launch_or_keep<kEntry, kDirect>;
  });
  return table;
}

}  // namespace viaduct::cuda
