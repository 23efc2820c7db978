// The parameters of routers and experts (model/parameter_maker.h).

#include "model/parameter_maker.h"
#include "model/part_list.h"

namespace viaduct {

ParameterPointer ParameterMaker::router(const std::string& path, const std::string& name,
                                        int64_t experts) const {
  Parameter weight = matrix(path + ".weight", experts, config_.hidden);
  weight.parts = {
      replicated(name + ".weight", {experts, config_.hidden}, stream_gradient(settings_))};
  return share(std::move(weight));
}

ParameterPointer ParameterMaker::load_bias(std::string path, const std::string& name,
                                           int64_t experts, double rate) const {
  Parameter bias = vector(std::move(path), experts, 0);
  bias.parts = {replicated(name, {experts}, stream_gradient(settings_))};
  bias.format = settings_.precision.statistic;
  bias.load_bias_rate = rate;
  return share(std::move(bias));
}

ParameterPointer ParameterMaker::router_bias(const std::string& path,
                                             const std::string& name) const {
  Parameter bias = vector(path + ".bias", config_.moe.experts, 0);
  bias.parts = {replicated(name + ".bias", {config_.moe.experts}, stream_gradient(settings_))};
  return share(std::move(bias));
}

ParameterPointer ParameterMaker::experts_up(const std::string& path,
                                            const std::vector<std::string>& names,
                                            std::optional<int64_t> block) const {
  const int64_t experts = config_.moe.experts / place_.ep, all = config_.moe.feed_forward;
  // Of one name: both projections of a gated expert where they are fused.
  const int64_t of_name = fuses_experts(names_) && config_.gated ? 2 : 1;
  const int64_t features = of_name * all / place_.etp;
  // Halves of a tensor are cut separately.
  const int64_t cuts = names_.expert_halves ? of_name : 1, of_cut = features / cuts;
  Parameter weight =
      experts_matrix(path, features * static_cast<int64_t>(names.size()), config_.hidden, block);
  for (int64_t e = 0; e < experts; ++e) {
    for (const std::string& name : names) {
      for (int64_t cut = 0; cut < cuts; ++cut) {
        Part part = expert_part(at(name, place_.ep_rank * experts + e), of_name * all,
                                config_.hidden, weight);
        const int dim = dim_of_rows(part);
        part.box.begin[dim] = cut * all + of_cut * place_.etp_rank;
        part.box.size[dim] = of_cut;
        append_part(weight.parts, std::move(part));
      }
    }
  }
  return share(std::move(weight));
}

Part ParameterMaker::expert_part(const std::string& name, int64_t out, int64_t in,
                                 const Parameter& weight) const {
  Part part = fuses_experts(names_) ? whole_part(name, {in, out}, true)
                                    : whole_part(name + ".weight", {out, in});
  part.storage_row = rows_of(weight.parts);
  return part;
}

ParameterPointer ParameterMaker::experts_bias(const std::string& path, const std::string& name,
                                              int64_t features) const {
  const int64_t experts = config_.moe.experts / place_.ep;
  Parameter bias = vector(path + ".bias", experts * features, 0);
  for (int64_t e = 0; e < experts; ++e) {
    Part part = whole_part(at(name, place_.ep_rank * experts + e) + kExpertBiasSuffix, {features});
    part.storage_row = e * features;
    bias.parts.push_back(std::move(part));
  }
  if (place_.expert_grid) bias.grid = Grid::expert;
  return share(std::move(bias));
}

ParameterPointer ParameterMaker::experts_down(const std::string& path, const std::string& name,
                                              std::optional<int64_t> block) const {
  const int64_t experts = config_.moe.experts / place_.ep, all = config_.moe.feed_forward;
  const int64_t features = all / place_.etp;
  Parameter weight = experts_matrix(path, config_.hidden, features, block);
  weight.init.standard_deviation = into_stream_deviation();
  for (int64_t e = 0; e < experts; ++e) {
    Part part = expert_part(at(name, place_.ep_rank * experts + e), config_.hidden, all, weight);
    const int dim = 1 - dim_of_rows(part);
    part.box.begin[dim] = features * place_.etp_rank;
    part.box.size[dim] = features;
    weight.parts.push_back(std::move(part));
  }
  return share(std::move(weight));
}

Parameter ParameterMaker::experts_matrix(const std::string& path, int64_t rows, int64_t columns,
                                         std::optional<int64_t> block) const {
  const int64_t here = config_.moe.experts / place_.ep;
  Parameter weight = matrix(path + ".weight", here * rows, columns);
  weight.experts = {place_.ep_rank * here, here, config_.moe.experts};
  weight.quantized = quantizes(block, path);
  if (place_.expert_grid) weight.grid = Grid::expert;
  return weight;
}

}  // namespace viaduct
