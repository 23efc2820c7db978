#include "plan/score/score.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/thread_pool.h"
#include "plan/planning_defaults.h"
#include "plan/score/long_step.h"
#include "plan/score/published_cluster.h"
#include "plan/score/published_memory.h"
#include "plan/score/published_recipe.h"
#include "plan/score/published_run.h"

namespace viaduct {
namespace {

constexpr double kGibi = 1024.0 * 1024 * 1024;
constexpr std::string_view kBatch = "train.global_batch_size=";

/// A configuration on a cluster, shared by rows with the same prediction.
struct Task {
  Cluster cluster;
  PublishedRun run;
  bool memory_only = false;
  // Results:
  std::string refused;  // why there are none
  double tokens_per_second = 0, capacity = 0;
  MemoryParts memory;  // of the dry run

  /// How long it takes, roughly: micro-batches of all stages that virtual time is computed for.
  int64_t work() const { return run.stages * LongStep(run.micro_batches, run.stages).shown(); }
};

/// A row that waits for its task.
struct Pending {
  PublishedRow row;
  size_t task = 0;
  PublishedRun run;
  std::optional<double> throughput, memory_bytes;
  double library_bytes = 0;
};

bool out_of_memory(const PublishedRow& row) {
  return row.notes_mention("OOM") || row.notes_mention("out of memory");
}

class Scorer {
 public:
  Scorer(const CsvTable& table, PublishedKind kind, const ScoreSettings& settings)
      : table_(table), settings_(settings) {
    score_.kind = kind;
  }

  Score run() {
    std::vector<std::optional<Pending>> pending;
    std::vector<std::string> reasons;
    for (const CsvRow& csv : table_.rows) {
      const PublishedRow row(table_, csv);
      reasons.emplace_back();
      pending.emplace_back();
      try {
        pending.back() = prepare(row);
      } catch (const UnsupportedRow& problem) {
        reasons.back() = problem.what();
      }
    }
    // The longest first, so that no thread is left with one while the others are done.
    std::vector<Task*> queue;
    for (Task& task : tasks_) queue.push_back(&task);
    std::stable_sort(queue.begin(), queue.end(),
                     [](const Task* a, const Task* b) { return a->work() > b->work(); });
    ThreadPool(std::max(1, settings_.threads))
        .run(static_cast<int64_t>(queue.size()),
             [&](int64_t task, int) { predict_task(*queue[static_cast<size_t>(task)]); });
    for (size_t i = 0; i < table_.rows.size(); ++i) {
      const PublishedRow row(table_, table_.rows[i]);
      const std::string& reason = pending[i] ? tasks_[pending[i]->task].refused : reasons[i];
      if (!reason.empty())
        score_.unsupported.push_back({row.id(), reason});
      else
        collect(*pending[i]);
    }
    return std::move(score_);
  }

 private:
  bool of_memory() const { return score_.kind == PublishedKind::memory; }

  Pending prepare(const PublishedRow& row) {
    Pending pending{row, 0, {}, {}, {}, 0};
    std::vector<std::string> notes;
    if (of_memory()) {
      pending.memory_bytes = row.number("mem_max_allocated_bytes");
      if (!pending.memory_bytes && !out_of_memory(row))
        throw UnsupportedRow("no peak memory stated");
    } else {
      if (const auto memory = row.number("memory_gb")) pending.memory_bytes = *memory * kGibi;
      try {
        pending.throughput = published_throughput(row, notes);
      } catch (const ConfigError& error) {
        throw UnsupportedRow(error.what());
      }
      if (!pending.throughput && !pending.memory_bytes && !out_of_memory(row))
        throw UnsupportedRow("no throughput stated");
    }
    Cluster cluster = published_cluster(row);
    const auto constant = settings_.constants.find(cluster.gpu.name);
    cluster.gpu.step_share = constant == settings_.constants.end() ? 1 : constant->second;
    pending.run = of_memory() ? published_memory_run(row) : published_run(row);
    if (of_memory()) pending.library_bytes = static_cast<double>(library_bytes(row, cluster.gpu));
    notes.insert(notes.end(), pending.run.notes.begin(), pending.run.notes.end());
    pending.run.notes = std::move(notes);
    pending.task = task_of(std::move(cluster), pending.run);
    return pending;
  }

  size_t task_of(Cluster cluster, const PublishedRun& run) {
    const std::string key = fmt::format(
        "{} {} {} {} {} {} {} {} {} {} {}", cluster.name, cluster.domain,
        cluster.nic_bytes_per_second, run.library_attention, run.attention_share.value_or(0),
        run.extra_passes.value_or(0), run.product_repeats, run.activation_gradient_delay,
        run.expert_product_seconds, run.launch_seconds.value_or(0), fmt::join(run.overrides, " "));
    const auto [at, added] = task_index_.try_emplace(key, tasks_.size());
    if (added)
      tasks_.push_back({.cluster = std::move(cluster), .run = run, .memory_only = of_memory()});
    return at->second;
  }

