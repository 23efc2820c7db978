#include "train/resume_schedules.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "config/choice.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

constexpr const char* kKey = "schedules";

/// Calls `visit(key, name, member)` for the numbers of schedules: its key in the JSON, its name in
/// messages, and a function that gets it from schedules.
template <class Visit>
void for_each_number(Visit visit) {
  using Rate = LearningRateSchedule;
  using Decay = WeightDecaySchedule;
  const auto rate = [&](const char* key, const char* name, double Rate::*member) {
    visit(
        key, name, [member](auto& s) -> auto& { return s.learning_rate.*member; });
  };
  const auto decay = [&](const char* key, const char* name, double Decay::*member) {
    visit(
        key, name, [member](auto& s) -> auto& { return s.weight_decay.*member; });
  };
  rate("maximum_rate", "optimizer.lr", &Rate::maximum_rate);
  rate("minimum_rate", "optimizer.min_lr", &Rate::minimum_rate);
  rate("initial_rate", "scheduler.lr_warmup_init", &Rate::initial_rate);
  rate("warmup_samples", "rows of warm-up", &Rate::warmup_samples);
  rate("decay_samples", "rows of the learning rate's decay", &Rate::decay_samples);
  rate("anneal_samples", "rows of the last stretch of WSD", &Rate::anneal_samples);
  decay("start_weight_decay", "scheduler.start_weight_decay", &Decay::start);
  decay("end_weight_decay", "scheduler.end_weight_decay", &Decay::end);
  decay("growth_samples", "rows over which weight decay grows", &Decay::growth_samples);
}

/// Null without a separate rate for embedding and output layer.
std::optional<double> decoupled(const Schedules& s, double LearningRateSchedule::*member) {
  return s.decoupled_rate ? std::optional(*s.decoupled_rate.*member) : std::nullopt;
}

/// "NAME: A in the checkpoint, B here" for all differences.
std::vector<std::string> differences(const Schedules& stored, const Schedules& configured) {
  std::vector<std::string> texts;
  const auto add = [&](const char* name, const auto& then, const auto& now) {
    if (then != now) texts.push_back(fmt::format("{}: {} there, {} here", name, then, now));
  };
  for_each_number(
      [&](const char*, const char* name, auto of) { add(name, of(stored), of(configured)); });
  const LearningRateSchedule &then = stored.learning_rate, &now = configured.learning_rate;
  for (const auto& [name, member] :
       {std::pair{"optimizer.decoupled_lr", &LearningRateSchedule::maximum_rate},
        {"optimizer.decoupled_min_lr", &LearningRateSchedule::minimum_rate}}) {
    const auto text = [member = member](const Schedules& s) {
      const auto rate = decoupled(s, member);
      return rate ? fmt::format("{}", *rate) : std::string("none");
    };
    add(name, text(stored), text(configured));
  }
  add("scheduler.lr_decay_style", choice_name(then.style), choice_name(now.style));
  add("scheduler.lr_wsd_decay_style", choice_name(then.anneal), choice_name(now.anneal));
  add("scheduler.weight_decay_incr_style", choice_name(stored.weight_decay.growth),
      choice_name(configured.weight_decay.growth));
  return texts;
}

bool makes_sense(const Schedules& s) {
  const LearningRateSchedule& rate = s.learning_rate;
  bool sense =
      rate.minimum_rate <= rate.maximum_rate && rate.initial_rate <= rate.maximum_rate &&
      (rate.style != DecayStyle::warmup_stable_decay ||
       rate.anneal_samples <= rate.decay_samples) &&
      s.weight_decay.start <= s.weight_decay.end &&
      (!s.decoupled_rate || (s.decoupled_rate->minimum_rate >= 0 &&
                             s.decoupled_rate->minimum_rate <= s.decoupled_rate->maximum_rate));
  sense = sense && (rate.style == DecayStyle::constant || rate.warmup_samples < rate.decay_samples);
  for_each_number([&](const char*, const char*, auto of) { sense = sense && of(s) >= 0; });
  return sense;
}

}  // namespace

