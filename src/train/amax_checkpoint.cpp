#include "train/amax_checkpoint.h"

#include "base/error.h"

namespace viaduct {
namespace {

constexpr std::string_view kPrefix = "fp8_amax/";

}  // namespace

void stage_amax(Engine& engine, StagedCheckpoint& staged) {
  DelayedScales* scales = engine.delayed_scales();
  if (scales == nullptr) return;
  OpContext context = engine.context(false, false).ops;
  const Tensor all = scales->values(context);
  const ParallelGroups& groups = engine.groups();
  if (!all || groups.tp().rank() != 0 || groups.dp_cp().rank() != 0) return;
  const std::vector<std::string> names = scales->names();
  for (size_t i = 0; i < names.size(); ++i) {
    const Tensor values = all.slice(0, static_cast<int64_t>(i), 1).view(Shape{all.dim(1)});
    staged.entries.push_back(
        {whole_entry({std::string(kPrefix) + names[i], values.dtype(), values.shape()}), values,
         nullptr});
  }
}

void restore_amax(Engine& engine, const TensorSource& source) {
  DelayedScales* scales = engine.delayed_scales();
  if (scales == nullptr) return;
  const std::vector<std::string> names = scales->names();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = std::string(kPrefix) + names[i];
    const TensorInfo* info = source.find(name);
    if (info == nullptr) continue;
    VIADUCT_CHECK(IoError,
                  info->dtype == DType::f32 && info->shape.rank() == 1 && info->shape[0] > 1,
                  "{}: tensor \"{}\": expected f32 [1 + steps], found {} {}", source.where(), name,
                  dtype_name(info->dtype), to_string(info->shape));
    scales->restore(i, source.tensor(name));
  }
}

}  // namespace viaduct
