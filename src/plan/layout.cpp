#include "plan/layout.h"

#include <fmt/format.h>

#include "plan/uneven_stages.h"

namespace viaduct {
namespace {

void add_recompute(Recompute recompute, std::vector<std::string>& fields) {
  if (recompute == Recompute::given) return;
  const bool full = recompute == Recompute::full;
  const char* granularity = full                                ? "full"
                            : recompute == Recompute::selective ? "selective"
                                                                : "null";
  fields.push_back(fmt::format("model.recompute_granularity={}", granularity));
  fields.push_back(fmt::format("model.recompute_method={}", full ? "uniform" : "null"));
  fields.push_back(fmt::format("model.recompute_num_layers={}", full ? "1" : "null"));
}

void add_sharding(Sharding sharding, std::vector<std::string>& fields) {
  if (sharding == Sharding::given) return;
  const char* strategy = sharding == Sharding::none        ? "no_shard"
                         : sharding == Sharding::optimizer ? "optim"
                                                           : "optim_grads_params";
  fields.push_back(fmt::format("ddp.use_distributed_optimizer={}", sharding != Sharding::none));
  fields.push_back(fmt::format("ddp.data_parallel_sharding_strategy={}", strategy));
}

}  // namespace

bool same_layer(const Layout& a, const Layout& b) {
  return a.tp == b.tp && a.cp == b.cp && a.ep == b.ep && a.etp == b.etp &&
         a.micro_batch == b.micro_batch && a.recompute == b.recompute && a.variant == b.variant &&
         (a.sharding == Sharding::full ? a.dp : 0) == (b.sharding == Sharding::full ? b.dp : 0);
}

std::vector<std::string> overrides_of(const Layout& l) {
  std::vector<std::string> fields{
      fmt::format("model.tensor_model_parallel_size={}", l.tp),
      fmt::format("model.context_parallel_size={}", l.cp),
      fmt::format("model.pipeline_model_parallel_size={}", l.pp),
      l.vpp > 1 && l.uneven_layers == 0
          ? fmt::format("model.virtual_pipeline_model_parallel_size={}", l.vpp)
          : std::string("model.virtual_pipeline_model_parallel_size=null"),
      fmt::format("train.micro_batch_size={}", l.micro_batch)};
  if (l.uneven_layers > 0) {
    fields.push_back(fmt::format("model.pipeline_model_parallel_layout=\"{}\"", uneven_stages(l)));
  }
  if (!l.given_sequence_parallel) fields.emplace_back("model.sequence_parallel=auto");
  add_recompute(l.recompute, fields);
  add_sharding(l.sharding, fields);
  if (l.ep > 0) {
    fields.push_back(fmt::format("model.expert_model_parallel_size={}", l.ep));
    fields.push_back(fmt::format("model.expert_tensor_parallel_size={}", l.etp));
  }
  if (l.has_encoder) {
    fields.push_back(
        fmt::format("model.encoder_pipeline_model_parallel_size={}", l.encoder_stages));
    fields.push_back(fmt::format("model.encoder_tensor_model_parallel_size={}", l.encoder_tp));
  }
  if (l.variant)
    fields.insert(fields.end(), l.variant->overrides.begin(), l.variant->overrides.end());
  return fields;
}

std::string_view recompute_text(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
    case Recompute::given:
      return "as given";
  }
  return "";
}

std::string_view sharding_text(Sharding sharding) {
  switch (sharding) {
    case Sharding::none:
      return "none";
    case Sharding::optimizer:
      return "optimizer";
    case Sharding::full:
      return "full";
    case Sharding::given:
      return "as given";
  }
  return "";
}

std::string describe(const Layout& l) {
  const std::string experts =
      l.ep > 0 ? fmt::format(" · ep {} · etp {}", l.ep, l.etp) : std::string();
  const std::string encoder = l.encoder_stages > 0 ? fmt::format(" · encoder pp {} · encoder tp {}",
                                                                 l.encoder_stages, l.encoder_tp)
                                                   : std::string();
  std::string text = fmt::format(
      "tp {} · cp {} · pp {} · vpp {} · dp {}{}{}, micro-batch {} × {}, sharding {}, recompute {}",
      l.tp, l.cp, l.pp, l.vpp, l.dp, experts, encoder, l.micro_batch, l.micro_batches,
      sharding_text(l.sharding), recompute_text(l.recompute));
  if (l.uneven_layers > 0) text += ", stages " + uneven_stages(l);
  if (l.variant) text += ", " + l.variant->name;
  return text;
}

std::vector<std::string> differences(const Layout& a, const Layout& b) {
  std::vector<std::string> texts;
  const auto number = [&](const char* name, int64_t from, int64_t to) {
    if (from != to) texts.push_back(fmt::format("{} {} → {}", name, from, to));
  };
  number("tp", a.tp, b.tp), number("cp", a.cp, b.cp), number("pp", a.pp, b.pp);
  number("vpp", a.vpp, b.vpp), number("micro-batch", a.micro_batch, b.micro_batch);
  number("ep", a.ep, b.ep), number("etp", a.etp, b.etp);
  number("encoder pp", a.encoder_stages, b.encoder_stages);
  // Its tensor ranks come with its stages.
  if (a.encoder_stages > 0 && b.encoder_stages > 0)
    number("encoder tp", a.encoder_tp, b.encoder_tp);
  if (a.recompute != b.recompute)
    texts.push_back(
        fmt::format("recompute {} → {}", recompute_text(a.recompute), recompute_text(b.recompute)));
  if (a.sharding != b.sharding)
    texts.push_back(
        fmt::format("sharding {} → {}", sharding_text(a.sharding), sharding_text(b.sharding)));
  if (a.variant != b.variant && b.variant) texts.push_back(b.variant->name);
  return texts;
}

}  // namespace viaduct
