#include "plan/rules/encoder_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/units.h"

namespace viaduct::rules {
namespace {

/// Layers for the first stage if it is to compute as long as the others do on average, which take
/// `others` of the seconds that it takes; 0: none that divide.
int64_t layers_beside_tower(const Figures& f, double others) {
  const double layers = f.layers_of_a_stage(), rest = f.pp - 1;
  // What is moved makes the others longer.
  const auto most = static_cast<int64_t>(layers - (1 / others - 1) * layers * rest / f.pp);
  for (int64_t first = most; first > 0; --first)
    if ((f.model.layers - first) % (int64_t{1} * (f.pp - 1) * f.vpp) == 0 && first % f.vpp == 0)
      return first;
  return 0;
}

/// Without stages of its own an encoder may make the decoder's first one the slowest.
Finding first_stage_layout(const Figures& f, const Thresholds& limits, const char* encoder) {
  if (f.pp == 1) return not_applicable(fmt::format("the {} is on the only stage", encoder));
  if (!f.times) return unknown(kNoTimes);
  const std::vector<double>& stages = f.times->stage_compute;
  const double mean = std::accumulate(stages.begin() + 1, stages.end(), 0.0) /
                      static_cast<double>(stages.size() - 1);
  const double share = stages.front() / mean;
  const std::string text =
      fmt::format("the first stage, which has the {}, computes {:.2f} times as long as the others",
                  encoder, share);
  if (share <= 1 + limits[Limit::stage_skew]) return not_applicable(text);
  std::vector<Advice> advice;
  if (!f.config.pipeline.pipeline_model_parallel_layout) {
    if (const int64_t first = layers_beside_tower(f, 1 / share); first > 0)
      advice.push_back(change({fmt::format("model.num_layers_in_first_pipeline_stage={}", first)}));
    // One of the decoder's stages in exchange, of as many ranks.
    if (f.model.layers % (int64_t{1} * (f.pp - 1) * f.vpp) == 0 && (f.pp > 2 || f.vpp == 1))
      advice.push_back(change({"model.encoder_pipeline_model_parallel_size=1",
                               fmt::format("model.pipeline_model_parallel_size={}", f.pp - 1)}));
  }
  Finding finding = fires(Level::hint, text + ", which wait for it",
                          {{"first stage", share, "of the others"}}, std::move(advice));
  finding.decided_by_gain = !finding.advice.empty();
  return finding;
}

/// Fewer stages of the encoder, whose ranks make further ones of the decoder where these divide.
Advice with_encoder_stages(const Figures& f, int stages) {
  std::vector<std::string> fields{
      fmt::format("model.encoder_pipeline_model_parallel_size={}", stages)};
  if (stages == 0) fields.emplace_back("model.encoder_tensor_model_parallel_size=0");
  const int freed = (f.encoder_stages() - stages) * f.config.parallel.encoder_tensor();
  const int pp = f.pp + freed / f.tp;
  if (freed % f.tp == 0 && f.model.layers % (int64_t{1} * pp * f.vpp) == 0)
    fields.push_back(fmt::format("model.pipeline_model_parallel_size={}", pp));
  return change(std::move(fields));
}

/// What Megatron's encoders could not have.
std::optional<std::string> beyond_megatron(const Figures& f, int64_t own, int64_t tensor) {
  if (own <= 1 && tensor <= f.tp) return std::nullopt;
  return fmt::format(
      "{} of {} in front of {} of {}: Megatron's encoders had one stage, and no more "
      "tensor ranks than the decoder",
      counted(own, "stage"), counted(tensor, "tensor rank"), f.pp, f.tp);
}

}  // namespace

Finding encoder_layout(const Figures& f, const Thresholds& limits) {
  const int own = f.encoder_stages();
  const bool tower = f.model.vision.any();
  if (!tower && !f.model.encoder.any()) return not_applicable("the model has no encoder");
  if (own == 0) return first_stage_layout(f, limits, tower ? "vision tower" : "encoder");
  if (!f.times) return unknown(kNoTimes);
  const double share = f.encoder_share();
  const std::string text = fmt::format(
      "a stage of the encoder computes {:.2f} times as long as one of the decoder", share);
  if (share >= limits[Limit::encoder_share]) {
    if (const auto beyond = beyond_megatron(f, own, f.config.parallel.encoder_tensor()))
      return fires(Level::note, *beyond, {{"encoder stage", share, "of a decoder's"}});
    return not_applicable(text);
  }
  const int64_t blocks =
      tower ? std::max<int64_t>(1, f.model.vision.read_layers()) : f.model.encoder.layers;
  int fewer = own - 1;
  while (fewer > 0 && blocks % fewer != 0) --fewer;
  return fires(Level::hint, text + ", and waits for the rest",
               {{"encoder stage", share, "of a decoder's"}}, {with_encoder_stages(f, fewer)});
}

}  // namespace viaduct::rules
