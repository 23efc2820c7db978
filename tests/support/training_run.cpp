#include "support/training_run.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace viaduct::test {
namespace {

/// Rows [begin, begin + count) of a step: each a document, every third two of them; some tokens
/// are not scored.
HostBatch make_rows(const TrainingRun& run, int64_t step, int64_t begin, int64_t count) {
  HostBatch batch;
  for (int64_t row = begin; row < begin + count; ++row) {
    std::mt19937 random(static_cast<unsigned>(1000 * step + row));
    const auto token = [&] {
      return static_cast<int32_t>(random() % static_cast<unsigned>(run.model.vocabulary));
    };
    int32_t position = 0;
    for (int64_t i = 0; i < run.length; ++i) {
      if (row % 3 == 1 && i == run.length / 3) batch.end_document(), position = 0;
      batch.ids.push_back(token());
      batch.positions.push_back(position++);
      const bool scored = random() % 7 != 0;
      batch.targets.push_back(scored ? token() : -1);
      batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
      batch.token_index.push_back((step * run.rows + row) * run.length + i);
    }
    batch.end_document();
  }
  return batch;
}

void append(std::string& bytes, const Tensor& tensor) {
  bytes.append(static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.bytes()));
}

}  // namespace

StepTrainer::StepTrainer(const TrainingRun& run)
    : run_(run),
      device_(run.device ? run.device(run.threads) : make_cpu_device(run.threads)),
      ops_(run.ops ? run.ops(run.isa) : cpu_ops(run.isa)) {
  resolved_.layers.precision = precision_recipe(run.recipe);
  if (run.products.any()) resolved_.layers.precision.products = run.products;
  resolved_.layers.precision.plain_layers = run.plain_layers;
  resolved_.layers.seed = run.seed;
  resolved_.positions = run.length;
  resolved_.memory.packed_weights = run.packed_weights;
  engine_ = std::make_unique<Engine>(*device_, ops_, run.model, resolved_);
  engine_->initialize();
}

StepResult StepTrainer::step(bool update) {
  StepInputs inputs;
  inputs.update = static_cast<int64_t>(results_.size()) + 1;
  inputs.learning_rate = 1e-2;
  inputs.loss_scale = run_.loss_scale;
  engine_->begin_step(inputs);
  double scored = 0;
  engine_->run_micro_batches(run_.rows / run_.rows_per_batch, [&](int64_t i) {
    HostBatch batch = make_rows(run_, inputs.update, i * run_.rows_per_batch, run_.rows_per_batch);
    scored += batch.scored_weight();
    return batch;
  });
  results_.push_back(engine_->finish_step(scored, update));
  return results_.back();
}

std::string StepTrainer::state() const {
  std::string bytes;
  for (const Parameter* p : engine_->store().parameters()) {
    append(bytes, engine_->store().weight(*p));
    append(bytes, engine_->store().master(*p));
    append(bytes, engine_->store().main_gradient(*p));
  }
  for (const OptimizerState& state : engine_->optimizer()->states()) {
    for (const StateValues& values : state.runs) {
      if (values.values) append(bytes, values.values);
      if (values.scales) append(bytes, values.scales);
    }
  }
  for (const StepResult& r : results_) {
    for (const double value : {r.loss, r.grad_norm})
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

std::vector<std::vector<double>> StepTrainer::gradients() const {
  std::vector<std::vector<double>> list;
  for (const Parameter* p : engine_->store().parameters()) {
    const float* values = engine_->store().main_gradient(*p).data<float>();
    list.emplace_back(values, values + p->shape.elements());
  }
  return list;
}

double worst_distance(const std::vector<std::vector<double>>& a,
                      const std::vector<std::vector<double>>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (size_t p = 0; p < std::min(a.size(), b.size()); ++p) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < b[p].size(); ++i) {
      difference += (a[p].at(i) - b[p][i]) * (a[p].at(i) - b[p][i]);
      size += b[p][i] * b[p][i];
    }
    const double distance = std::sqrt(difference / size);
    worst = distance <= worst ? worst : distance;  // NaN stays
  }
  return worst;
}

}  // namespace viaduct::test
