#pragma once
// Models by name: sizes of published models (benchmarks/plan/models.csv, which the binary holds).

#include <string>
#include <vector>

namespace viaduct {

/// Names of the models that the trainer has families for, as far as the table describes them.
std::vector<std::string> catalog_models();

/// A model's sizes as overrides of section `model`, dropout off. ConfigError for unknown names
/// (with the nearest), and for models of the catalog that it describes too roughly to be built, or
/// that the trainer has no layers for (state-space layers, sparse attention).
std::vector<std::string> catalog_model(const std::string& name);

}  // namespace viaduct
