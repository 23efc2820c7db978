#include "checkpoint/text_half_weights.h"

#include <map>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/expert_slices.h"
#include "model/text_half.h"

namespace viaduct {

std::unique_ptr<TensorSource> text_half_weights(std::unique_ptr<TensorSource> stored) {
  std::vector<ExpertSlice> renamed;
  std::map<std::string, std::string> stored_as;
  for (const TensorInfo& info : stored->tensors()) {
    const auto name = text_half_name(info.name);
    if (!name) continue;
    const auto [at, fresh] = stored_as.try_emplace(*name, info.name);
    VIADUCT_CHECK(IoError, fresh, "{}: \"{}\" and \"{}\" are the same tensor of the text model",
                  stored->where(), shown_name(at->second), shown_name(info.name));
    renamed.push_back({.info = {*name, info.dtype, info.shape}, .stored = info.name});
  }
  return std::make_unique<ExpertSlices>(std::move(stored), renamed);
}

}  // namespace viaduct
