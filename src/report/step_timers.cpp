#include "report/step_timers.h"

#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

std::string to_text(const RankTimers& timers) {
  Json object = Json::object();
  for (const auto& [name, t] : timers)
    object[name] = {t.sum, t.least, t.most, t.counted, t.least_rank, t.most_rank};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankTimers from_text(const std::string& text) {
  RankTimers timers;
  if (text.empty()) return timers;
  const Json object = parse_json<Json>(text, "timers of the ranks");
  for (const auto& [name, t] : object.items()) timers[name] = {t[0], t[1], t[2], t[3], t[4], t[5]};
  return timers;
}

/// Its size does not grow with the number of ranks.
std::string merge_timers(std::string lower, const std::string& upper) {
  RankTimers timers = from_text(lower);
  for (const auto& [name, other] : from_text(upper)) {
    const auto [at, first] = timers.try_emplace(name, other);
    if (!first) at->second.merge(other);
  }
  return to_text(timers);
}

}  // namespace

void add_counted_timers(const StepCounters& counters, StepTimers& timers) {
  for (const auto& [name, op] : counters.ops) timers["op/" + name] += op.seconds;
  for (const CollectiveCounter& c : counters.collectives)
    timers["wait/" + c.group + "/" + std::string(choice_name(c.operation))] += c.wait_seconds;
}

RankTimers timers_of_ranks(HostGroup& host, const StepTimers& mine) {
  RankTimers timers;
  for (const auto& [name, seconds] : mine)
    timers[name] = {seconds, seconds, seconds, 1, host.rank(), host.rank()};
  return from_text(host.merge_on_rank_0(to_text(timers), merge_timers));
}

}  // namespace viaduct
