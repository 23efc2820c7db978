#include "model/parameter_maker.h"

#include <cmath>

namespace viaduct {

std::string ParameterMaker::at(const std::string& pattern, int64_t layer) {
  const size_t place = pattern.find("{}");
  if (place == std::string::npos) return pattern;
  return pattern.substr(0, place) + std::to_string(layer) + pattern.substr(place + 2);
}

ParameterPointer ParameterMaker::table(std::string path, const std::string& name, int64_t rows,
                                       int64_t columns) const {
  Parameter p = matrix(std::move(path), rows, columns);
  p.parts = {whole_part(name + ".weight", {rows, columns})};
  return std::make_shared<const Parameter>(std::move(p));
}

ParameterPointer ParameterMaker::weight(std::string path, const std::vector<Piece>& pieces,
                                        int64_t in, bool output) const {
  int64_t rows = 0;
  std::vector<Part> parts;
  for (const Piece& piece : pieces) {
    const Shape logical = names_.transposed ? Shape{in, piece.rows} : Shape{piece.rows, in};
    parts.push_back(whole_part(piece.name + ".weight", logical, names_.transposed));
    parts.back().storage_row = rows;
    rows += piece.rows;
  }
  Parameter p = matrix(std::move(path), rows, in);
  p.parts = std::move(parts);
  if (output)
    p.init.standard_deviation =
        config_.init_std / std::sqrt(2.0 * static_cast<double>(config_.layers));
  return std::make_shared<const Parameter>(std::move(p));
}

ParameterPointer ParameterMaker::bias(bool present, std::string path,
                                      const std::vector<Piece>& pieces) const {
  if (!present) return nullptr;
  Parameter p = vector(std::move(path), 0, 0);
  int64_t rows = 0;
  for (const Piece& piece : pieces) {
    p.parts.push_back(whole_part(piece.name + ".bias", {piece.rows}));
    p.parts.back().storage_row = rows;
    rows += piece.rows;
  }
  p.shape = {rows};
  return std::make_shared<const Parameter>(std::move(p));
}

Norm ParameterMaker::norm(const std::string& path, const std::string& name, int64_t size,
                          NormKind kind) const {
  Parameter weight = vector(path + ".weight", size, 1 - config_.norm_weight_offset);
  weight.parts = {whole_part(name + ".weight", {size})};
  ParameterPointer bias;
  if (kind == NormKind::layer_norm) {
    Parameter b = vector(path + ".bias", size, 0);
    b.parts = {whole_part(name + ".bias", {size})};
    bias = std::make_shared<const Parameter>(std::move(b));
  }
  return Norm({kind, config_.norm_eps, config_.norm_weight_offset},
              std::make_shared<const Parameter>(std::move(weight)), bias);
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
