#pragma once
// What the output of a dry run says about the layout: the groups of ranks, and which stage has
// which layers.

#include <string>

#include "base/json.h"
#include "comm/dist_config.h"
#include "comm/mesh.h"
#include "pipeline/parallelism.h"

namespace viaduct::cli {

/// "tp 2, cp 1, dp 4, pp 1", with experts also ", ep 2, tp of experts 1".
std::string mesh_text(const Mesh& mesh);

void print_groups(const Mesh& mesh, const DistConfig& dist);
void print_layers(const Parallelism& parallelism);

nlohmann::ordered_json groups_json(const Mesh& mesh);
nlohmann::ordered_json layers_json(const Parallelism& parallelism);

}  // namespace viaduct::cli
