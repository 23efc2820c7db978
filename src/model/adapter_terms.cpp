// The parameters of low-rank terms beside the weights of linear layers (nn/low_rank.h).

#include "base/hash.h"
#include "model/parameter_maker.h"
#include "model/part_list.h"

namespace viaduct {

LowRankTerms ParameterMaker::column_terms(const std::string& path, const std::vector<Piece>& pieces,
                                          const Parameter& weight) const {
  std::vector<AdaptedPiece> adapted;
  for (size_t begin = 0, end = 0; begin < pieces.size(); begin = end) {
    // Pieces of one logical matrix (GPT-2's c_attn) have one A and one B.
    while (end < pieces.size() && pieces[end].name == pieces[begin].name) ++end;
    const AdapterShape* shape = settings_.adapters.of(pieces[begin].name);
    if (shape == nullptr) continue;
    const std::vector<Piece> before(pieces.begin(),
                                    pieces.begin() + static_cast<std::ptrdiff_t>(begin));
    const std::vector<Piece> own(pieces.begin() + static_cast<std::ptrdiff_t>(begin),
                                 pieces.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<Part> earlier = column_parts(before, "", 1, false);
    const int64_t first = rows_of(earlier);
    std::vector<Piece> named = own;
    for (Piece& piece : named) piece.name = kAdapterPrefix + piece.name;
    adapted.push_back({pieces[begin].name, *shape,
                       column_parts(named, kAdapterB, shape->rank, false),
                       column_parts(named, kAdapterMagnitude, 0, false), first});
  }
  return terms(path, adapted, weight, false);
}

LowRankTerms ParameterMaker::row_terms(const std::string& path, const std::string& name,
                                       const Parameter& weight) const {
  const AdapterShape* shape = settings_.adapters.of(name);
  if (shape == nullptr) return {};
  // Each tensor rank sees what its own input features give.
  const Part b = replicated(kAdapterPrefix + name + kAdapterB, {weight.shape[0], shape->rank},
                            ReplicaGradient::partial);
  const Part m = replicated(kAdapterPrefix + name + kAdapterMagnitude, {weight.shape[0]},
                            ReplicaGradient::partial);
  return terms(path, {{name, *shape, {b}, {m}, 0}}, weight, true);
}

LowRankTerms ParameterMaker::terms(const std::string& path, const std::vector<AdaptedPiece>& pieces,
                                   const Parameter& weight, bool cut_inputs) const {
  if (pieces.empty()) return {};
  const int64_t in = weight.shape[1], all = cut_inputs ? in * place_.tp : in;
  int64_t ranks = 0;
  for (const AdaptedPiece& piece : pieces) ranks += piece.shape.rank;
  Parameter a = matrix(path + ".lora_A", ranks, in);
  a.adapter = true;
  a.init = {settings_.adapters.init};
  std::vector<LowRankTerms::Term> made;
  int64_t first = 0;
  for (const AdaptedPiece& piece : pieces) {
    const int64_t rank = piece.shape.rank;
    // With W cut by its outputs a tensor rank sees the gradient of its own output features.
    Part part = replicated(kAdapterPrefix + piece.module + kAdapterA, {rank, all},
                           ReplicaGradient::partial);
    if (cut_inputs) {
      part = whole_part(part.name, {rank, all});
      part.box.begin[1] = in * place_.tp_rank;
      part.box.size[1] = in;
    }
    part.storage_row = first;
    a.parts.push_back(std::move(part));
    const int64_t features = rows_of(piece.b);
    Parameter b = matrix(path + ".lora_B." + std::to_string(made.size()), features, rank);
    b.adapter = b.decoupled_rate = true;
    b.init = {InitKind::constant, 0, 0};
    b.parts = piece.b;
    ParameterPointer magnitudes;
    if (settings_.adapters.magnitudes) {
      Parameter m = vector(path + ".lora_magnitude." + std::to_string(made.size()), features, 1);
      m.adapter = m.decoupled_rate = true;
      m.magnitude_of = weight.path, m.magnitude_row = piece.first_feature;
      m.format = settings_.precision.statistic;  // a norm rounded to 16 bits is another weight
      m.parts = piece.m;
      magnitudes = share(std::move(m));
    }
    made.push_back({piece.first_feature, features, first, rank, piece.shape.scale(),
                    share(std::move(b)), std::move(magnitudes)});
    first += rank;
  }
  const LowRankTerms::Dropout dropout{settings_.adapters.dropout, settings_.adapters.dropout_after,
                                      hash64(path + ".lora_dropout"),
                                      cut_inputs ? in * place_.tp_rank : 0};
  return {share(std::move(a)), std::move(made), dropout};
}

}  // namespace viaduct
