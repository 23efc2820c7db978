#include "model/parameter_maker.h"

#include <algorithm>
#include <cmath>

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

int dim_of_rows(const Part& part) {
  return part.transposed ? 1 : 0;
}

/// Appends `part`, or extends the last one if `part` continues it in storage and logical tensor (a
/// fused tensor that is held whole is one part).
void append_part(std::vector<Part>& parts, Part part) {
  if (!parts.empty()) {
    Part& last = parts.back();
    const int dim = dim_of_rows(part);
    if (last.name == part.name && last.replicas == part.replicas && last.owned == part.owned &&
        last.storage_row + last.rows() == part.storage_row &&
        last.box.begin[dim] + last.box.size[dim] == part.box.begin[dim]) {
      last.box.size[dim] += part.box.size[dim];
      return;
    }
  }
  parts.push_back(std::move(part));
}

int64_t rows_of(const std::vector<Part>& parts) {
  return parts.empty() ? 0 : parts.back().storage_row + parts.back().rows();
}

ParameterPointer share(Parameter p) {
  return std::make_shared<const Parameter>(std::move(p));
}

}  // namespace

ReplicaGradient stream_gradient(const LayerSettings& settings) {
  return settings.sequence_parallel ? ReplicaGradient::partial : ReplicaGradient::equal;
}

std::string ParameterMaker::at(const std::string& pattern, int64_t layer) {
  const size_t place = pattern.find("{}");
  if (place == std::string::npos) return pattern;
  return pattern.substr(0, place) + std::to_string(layer) + pattern.substr(place + 2);
}

ParameterPointer ParameterMaker::vocabulary_table(std::string path, const std::string& name,
                                                  int64_t rows, int64_t columns,
                                                  bool multiplied) const {
  const int64_t multiple = place_.vocabulary_multiple * place_.tp;
  const int64_t here = (rows + multiple - 1) / multiple * multiple / place_.tp;
  const int64_t first = here * place_.tp_rank;
  Parameter p = matrix(std::move(path), here, columns);
  Part part = whole_part(name + ".weight", {rows, columns});
  part.box.begin[0] = first;
  part.box.size[0] = std::clamp<int64_t>(rows - first, 0, here);
  if (part.box.size[0] > 0) p.parts = {std::move(part)};
  p.multiplied = multiplied;
  p.vocabulary = true;
  return share(std::move(p));
}

ParameterPointer ParameterMaker::position_table(std::string path, const std::string& name,
                                                int64_t rows, int64_t columns) const {
  Parameter p = matrix(std::move(path), rows, columns);
  p.parts = {replicated(name + ".weight", {rows, columns}, stream_gradient(settings_))};
  return share(std::move(p));
}

std::vector<Part> ParameterMaker::column_parts(const std::vector<Piece>& pieces,
                                               const std::string& suffix, int64_t in) const {
  std::vector<Part> parts;
  for (const Piece& piece : pieces) {
    const int64_t all = piece.logical_rows > 0 ? piece.logical_rows : piece.units * piece.unit_rows;
    const bool transposed = names_.transposed && in > 0;
    const Shape logical = in == 0 ? Shape{all} : transposed ? Shape{in, all} : Shape{all, in};
    const Cut cut = cut_units(piece.units, place_);
    Part part = whole_part(piece.name + suffix, logical, transposed);
    const int dim = dim_of_rows(part);
    part.box.begin[dim] = piece.first_row + cut.first * piece.unit_rows;
    part.box.size[dim] = cut.count * piece.unit_rows;
    part.storage_row = rows_of(parts);
    part.owned = cut.owned;
    if (cut.replicas > 1) {
      part.replicas = Replicas::tp_kv;
      part.replica_gradient = ReplicaGradient::partial;  // each sees its own query heads
    }
    append_part(parts, std::move(part));
  }
  return parts;
}

Linear ParameterMaker::column_linear(LinearRole role, const std::string& path,
                                     const std::vector<Piece>& pieces, int64_t in,
                                     bool bias) const {
  std::vector<Part> parts = column_parts(pieces, ".weight", in);
  Parameter weight = matrix(path + ".weight", rows_of(parts), in);
  weight.parts = std::move(parts);
  weight.multiplied = true;
  ParameterPointer shared_bias;
  if (bias) {
    Parameter b = vector(path + ".bias", weight.shape[0], 0);
    b.parts = column_parts(pieces, ".bias", 0);
    shared_bias = share(std::move(b));
  }
  return Linear(role, share(std::move(weight)), shared_bias);
}

Linear ParameterMaker::row_linear(LinearRole role, const std::string& path, const std::string& name,
                                  int64_t out, int64_t in, bool bias) const {
  const int64_t here = in / place_.tp;
  Parameter weight = matrix(path + ".weight", out, here);
  weight.init.standard_deviation =
      config_.init_std / std::sqrt(2.0 * static_cast<double>(config_.layers));
  Part part = whole_part(name + ".weight", names_.transposed ? Shape{in, out} : Shape{out, in},
                         names_.transposed);
  const int dim = 1 - dim_of_rows(part);
  part.box.begin[dim] = here * place_.tp_rank;
  part.box.size[dim] = here;
  weight.parts = {std::move(part)};
  weight.multiplied = true;
  ParameterPointer shared_bias;
  if (bias) {
    Parameter b = vector(path + ".bias", out, 0);
    b.parts = {replicated(name + ".bias", {out}, stream_gradient(settings_))};
    shared_bias = share(std::move(b));
  }
  return Linear(role, share(std::move(weight)), shared_bias);
}

Norm ParameterMaker::norm(const std::string& path, const std::string& name, int64_t size,
                          NormKind kind, ReplicaGradient gradient) const {
  Parameter weight = vector(path + ".weight", size, 1 - config_.norm_weight_offset);
  weight.parts = {replicated(name + ".weight", {size}, gradient)};
  ParameterPointer bias;
  if (kind == NormKind::layer_norm) {
    Parameter b = vector(path + ".bias", size, 0);
    b.parts = {replicated(name + ".bias", {size}, gradient)};
    bias = share(std::move(b));
  }
  return Norm({kind, config_.norm_eps, config_.norm_weight_offset}, share(std::move(weight)), bias);
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
