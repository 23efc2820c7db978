#include "train/nan_report.h"

#include <cmath>

namespace viaduct {
namespace {

bool finite(Device& device, const Tensor& tensor) {
  Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  bool all = true;
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    const auto* values = host.data<decltype(zero)>();
    for (int64_t i = 0; i < host.elements(); ++i)
      all = all && std::isfinite(static_cast<float>(values[i]));
  });
  return all;
}

}  // namespace

std::string first_nonfinite(Engine& engine, const HostBatch& rows) {
  Device& device = engine.device();
  const auto& parameters = engine.store().parameters();
  for (const Parameter* parameter : parameters) {
    if (!finite(device, engine.store().master(*parameter))) return "weight " + parameter->path;
  }
  RankContext context = engine.context(false, false);
  const Batch batch =
      upload(device, rows, engine.model().config().vocabulary, engine.settings().positions);
  SavedStore nothing(false);
  std::string found;
  engine.model().hidden(context, 0, batch, {}, nothing,
                        [&](const std::string& name, const Tensor& hidden) {
                          if (found.empty() && !finite(device, hidden)) found = "output of " + name;
                        });
  if (!found.empty()) return found;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    if (!finite(device, engine.store().main_gradient(**parameter)))
      return "gradient of " + (*parameter)->path;
  }
  return "";
}

}  // namespace viaduct
