#include "checkpoint/tensor_source.h"

#include "base/error.h"
#include "base/nearest.h"
#include "checkpoint/strict_json.h"

namespace viaduct {

void TensorSource::fail_missing(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& info : tensors()) known.push_back(info.name);
  const auto nearest = nearest_name(name, known);
  fail<IoError>("{}: no tensor \"{}\" among its {}{}", where(), shown_name(name), known.size(),
                nearest ? fmt::format(" (nearest name: \"{}\")", shown_name(*nearest)) : "");
}

}  // namespace viaduct
