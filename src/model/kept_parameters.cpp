#include "model/kept_parameters.h"

namespace viaduct {

std::vector<const Parameter*> KeptParameters::parameters() const {
  std::vector<const Parameter*> list;
  for (const auto& segment : segments_) {
    const auto own = segment->parameters();
    list.insert(list.end(), own.begin(), own.end());
  }
  for (const Norm& norm : norms_) norm.append_parameters(list);
  for (const auto& parameter : others_) list.push_back(parameter.get());
  return list;
}

}  // namespace viaduct
