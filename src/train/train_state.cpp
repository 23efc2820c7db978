#include "train/train_state.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

BestEvaluation best_from_json(const nlohmann::json& json) {
  BestEvaluation best;
  best.metric = json.at("metric").get<std::string>();
  best.value = json.at("value").get<double>();
  best.step = json.at("step").get<int64_t>();
  best.evaluations_since = json.at("evaluations_since").get<int64_t>();
  best.judged_step = json.at("judged_step").get<int64_t>();
  best.measured_on = json.value("measured_on", std::string());
  return best;
}

}  // namespace

std::string to_json(const TrainState& s) {
  nlohmann::ordered_json json{{"step", s.step},
                              {"updates", s.updates},
                              {"consumed_samples", s.consumed_samples},
                              {"consumed_tokens", s.consumed_tokens},
                              {"data_rows", s.data_rows},
                              {"schedule_samples", s.schedule_samples},
                              {"skipped", s.skipped},
                              {"nothing_scored", s.nothing_scored},
                              {"skipped_in_a_row", s.skipped_in_a_row},
                              {"loss_scale", s.scaler.scale},
                              {"scaler_clean_steps", s.scaler.clean_steps},
                              {"scaler_overflows_left", s.scaler.overflows_left}};
  if (s.seed) json["seed"] = *s.seed;
  if (s.best) {
    json["best"] = {{"metric", s.best->metric},
                    {"value", s.best->value},
                    {"step", s.best->step},
                    {"evaluations_since", s.best->evaluations_since},
                    {"judged_step", s.best->judged_step}};
    if (!s.best->measured_on.empty()) json["best"]["measured_on"] = s.best->measured_on;
  }
  if (!s.validated_on.empty()) json["validated_on"] = s.validated_on;
  return json.dump();
}

TrainState train_state_from_json(const std::string& text, const std::string& where) {
  try {
    const auto json = parse_json<nlohmann::json>(text, where);
    TrainState s;
    s.step = json.at("step").get<int64_t>();
    s.updates = json.at("updates").get<int64_t>();
    s.consumed_samples = json.at("consumed_samples").get<int64_t>();
    s.consumed_tokens = json.at("consumed_tokens").get<int64_t>();
    s.schedule_samples = json.at("schedule_samples").get<int64_t>();
    s.skipped = json.at("skipped").get<int64_t>();
    // Not in checkpoints of earlier versions.
    s.data_rows = json.value("data_rows", int64_t{0});
    s.skipped_in_a_row = json.value("skipped_in_a_row", int64_t{0});
    s.nothing_scored = json.value("nothing_scored", int64_t{0});
    s.scaler.scale = json.at("loss_scale").get<double>();
    s.scaler.clean_steps = json.at("scaler_clean_steps").get<int64_t>();
    s.scaler.overflows_left = json.at("scaler_overflows_left").get<int64_t>();
    if (json.contains("seed")) s.seed = json.at("seed").get<uint64_t>();
    if (json.contains("best")) s.best = best_from_json(json.at("best"));
    s.validated_on = json.value("validated_on", std::string());
    VIADUCT_CHECK(IoError,
                  !s.best || (s.best->step >= 0 && s.best->step <= s.best->judged_step &&
                              s.best->judged_step <= s.step && s.best->evaluations_since >= 0),
                  "{}: the best evaluation of the training state contradicts its step", where);
    VIADUCT_CHECK(IoError,
                  s.step >= 0 && s.updates >= 0 && s.updates <= s.step && s.consumed_samples >= 0 &&
                      s.schedule_samples >= 0 && s.skipped_in_a_row >= 0 && s.data_rows >= 0 &&
                      s.nothing_scored >= 0,
                  "{}: counters of the training state contradict each other", where);
    return s;
  } catch (const nlohmann::json::exception& error) {
    fail<IoError>("{}: the training state is damaged: {}", where, error.what());
  }
}

}  // namespace viaduct