  static void predict_task(Task& task) {
    try {
      PredictionSettings settings = prediction_settings(task.cluster);
      settings.ops.narrow_experts = true;  // other trainers have such kernels
      settings.ops.own_kernels = false;
      settings.ops.library_attention = task.run.library_attention;
      if (task.run.attention_share) settings.ops.attention_share = *task.run.attention_share;
      if (task.run.extra_passes) settings.ops.extra_passes = *task.run.extra_passes;
      settings.ops.product_repeats = task.run.product_repeats;
      settings.ops.activation_gradient_delay = task.run.activation_gradient_delay;
      settings.expert_product_seconds = task.run.expert_product_seconds;
      if (task.run.launch_seconds) settings.launch_seconds = *task.run.launch_seconds;
      task.capacity = capacity_bytes(task.cluster, settings);
      if (task.memory_only) {
        // Megatron-LM logs the memory of the last rank.
        task.memory = parts_of(dry_run_stages(setup_of(task, task.run.batch)).back());
        return;
      }
      const PublishedRun& run = task.run;
      const LongStep step(run.micro_batches, run.stages);
      const int64_t rows = run.batch / std::max<int64_t>(1, run.micro_batches);
      PredictionSettings timed = settings;
      timed.timeline = step.is_shortened();
      const Prediction shown =
          predict(setup_of(task, step.is_shortened() ? step.shown() * rows : run.batch),
                  task.cluster, timed);
      task.tokens_per_second = shown.tokens_per_second_per_gpu * step.speed_share(shown);
      for (const StagePrediction& stage : shown.stages) {
        const MemoryParts parts = parts_of(stage.run);
        if (parts.peak() > task.memory.peak()) task.memory = parts;
      }
    } catch (const Error& error) {
      task.refused = error.what();
    }
  }

  static RunSetup setup_of(const Task& task, int64_t batch) {
    // The matrix of our deterministic backward by cuDNN is not in other programs' memory; its time
    // is OpTimeSettings' (library_attention).
    std::vector<std::string> overrides{"model.attention_backend=flash"};
    overrides.insert(overrides.end(), task.run.overrides.begin(), task.run.overrides.end());
    for (std::string& text : overrides)
      if (text.starts_with(kBatch)) text = fmt::format("{}{}", kBatch, batch);
    return prepare_run(load_run_config({}, overrides, planning_defaults(task.cluster)));
  }

  static MemoryParts parts_of(const DryRun& stage) {
    return {static_cast<double>(stage.bytes_after),
            static_cast<double>(stage.peak.bytes - stage.bytes_after)};
  }

  /// Of a row that says how much stays.
  static std::optional<MemoryParts> published_parts(const Pending& pending) {
    const auto staying = pending.row.number("mem_allocated_bytes");
    if (!staying || !pending.memory_bytes) return {};
    return MemoryParts{*staying, *pending.memory_bytes - *staying};
  }

  void collect(const Pending& pending) {
    const Task& task = tasks_[pending.task];
    const PublishedRow& row = pending.row;
    std::vector<std::string> notes = pending.run.notes;
    const bool failed = out_of_memory(row);
    JudgedMemory memory{row.id(), task.memory, pending.library_bytes, task.capacity, {}, {}, true};
    memory.predicted.staying += pending.library_bytes;
    memory.published_fits = !failed;
    if (!failed) {  // a value read before the run failed is not a peak
      memory.published_bytes = pending.memory_bytes;
      memory.published = published_parts(pending);
    }
    const bool fits = memory.fits();
    if (!fits)
      notes.push_back(fmt::format("does not fit: {:.1f} GB of {:.1f}",
                                  memory.predicted.peak() / 1e9, task.capacity / 1e9));
    const double peak = memory.predicted.peak();
    if (pending.memory_bytes || failed) score_.memory.push_back(std::move(memory));
    if (failed) notes.emplace_back("the run is said to be out of memory");
    const std::optional<double> published =
        of_memory() ? (failed ? std::nullopt : pending.memory_bytes) : pending.throughput;
    if (!published) {
      score_.unsupported.push_back(
          {row.id(), fmt::format("no {} stated; only its memory is scored",
                                 of_memory() ? "peak of memory" : "throughput")});
      return;
    }
    score_.rows.push_back({row.id(), task.cluster.gpu.name,
                           of_memory() ? peak : task.tokens_per_second, *published,
                           fmt::format("{}", fmt::join(notes, "; ")), fits});
  }

  const CsvTable& table_;
  const ScoreSettings& settings_;
  Score score_;
  std::vector<Task> tasks_;
  std::map<std::string, size_t> task_index_;
};

}  // namespace

Score score_table(const CsvTable& table, const std::string& origin, const ScoreSettings& settings) {
  return Scorer(table, published_kind(table, origin), settings).run();
}

std::optional<ErrorSummary> summary_of(const std::vector<double>& errors) {
  if (errors.empty()) return {};
  ErrorSummary summary;
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    summary.mape += sizes.back();
    summary.bias += error;
  }
  const size_t count = sizes.size();
  summary.mape /= static_cast<double>(count);
  summary.bias /= static_cast<double>(count);
  std::sort(sizes.begin(), sizes.end());
  summary.median = (sizes[(count - 1) / 2] + sizes[count / 2]) / 2;
  summary.p90 = sizes[(9 * count + 9) / 10 - 1];
  return summary;
}

std::optional<ErrorSummary> summary_of(const std::vector<ScoredRow>& rows) {
  std::vector<double> errors;
  for (const ScoredRow& row : rows) errors.push_back(row.error());
  return summary_of(errors);
}

std::vector<double> errors_of(const std::vector<JudgedMemory>& rows, double MemoryParts::*part) {
  std::vector<double> errors;
  for (const JudgedMemory& row : rows)
    if (row.published) errors.push_back(row.predicted.*part / (*row.published).*part - 1);
  return errors;
}

}  // namespace viaduct
