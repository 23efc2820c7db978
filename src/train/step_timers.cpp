#include "train/step_timers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "comm/exchange_texts.h"

namespace viaduct {

void add_record_timers(const StepRecord& record, size_t first_op, size_t first_collective,
                       StepTimers& timers) {
  for (size_t i = first_op; i < record.ops().size(); ++i) {
    const OpEntryRecord& op = record.ops()[i];
    timers["op/" + op.op] += op.end_seconds - op.begin_seconds;
  }
  for (size_t i = first_collective; i < record.collectives().size(); ++i) {
    const CollectiveRecord& c = record.collectives()[i];
    timers["wait/" + c.group + "/" + c.operation] += c.complete_seconds - c.wait_begin_seconds;
  }
}

RankTimers timers_of_ranks(Communicator& world, const StepTimers& mine) {
  RankTimers all;
  for (const std::string& text : exchange_texts(world, nlohmann::json(mine).dump())) {
    for (const auto& [name, seconds] : nlohmann::json::parse(text).get<StepTimers>()) {
      const auto [at, first] = all.try_emplace(name, TimerRange{seconds, seconds});
      if (first) continue;
      at->second.least = std::min(at->second.least, seconds);
      at->second.most = std::max(at->second.most, seconds);
    }
  }
  return all;
}

}  // namespace viaduct
