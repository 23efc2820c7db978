#pragma once
// The values of settings that say how weights are updated.

#include <array>
#include <string_view>

namespace viaduct {

/// `optimizer.optimizer`.
enum class OptimizerKind { adam, sgd, lion, muon, adafactor };
constexpr auto choice_names(OptimizerKind) {
  return std::to_array<std::string_view>({"adam", "sgd", "lion", "muon", "adafactor"});
}

/// What Muon multiplies the orthogonal update of a matrix [out, in] by
/// (`optimizer.muon_scale_mode`).
enum class MuonScale {
  spectral,       // sqrt(max(out, in))
  unit_rms_norm,  // sqrt(out / in)
  shape_scaling,  // sqrt(max(1, out / in))
};
constexpr auto choice_names(MuonScale) {
  return std::to_array<std::string_view>({"spectral", "unit_rms_norm", "shape_scaling"});
}

}  // namespace viaduct
