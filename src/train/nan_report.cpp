#include "train/nan_report.h"

#include <cmath>

#include "train/host_values.h"

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

/// The first of the ranks' findings, with the rank that found it where there are several.
std::string first_found(Communicator& world, const std::string& mine) {
  const std::vector<std::string> texts = all_gather_texts(world, mine);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    return texts.size() == 1 ? texts[rank] : fmt::format("rank {}: {}", rank, texts[rank]);
  }
  return "";
}

std::string bad_weight(Engine& engine) {
  for (const Parameter* parameter : engine.store().parameters()) {
    if (!finite(engine.device(), engine.store().master(*parameter)))
      return "weight " + parameter->path;
  }
  return "";
}

std::string bad_output(Engine& engine, const HostBatch& rows) {
  RankContext context = engine.context(false, false);
  const Batch batch = engine.upload_part(rows);
  SavedStore nothing(false);
  std::string found;
  const auto look = [&](const std::string& name, const Tensor& hidden) {
    if (found.empty() && !finite(engine.device(), hidden)) found = "output of " + name;
  };
  engine.forward_stages(batch, [&](size_t chunk, const TensorSet& in) {
    return engine.model().hidden(context, chunk, batch, in, nothing, look);
  });
  return found;
}

std::string bad_gradient(Engine& engine) {
  const auto& parameters = engine.store().parameters();
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    if (!finite(engine.device(), engine.store().main_gradient(**parameter)))
      return "gradient of " + (*parameter)->path;
  }
  return "";
}

}  // namespace

std::string first_nonfinite(Engine& engine, const HostBatch& rows) {
  Communicator& world = *engine.groups().world;
  std::string found = first_found(world, bad_weight(engine));
  if (found.empty()) found = first_found(world, bad_output(engine, rows));
  if (found.empty()) found = first_found(world, bad_gradient(engine));
  return found;
}

}  // namespace viaduct
