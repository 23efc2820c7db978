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

/// Another number of the encoder's stages: first with the ranks that it gives up as further stages
/// of the decoder, or with those that it takes as fewer, where these divide; then with more or
/// fewer data ranks.
void add_encoder_stages(std::vector<Advice>& advice, const Figures& f, int stages) {
  std::vector<std::string> fields{
      fmt::format("model.encoder_pipeline_model_parallel_size={}", stages)};
  if (stages == 0) fields.emplace_back("model.encoder_tensor_model_parallel_size=0");
  const int freed = (f.encoder_stages() - stages) * f.config.parallel.encoder_tensor();
  const int pp = f.pp + freed / f.tp;
  if (freed % f.tp == 0 && pp > 0 && f.model.layers % (int64_t{1} * pp * f.vpp) == 0 &&
      !f.config.pipeline.pipeline_model_parallel_layout) {
    std::vector<std::string> both = fields;
    both.push_back(fmt::format("model.pipeline_model_parallel_size={}", pp));
    advice.push_back(change(std::move(both)));
  }
  advice.push_back(change(std::move(fields)));
}

/// Blocks that stages of the encoder divide among them.
int encoder_blocks(const Figures& f) {
  return static_cast<int>(f.model.vision.any() ? std::max<int64_t>(1, f.model.vision.read_layers())
                                               : f.model.encoder.layers);
}

Finding small_stages(const Figures& f, double share, const std::string& text) {
  int fewer = f.encoder_stages() - 1;
  while (fewer > 0 && encoder_blocks(f) % fewer != 0) --fewer;
  std::vector<Advice> advice;
  add_encoder_stages(advice, f, fewer);
  if (fewer > 0) add_encoder_stages(advice, f, 0);
  return fires(Level::hint, text + ", and waits for the rest",
               {{"encoder stage", share, "of a decoder's"}}, std::move(advice));
}

Finding large_stages(const Figures& f, double share, const std::string& text) {
  const int blocks = encoder_blocks(f);
  int more = f.encoder_stages() + 1;
  while (more < blocks && blocks % more != 0) ++more;
  if (more > blocks)
    return not_applicable(text + ", and has no blocks for further stages of its own");
  std::vector<Advice> advice;
  add_encoder_stages(advice, f, more);
  return if_gain(Level::hint, text + ", which wait for it",
                 {{"encoder stage", share, "of a decoder's"}}, std::move(advice));
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
  if (share < limits[Limit::encoder_share]) return small_stages(f, share, text);
  if (share > 1 + limits[Limit::stage_skew]) return large_stages(f, share, text);
  if (const auto beyond = beyond_megatron(f, own, f.config.parallel.encoder_tensor()))
    return fires(Level::note, *beyond, {{"encoder stage", share, "of a decoder's"}});
  return not_applicable(text);
}

}  // namespace viaduct::rules
