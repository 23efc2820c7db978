#include "plan/layout.h"

#include <fmt/format.h>

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

std::vector<std::string> overrides_of(const Layout& l) {
  std::vector<std::string> fields{
      fmt::format("model.tensor_model_parallel_size={}", l.tp),
      fmt::format("model.context_parallel_size={}", l.cp),
      fmt::format("model.pipeline_model_parallel_size={}", l.pp),
      l.vpp > 1 ? fmt::format("model.virtual_pipeline_model_parallel_size={}", l.vpp)
                : std::string("model.virtual_pipeline_model_parallel_size=null"),
      fmt::format("train.micro_batch_size={}", l.micro_batch)};
  if (!l.given_sequence_parallel) fields.emplace_back("model.sequence_parallel=auto");
  add_recompute(l.recompute, fields);
  add_sharding(l.sharding, fields);
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
  return fmt::format(
      "tp {} · cp {} · pp {} · vpp {} · dp {}, micro-batch {} × {}, sharding {}, recompute {}",
      l.tp, l.cp, l.pp, l.vpp, l.dp, l.micro_batch, l.micro_batches, sharding_text(l.sharding),
      recompute_text(l.recompute));
}

std::vector<std::string> differences(const Layout& a, const Layout& b) {
  std::vector<std::string> texts;
  const auto number = [&](const char* name, int64_t from, int64_t to) {
    if (from != to) texts.push_back(fmt::format("{} {} → {}", name, from, to));
  };
  number("tp", a.tp, b.tp), number("cp", a.cp, b.cp), number("pp", a.pp, b.pp);
  number("vpp", a.vpp, b.vpp), number("micro-batch", a.micro_batch, b.micro_batch);
  if (a.recompute != b.recompute)
    texts.push_back(
        fmt::format("recompute {} → {}", recompute_text(a.recompute), recompute_text(b.recompute)));
  if (a.sharding != b.sharding)
    texts.push_back(
        fmt::format("sharding {} → {}", sharding_text(a.sharding), sharding_text(b.sharding)));
  return texts;
}

}  // namespace viaduct
