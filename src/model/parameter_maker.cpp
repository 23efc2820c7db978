#include "model/parameter_maker.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/part_list.h"

namespace viaduct {
namespace {

/// A tensor rank's part of something that is cut into equal units.
struct Cut {
  int64_t first = 0, count = 0;  // units
  int64_t replicas = 1;          // ranks that hold the same units
  bool owned = true;
};

Cut cut_units(int64_t units, const ModelPlace& place) {
  if (units >= place.tp) {
    const int64_t count = units / place.tp;
    return {place.tp_rank * count, count, 1, true};
  }
  const int64_t replicas = place.tp / units;
  return {place.tp_rank / replicas, 1, replicas, place.tp_rank % replicas == 0};
}

/// Which ranks hold what the part's rank holds.
void set_copies(const Cut& cut, Part& part) {
  part.owned = cut.owned;
  if (cut.replicas == 1) return;
  part.replicas = Replicas::tp_kv;
  part.replica_gradient = ReplicaGradient::partial;  // each sees its own query heads
}

/// In the format of frozen weights, where it has one.
void store_frozen(Parameter& p, const AdapterSettings& adapters) {
  if (adapters.base_format != BaseFormat::blocks) {
    p.stored = adapters.base_format;
    return;
  }
  for (const Part& part : p.parts) {
    const auto type = adapters.blocks.find(part.name);
    if (type == adapters.blocks.end()) return p.block_types.clear();
    p.block_types.push_back(type->second);
  }
  p.stored = BaseFormat::blocks;
}

}  // namespace

ParameterPointer ParameterMaker::share(Parameter p, std::string name) const {
  for (const Part& part : p.parts) {
    VIADUCT_CHECK(ConfigError, !part.name.empty() && part.name.front() != '.',
                  "model family {} has no name for the parameter {}: it could not be saved",
                  config_.family, p.path);
  }
  if (frozen_) p.trained = false;
  const AdapterSettings& adapters = settings_.adapters;
  if (!adapters.freezes() || p.adapter) return std::make_shared<const Parameter>(std::move(p));
  if (name.empty() && !p.parts.empty()) name = p.parts.front().name;
  p.trained = !frozen_ && adapters.trained.contains(module_of_parameter(name));
  const std::optional<BaseFormat>& format = adapters.base_format;
  const bool same = format == BaseFormat::bf16 && settings_.precision.weight == DType::bf16;
  const bool of_experts = p.experts.any() && p.shape.rank() == 2;  // not their biases
  if (!p.trained && (p.multiplied || of_experts) && !p.vocabulary && !same)
    store_frozen(p, adapters);
  p.decoupled_rate = false;  // B has it
  // PEFT's files have what trains, under their names.
  for (Part& part : p.parts)
    if (p.trained) part.name = kAdapterPrefix + part.name;
  return std::make_shared<const Parameter>(std::move(p));
}

ReplicaGradient stream_gradient(const LayerSettings& settings) {
  return settings.sequence_parallel ? ReplicaGradient::partial : ReplicaGradient::equal;
}

std::string ParameterMaker::at(const std::string& pattern, int64_t layer) {
  const size_t place = pattern.find("{}");
  if (place == std::string::npos) return pattern;
  return pattern.substr(0, place) + std::to_string(layer) + pattern.substr(place + 2);
}

ParameterMaker::VocabularyRun ParameterMaker::vocabulary_run(int64_t rows) const {
  const int64_t multiple = place_.vocabulary_multiple * place_.tp;
  const int64_t here = (rows + multiple - 1) / multiple * multiple / place_.tp;
  const int64_t first = here * place_.tp_rank;
  return {first, here, std::clamp<int64_t>(rows - first, 0, here)};
}

ParameterPointer ParameterMaker::vocabulary_bias(std::string path, const std::string& name,
                                                 int64_t rows) const {
  const VocabularyRun run = vocabulary_run(rows);
  Parameter p = vector(std::move(path), run.here, 0);
  Part part = whole_part(name + ".bias", {rows});
  part.box.begin[0] = run.first;
  part.box.size[0] = run.filled;
  if (run.filled > 0) p.parts = {std::move(part)};
  p.decoupled_rate = true;
  return share(std::move(p), name + ".bias");
}

ParameterPointer ParameterMaker::vocabulary_table(std::string path, const std::string& name,
                                                  int64_t rows, int64_t columns,
                                                  bool multiplied) const {
  const VocabularyRun run = vocabulary_run(rows);
  Parameter p = matrix(std::move(path), run.here, columns);
  Part part = whole_part(name + ".weight", {rows, columns});
  part.box.begin[0] = run.first;
  part.box.size[0] = run.filled;
  if (run.filled > 0) p.parts = {std::move(part)};
  p.multiplied = multiplied;
  p.vocabulary = p.decoupled_rate = true;
  return share(std::move(p), name + ".weight");
}

ParameterPointer ParameterMaker::position_table(std::string path, const std::string& name,
                                                int64_t rows, int64_t columns) const {
  Parameter p = matrix(std::move(path), rows, columns);
  p.parts = {replicated(name + ".weight", {rows, columns}, stream_gradient(settings_))};
  return share(std::move(p));
}

std::vector<Part> ParameterMaker::column_parts(const std::vector<Piece>& pieces,
                                               const std::string& suffix, int64_t in,
                                               bool transposed) const {
  std::vector<Part> parts;
  for (const Piece& piece : pieces) {
    const int64_t all = piece.logical_rows > 0 ? piece.logical_rows : piece.units * piece.unit_rows;
    const Shape logical = in == 0 ? Shape{all} : transposed ? Shape{in, all} : Shape{all, in};
    const Cut cut = cut_units(piece.units, place_);
    const int64_t together = piece.group_units > 0 ? piece.group_units : cut.count;
    for (int64_t unit = cut.first, end = cut.first + cut.count; unit < end;) {
      const int64_t in_group = piece.group_units > 0 ? unit % piece.group_units : 0;
      const int64_t count = std::min(end - unit, together - in_group);
      Part part = whole_part(piece.name + suffix, logical, transposed);
      const int dim = dim_of_rows(part);
      part.box.begin[dim] = piece.row_of(unit);
      part.box.size[dim] = count * piece.unit_rows;
      part.storage_row = rows_of(parts);
      set_copies(cut, part);
      append_part(parts, std::move(part));
      unit += count;
    }
  }
  return parts;
}

Linear ParameterMaker::column_linear(LinearRole role, const std::string& path,
                                     const std::vector<Piece>& pieces, int64_t in, bool bias,
                                     std::optional<int64_t> block) const {
  std::vector<Part> parts = column_parts(pieces, ".weight", in, names_.transposed);
  Parameter weight = matrix(path + ".weight", rows_of(parts), in);
  weight.parts = std::move(parts);
  weight.multiplied = true;
  weight.quantized = quantizes(block, path);
  ParameterPointer shared_bias;
  if (bias) {
    Parameter b = vector(path + ".bias", weight.shape[0], 0);
    b.parts = column_parts(pieces, ".bias", 0, false);
    shared_bias = share(std::move(b));
  }
  LowRankTerms added = column_terms(path, pieces, weight);
  return Linear(role, share(std::move(weight)), shared_bias, std::move(added));
}

Linear ParameterMaker::row_linear(LinearRole role, const std::string& path, const std::string& name,
                                  int64_t out, int64_t in, bool bias,
                                  std::optional<int64_t> block) const {
  const int64_t here = in / place_.tp;
  Parameter weight = matrix(path + ".weight", out, here);
  weight.init.standard_deviation = into_stream_deviation();
  Part part = whole_part(name + ".weight", names_.transposed ? Shape{in, out} : Shape{out, in},
                         names_.transposed);
  const int dim = 1 - dim_of_rows(part);
  part.box.begin[dim] = here * place_.tp_rank;
  part.box.size[dim] = here;
  weight.parts = {std::move(part)};
  weight.multiplied = true;
  weight.quantized = quantizes(block, path);
  weight.projects_attention = role == LinearRole::proj;
  ParameterPointer shared_bias;
  if (bias) {
    Parameter b = vector(path + ".bias", out, 0);
    b.parts = {replicated(name + ".bias", {out}, stream_gradient(settings_))};
    shared_bias = share(std::move(b));
  }
  LowRankTerms added = row_terms(path, name, weight);
  return Linear(role, share(std::move(weight)), shared_bias, std::move(added));
}

ParameterPointer ParameterMaker::replicated_matrix(const std::string& path,
                                                   const std::vector<Rows>& pieces,
                                                   int64_t in) const {
  int64_t rows = 0;
  for (const Rows& piece : pieces) rows += piece.rows;
  Parameter weight = matrix(path + ".weight", rows, in);
  for (const Rows& piece : pieces) {
    Part part = replicated(piece.name + ".weight", {piece.rows, in}, stream_gradient(settings_));
    part.storage_row = rows_of(weight.parts);
    weight.parts.push_back(std::move(part));
  }
  return share(std::move(weight));
}

ParameterPointer ParameterMaker::whole_tensor(const std::string& path, const std::string& name,
                                              const Shape& logical, bool transposed) const {
  const int64_t columns = logical.without_first().elements();
  Parameter p = logical.rank() == 1 ? vector(path, logical[0], 0)
                : transposed        ? matrix(path, columns, logical[0])
                                    : matrix(path, logical[0], columns);
  p.parts = {replicated(name, logical, ReplicaGradient::equal)};
  p.parts.front().transposed = transposed;
  return share(std::move(p));
}

ParameterPointer ParameterMaker::shared_number(const std::string& path, const std::string& name,
                                               double value) const {
  Parameter number = vector(path, 1, value);
  number.parts = {replicated(name, {1}, ReplicaGradient::partial)};
  return share(std::move(number));
}

ParameterPointer ParameterMaker::fixed_number(const std::string& path, const std::string& name,
                                              double value) const {
  Parameter number = vector(path, 1, value);
  number.parts = {replicated(name, {1}, ReplicaGradient::equal)};
  number.format = settings_.precision.statistic;
  number.load_bias_rate = 0;
  return share(std::move(number));
}

ParameterPointer ParameterMaker::head_norms(const std::string& path, const std::string& name,
                                            int64_t heads) const {
  const Cut cut = cut_units(heads, place_);
  const int64_t size = config_.head_dim;
  Parameter p = vector(path + ".weight", cut.count * size, 1 - config_.norm_weight_offset);
  if (name.find("{}") == std::string::npos) {
    p.shape = {cut.count, size};
    p.parts = column_parts({{name, heads, 1}}, ".weight", size, false);
    return share(std::move(p));
  }
  for (int64_t i = 0; i < cut.count; ++i) {
    Part part = whole_part(at(name, cut.first + i) + ".weight", {size});
    part.storage_row = i * size;
    set_copies(cut, part);
    p.parts.push_back(std::move(part));
  }
  return share(std::move(p));
}

ParameterPointer ParameterMaker::head_logits(const std::string& path,
                                             const std::string& name) const {
  const int64_t here = config_.heads / place_.tp;
  Parameter logits = vector(path, here, 0);
  Part part = whole_part(name, {config_.heads});
  part.box.begin[0] = here * place_.tp_rank;
  part.box.size[0] = here;
  logits.parts = {std::move(part)};
  return share(std::move(logits));
}

double ParameterMaker::into_stream_deviation() const {
  return config_.init_std / std::sqrt(2.0 * static_cast<double>(config_.layers));
}

Norm ParameterMaker::norm(const std::string& path, const std::string& name, int64_t size,
                          NormKind kind, ReplicaGradient gradient, double epsilon) const {
  const double eps = epsilon > 0 ? epsilon : config_.norm_eps;
  if (name.empty()) return Norm({.kind = kind, .eps = eps}, size);
  Parameter weight = vector(path + ".weight", size, 1 - config_.norm_weight_offset);
  weight.parts = {replicated(name + ".weight", {size}, gradient)};
  ParameterPointer bias;
  if (kind == NormKind::layer_norm && config_.norm_bias) {
    Parameter b = vector(path + ".bias", size, 0);
    b.parts = {replicated(name + ".bias", {size}, gradient)};
    bias = share(std::move(b));
  }
  return Norm({kind, eps, config_.norm_weight_offset}, share(std::move(weight)), bias);
}

Part ParameterMaker::replicated(std::string name, const Shape& shape,
                                ReplicaGradient gradient) const {
  Part part = whole_part(std::move(name), shape);
  part.replicas = place_.tp > 1 ? Replicas::tp : Replicas::none;
  part.replica_gradient = place_.tp > 1 ? gradient : ReplicaGradient::equal;
  part.owned = place_.tp_rank == 0;
  return part;
}

Parameter ParameterMaker::matrix(std::string path, int64_t rows, int64_t columns) const {
  Parameter p;
  p.path = std::move(path);
  p.shape = {rows, columns};
  p.init.standard_deviation = config_.init_std;
  return p;
}
Parameter ParameterMaker::vector(std::string path, int64_t size, double value) const {
  Parameter p;
  p.path = std::move(path);
  p.shape = {size};
  p.init = {InitKind::constant, 0, value};
  p.decay = p.weight_gradient = false;
  return p;
}

}  // namespace viaduct
