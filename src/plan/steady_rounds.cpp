#include "plan/steady_rounds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "run/parallel_settings.h"
#include "run/run_length.h"

namespace viaduct {
namespace {

/// A short step has so many rounds, and so many micro-batches, at least; the longer of the two that
/// are compared has half as many more.
constexpr int64_t kRounds = 8, kMicroBatches = 64;
/// Of a step: times that differ by less are equal.
constexpr double kRounding = 1e-10;

/// Micro-batches after which the schedule has the same order again.
int64_t round_of(const ResolvedRun& run) {
  const ScheduleSettings& schedule = run.parallelism.schedule;
  // Chunks go round the stages behind an encoder's own.
  const int64_t stages = run.parallelism.stage_order().behind();
  return schedule.kind == ScheduleKind::dualpipe_v ? 2 * stages : std::max(stages, schedule.group);
}

RunSetup with_micro_batches(const RunSetup& setup, int64_t count) {
  RunSetup other{
      .config = setup.config, .model = setup.model, .conversations = setup.conversations};
  TrainConfig& train = other.config.train;
  train.global_batch_size =
      count * (batch_schedule(setup.config).full() / micro_batches(setup.config));
  train.rampup_batch_size.reset();
  return other;
}

/// Whether each phase of a stage begins and ends `seconds` after the same one of the round before,
/// between the first and the last quarter of the micro-batches.
bool repeats(const StageTimeline& timeline, int64_t micro_batches, int64_t round, double seconds,
             double rounding) {
  std::map<std::tuple<std::string, int64_t, int>, TimeSpan> spans;
  for (const PhaseSpan& phase : timeline.phases)
    if (phase.micro_batch >= 0)
      spans.emplace(std::tuple(phase.name, phase.micro_batch, phase.chunk), phase.span);
  bool any = false;
  for (const auto& [key, span] : spans) {
    const auto& [name, micro_batch, chunk] = key;
    if (micro_batch < micro_batches / 4 || micro_batch + round >= micro_batches * 3 / 4) continue;
    const auto later = spans.find({name, micro_batch + round, chunk});
    if (later == spans.end() || std::abs(later->second.begin - span.begin - seconds) > rounding ||
        std::abs(later->second.end - span.end - seconds) > rounding)
      return false;
    any = true;
  }
  return any;
}

/// Two steps, the second one of `rounds` more.
struct Pair {
  Prediction first, second;
  int64_t micro_batches = 0;  // of the second one
  int64_t rounds = 0, round = 0;

  double seconds_of_round() const {
    return (second.step_seconds - first.step_seconds) / static_cast<double>(rounds);
  }
};

/// Of the host: those of ops, and one for each operation with other ranks.
int64_t launches_of(const DryRun& run) {
  int64_t sum = run.launches;
  for (const GroupTraffic& traffic : run.traffic) sum += traffic.count;
  return sum;
}

/// Whether all stages repeat their rounds, and go on so.
bool repeats(const Pair& pair, const PredictionSettings& settings) {
  const double seconds = pair.seconds_of_round(), rounding = kRounding * pair.second.step_seconds;
  for (size_t i = 0; i < pair.second.stages.size(); ++i) {
    const StagePrediction &stage = pair.second.stages[i], &fewer = pair.first.stages[i];
    const auto launches = static_cast<double>(launches_of(stage.run) - launches_of(fewer.run));
    if (launches / static_cast<double>(pair.rounds) * settings.launch_seconds > seconds + rounding)
      return false;
    if (stage.run.host_reads != fewer.run.host_reads || stage.run.offload.most_bytes > 0)
      return false;
    if (!repeats(stage.timeline, pair.micro_batches, pair.round, seconds, rounding)) return false;
  }
  return true;
}

/// `second` after further rounds, which add what those between `first` and it add: `times` as much.
struct Further {
  double times = 0;

  double operator()(double first, double second) const { return second + times * (second - first); }
  StageTime operator()(const StageTime& first, const StageTime& second) const {
    StageTime time;
    time.compute = (*this)(first.compute, second.compute);
    for (size_t i = 0; i < time.compute_by_kind.size(); ++i)
      time.compute_by_kind[i] = (*this)(first.compute_by_kind[i], second.compute_by_kind[i]);
    time.optimizer = (*this)(first.optimizer, second.optimizer);
    for (const auto& [group, seconds] : second.exposed) {
      const auto before = first.exposed.find(group);
      time.exposed[group] = (*this)(before == first.exposed.end() ? 0 : before->second, seconds);
    }
    time.bubble = (*this)(first.bubble, second.bubble);
    time.host = (*this)(first.host, second.host);
    return time;
  }
};

}  // namespace

std::optional<Prediction> predict_steady_rounds(const RunSetup& setup, const Cluster& cluster,
                                                const PredictionSettings& settings,
                                                ThreadPool& pool, const Deadline& deadline) {
  const int64_t count = micro_batches(setup.config);
  if (count == 0 || settings.timeline || settings.expert_product_seconds > 0 ||
      setup.config.context_parallel.hybrid_context_parallel)
    return std::nullopt;
  const int64_t round = round_of(resolve_run(setup.config, setup.model));
  const int64_t rounds = std::max(kRounds, (kMicroBatches + round - 1) / round);
  Pair pair{.rounds = rounds / 2, .round = round};
  const int64_t fewer = rounds * round + count % round;
  pair.micro_batches = fewer + pair.rounds * round;
  if (count <= 2 * pair.micro_batches) return std::nullopt;
  StageRuns whole(setup, cluster, StageRuns::Keep::memory);
  const auto made = [&](StageRuns& runs) {
    const auto ends = run_stages(
        pool, {&runs}, [](const StageRuns&) { return true; }, deadline);
    return !ends.front().early();
  };
  PredictionSettings timed = settings;
  timed.timeline = true;
  const auto predict_short = [&](int64_t of_step) -> std::optional<Prediction> {
    StageRuns runs(with_micro_batches(setup, of_step), cluster, kept_for(settings));
    if (!made(runs)) return std::nullopt;  // the whole step says why
    return predict(runs, cluster, timed, &pool, deadline);
  };
  std::optional<Prediction> shorter = predict_short(fewer);
  if (!shorter) return std::nullopt;
  std::optional<Prediction> longer = predict_short(pair.micro_batches);
  if (!longer) return std::nullopt;
  pair.first = *std::move(shorter), pair.second = *std::move(longer);
  if (!repeats(pair, settings) || !made(whole)) return std::nullopt;
  const Further further{static_cast<double>(count - pair.micro_batches) /
                        static_cast<double>(pair.micro_batches - fewer)};
  Prediction result;
  result.step_seconds = further(pair.first.step_seconds, pair.second.step_seconds);
  for (size_t i = 0; i < result.seconds_by_basis.size(); ++i)
    result.seconds_by_basis[i] =
        further(pair.first.seconds_by_basis[i], pair.second.seconds_by_basis[i]);
  for (size_t i = 0; i < whole.stages(); ++i) {
    const StagePrediction &first = pair.first.stages[i], &second = pair.second.stages[i];
    result.stages.push_back({whole.dry_run_of(i),
                             further(first.time, second.time),
                             further(first.busy_communication, second.busy_communication),
                             {}});
  }
  add_rates(whole, cluster, settings, result);
  return result;
}

}  // namespace viaduct
