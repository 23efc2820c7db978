// The parameters of low-rank terms beside the weights of experts (nn/moe/expert_terms.h), and
// beside weights that every tensor rank holds whole.

#include "model/expert_adapters.h"

#include "base/error.h"
#include "base/hash.h"
#include "model/parameter_maker.h"

namespace viaduct {

std::string joined_expert_name(const TensorNames& names) {
  if (names.expert_gate.empty()) return {};
  return names.expert_gate.substr(0, names.expert_gate.rfind('.') + 1) + kJoinedExpert;
}

LowRankTerms ParameterMaker::replicated_terms(const std::string& path,
                                              const std::vector<Rows>& pieces, int64_t in) const {
  Parameter a = matrix(path + ".lora_A", 0, in);
  a.adapter = true;
  a.init = {settings_.adapters.init};
  std::vector<LowRankTerms::Term> made;
  int64_t first_feature = 0;
  for (const Rows& piece : pieces) {
    const int64_t begin = first_feature, first = a.shape[0];
    first_feature += piece.rows;
    const AdapterShape* shape = settings_.adapters.of(piece.name);
    if (shape == nullptr) continue;
    const ReplicaGradient gradient = stream_gradient(settings_);
    Part part = replicated(kAdapterPrefix + piece.name + kAdapterA, {shape->rank, in}, gradient);
    part.storage_row = first;
    a.parts.push_back(std::move(part));
    a.shape[0] += shape->rank;
    Parameter b = matrix(path + ".lora_B." + std::to_string(made.size()), piece.rows, shape->rank);
    b.adapter = b.decoupled_rate = true;
    b.init = {InitKind::constant, 0, 0};
    b.parts = {
        replicated(kAdapterPrefix + piece.name + kAdapterB, {piece.rows, shape->rank}, gradient)};
    made.push_back(
        {begin, piece.rows, first, shape->rank, shape->scale(), share(std::move(b)), nullptr});
  }
  if (made.empty()) return {};
  LowRankTerms::Dropout dropout{settings_.adapters.dropout, settings_.adapters.dropout_after,
                                hash64(path + ".lora_dropout")};
  dropout.of_stream = true;
  return {share(std::move(a)), std::move(made), dropout};
}

const AdapterShape* ParameterMaker::expert_adapter(const std::string& module) const {
  const AdapterShape* first = settings_.adapters.of(at(module, 0));
  for (int64_t e = 1; e < config_.moe.experts; ++e) {
    const AdapterShape* other = settings_.adapters.of(at(module, e));
    const bool same =
        (first == nullptr) == (other == nullptr) && (first == nullptr || *first == *other);
    VIADUCT_CHECK(ConfigError, same,
                  "peft: {} and {} have different adapters: expected all experts of a layer with "
                  "one rank and one alpha, or none of them",
                  at(module, 0), at(module, e));
  }
  return first;
}

Part ParameterMaker::expert_replicated(std::string name, const Shape& shape) const {
  Part part = whole_part(std::move(name), shape);
  if (place_.etp == 1) return part;
  part.replicas = place_.expert_grid ? Replicas::expert_tp : Replicas::tp;
  part.replica_gradient = ReplicaGradient::partial;
  part.owned = place_.etp_rank == 0;
  return part;
}

Parameter ParameterMaker::expert_factor(const std::string& path, int64_t rows,
                                        int64_t columns) const {
  const int64_t here = config_.moe.experts / place_.ep;
  Parameter factor = matrix(path, here * rows, columns);
  factor.experts = {place_.ep_rank * here, here, config_.moe.experts};
  factor.adapter = true;
  if (place_.expert_grid) factor.grid = Grid::expert;
  return factor;
}

ExpertTerms ParameterMaker::experts_up_terms(const std::string& path,
                                             const std::vector<std::string>& names,
                                             const std::string& joined) const {
  const int64_t all = config_.moe.feed_forward, here = all / place_.etp;
  std::vector<ExpertPiece> pieces;
  const AdapterShape* together = joined.empty() ? nullptr : expert_adapter(joined);
  if (together != nullptr) {
    pieces.push_back({joined,
                      *together,
                      0,
                      2 * all,
                      {{here * place_.etp_rank, here}, {all + here * place_.etp_rank, here}}});
  }
  const int64_t of_name = fuses_experts(names_) && config_.gated ? 2 : 1;
  const int64_t features = of_name * here;
  for (size_t i = 0; i < names.size(); ++i) {
    const AdapterShape* shape = expert_adapter(names[i]);
    if (shape == nullptr) continue;
    VIADUCT_CHECK(ConfigError, together == nullptr,
                  "peft: {} has an adapter of its own and one with {}: expected one of them",
                  at(names[i], 0), at(joined, 0));
    std::vector<ExpertPiece::Rows> rows{{features * place_.etp_rank, features}};
    if (names_.expert_halves && of_name == 2)
      rows = {{here * place_.etp_rank, here}, {all + here * place_.etp_rank, here}};
    pieces.push_back(
        {names[i], *shape, static_cast<int64_t>(i) * features, of_name * all, std::move(rows)});
  }
  return expert_terms(path, pieces, config_.hidden, false);
}

ExpertTerms ParameterMaker::experts_down_terms(const std::string& path,
                                               const std::string& name) const {
  const AdapterShape* shape = expert_adapter(name);
  if (shape == nullptr) return {};
  const int64_t out = config_.hidden;
  return expert_terms(path, {{name, *shape, 0, out, {{0, out}}}}, config_.moe.feed_forward, true);
}

ExpertTerms ParameterMaker::expert_terms(const std::string& path,
                                         const std::vector<ExpertPiece>& pieces, int64_t in,
                                         bool cut_inputs) const {
  if (pieces.empty()) return {};
  const int64_t experts = config_.moe.experts / place_.ep;
  const int64_t columns = cut_inputs ? in / place_.etp : in;
  int64_t ranks = 0;
  for (const ExpertPiece& piece : pieces) ranks += piece.shape.rank;
  Parameter a = expert_factor(path + ".lora_A", ranks, columns);
  a.init = {settings_.adapters.init};
  for (int64_t e = 0; e < experts; ++e) {
    int64_t row = e * ranks;
    for (const ExpertPiece& piece : pieces) {
      const std::string name =
          kAdapterPrefix + at(piece.module, place_.ep_rank * experts + e) + kAdapterA;
      Part part = cut_inputs ? whole_part(name, {piece.shape.rank, in})
                             : expert_replicated(name, {piece.shape.rank, in});
      if (cut_inputs) part.box.begin[1] = columns * place_.etp_rank, part.box.size[1] = columns;
      part.storage_row = row;
      row += piece.shape.rank;
      a.parts.push_back(std::move(part));
    }
  }
  std::vector<ExpertTerms::Term> made;
  int64_t first = 0;
  for (const ExpertPiece& piece : pieces) {
    const int64_t rank = piece.shape.rank;
    int64_t features = 0;
    for (const ExpertPiece::Rows& rows : piece.rows) features += rows.count;
    Parameter b = expert_factor(path + ".lora_B." + std::to_string(made.size()), features, rank);
    b.decoupled_rate = true;
    b.init = {InitKind::constant, 0, 0};
    for (int64_t e = 0; e < experts; ++e) {
      int64_t row = e * features;
      const std::string name =
          kAdapterPrefix + at(piece.module, place_.ep_rank * experts + e) + kAdapterB;
      for (const ExpertPiece::Rows& rows : piece.rows) {
        Part part = cut_inputs ? expert_replicated(name, {piece.out, rank})
                               : whole_part(name, {piece.out, rank});
        part.box.begin[0] = rows.first, part.box.size[0] = rows.count;
        part.storage_row = row;
        row += rows.count;
        b.parts.push_back(std::move(part));
      }
    }
    made.push_back(
        {piece.first_feature, features, first, rank, piece.shape.scale(), share(std::move(b))});
    first += rank;
  }
  const LowRankTerms::Dropout dropout{settings_.adapters.dropout, settings_.adapters.dropout_after,
                                      hash64(path + ".lora_dropout"),
                                      cut_inputs ? columns * place_.etp_rank : 0};
  return {share(std::move(a)), std::move(made), dropout};
}

}  // namespace viaduct