std::string with_schedules(const std::string& state, const Schedules& schedules) {
  Json json = parse_json<Json>(state, "training state");
  Json& stored = json[kKey];
  for_each_number([&](const char* key, const char*, auto of) { stored[key] = of(schedules); });
  if (schedules.decoupled_rate) {
    stored["decoupled_maximum_rate"] = schedules.decoupled_rate->maximum_rate;
    stored["decoupled_minimum_rate"] = schedules.decoupled_rate->minimum_rate;
  }
  stored["lr_decay_style"] = choice_name(schedules.learning_rate.style);
  stored["lr_wsd_decay_style"] = choice_name(schedules.learning_rate.anneal);
  stored["weight_decay_incr_style"] = choice_name(schedules.weight_decay.growth);
  return json.dump();
}

std::optional<Schedules> stored_schedules(const std::string& state, const std::string& where) {
  try {
    const Json json = parse_json<Json>(state, where);
    if (!json.contains(kKey)) return std::nullopt;
    const Json& stored = json.at(kKey);
    Schedules schedules;
    for_each_number([&](const char* key, const char*, auto of) {
      of(schedules) = stored.at(key).get<double>();
    });
    const auto read = [&]<NamedEnum E>(const char* key, E& target) {
      const auto name = stored.at(key).get<std::string>();
      const auto value = choice_of<E>(name);
      VIADUCT_CHECK(IoError, value, "{}: its schedules are damaged: {} = \"{}\"", where, key, name);
      target = *value;
    };
    read("lr_decay_style", schedules.learning_rate.style);
    read("lr_wsd_decay_style", schedules.learning_rate.anneal);
    read("weight_decay_incr_style", schedules.weight_decay.growth);
    if (stored.contains("decoupled_maximum_rate")) {
      schedules.decoupled_rate = schedules.learning_rate;  // except the rates
      schedules.decoupled_rate->maximum_rate = stored.at("decoupled_maximum_rate").get<double>();
      schedules.decoupled_rate->minimum_rate = stored.at("decoupled_minimum_rate").get<double>();
    }
    VIADUCT_CHECK(IoError, makes_sense(schedules), "{}: its schedules are invalid", where);
    return schedules;
  } catch (const Json::exception& error) {
    fail<IoError>("{}: its schedules are damaged: {}", where, error.what());
  }
}

Schedules resume_schedules(const Schedules& configured, const std::optional<Schedules>& stored,
                           const SchedulerConfig& config, const std::string& where) {
  if (config.override_opt_param_scheduler.value()) return configured;
  const bool use_stored = config.use_checkpoint_opt_param_scheduler;
  VIADUCT_CHECK(ConfigError, stored,
                "{}: has no schedules (it was written by an earlier version); scheduler.{}", where,
                use_stored ? "use_checkpoint_opt_param_scheduler=false uses the configuration's"
                           : "override_opt_param_scheduler=true uses the configuration's");
  if (use_stored) {
    VIADUCT_CHECK(
        ConfigError, stored->decoupled_rate.has_value() == configured.decoupled_rate.has_value(),
        "scheduler.use_checkpoint_opt_param_scheduler: {} has {} optimizer.decoupled_lr, "
        "and the configuration has {}",
        where, stored->decoupled_rate ? "an" : "no", configured.decoupled_rate ? "one" : "none");
    return *stored;
  }
  std::vector<std::string> problems;
  for (const std::string& difference : differences(*stored, configured)) {
    problems.push_back(
        fmt::format("{} ({}); scheduler.override_opt_param_scheduler=true uses the configuration's "
                    "value, scheduler.use_checkpoint_opt_param_scheduler=true the checkpoint's",
                    difference, where));
  }
  if (!problems.empty()) throw ConfigError(problems);
  return configured;
}

}  // namespace viaduct
