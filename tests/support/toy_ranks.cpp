#include "support/toy_ranks.h"

#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "comm/world.h"
#include "model/initialize.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "sharding/master_values.h"
#include "support/instruction_set.h"
#include "support/tensor_bytes.h"

namespace viaduct::test {
namespace {

std::vector<Parameter> toy_parameters() {
  std::vector<Parameter> list;
  for (const Shape& shape : toy_shapes()) {
    Parameter p;
    p.path = "toy" + std::to_string(list.size());
    p.shape = shape;
    p.weight_gradient = p.decay = shape.rank() == 2;
    if (shape.rank() == 1) p.init = {InitKind::constant, 0, 1};
    p.parts = {whole_part(p.path, shape)};
    list.push_back(std::move(p));
  }
  return list;
}

class ToyTrainer {
 public:
  ToyTrainer(const ToyRun& run, std::shared_ptr<Communicator> world)
      : run_(run), device_(make_cpu_device(1)), ops_(cpu_ops(instruction_set())) {
    world->record_on(device_.get());
    rank_ = world->rank();
    groups_ = ParallelGroups(run.mesh.with({.optimizer_instances = run.instances}), world);
    parameters_ = toy_parameters();
    if (run.change) run.change(parameters_, groups_);
    std::vector<std::vector<ParameterUse>> chunks(static_cast<size_t>(run.chunks));
    for (size_t i = 0; i < parameters_.size(); ++i)
      chunks[i * chunks.size() / parameters_.size()].emplace_back(&parameters_[i], layer_of(i));
    PrecisionRecipe recipe = precision_recipe(run.recipe);
    if (run.formats) run.formats(recipe);
    store_ = std::make_unique<ParameterStore>(*device_, recipe, chunks, run.store, groups_);
    optimizer_ = make_optimizer(context_, recipe, *store_, run.optimizer, groups_);
    norm_ = std::make_unique<GradientNorm>(context_, *store_, true);
    scalars_ = device_->allocate(DType::f64, {kStepScalars}, MemoryTag::other);
    initialize_parameters(context_, *store_, 7);
  }

  void step(int step) {
    set(StepScalar::learning_rate, 0.01);
    set(StepScalar::weight_decay_factor, 1);
    set(StepScalar::update, step + 1);
    set(StepScalar::bias_correction1, 1 - std::pow(0.9, step + 1));
    set(StepScalar::bias_correction2, 1 - std::pow(0.95, step + 1));
    set(StepScalar::gradient_factor, store_->gradient_divisor() / 16.0);
    set(StepScalar::clip_norm, 1);
    store_->begin_step(context_);
    store_->expect_backwards(run_.micro_batches);
    for (int i = 0; i < run_.micro_batches; ++i) {
      forward();
      backward(step, i);
    }
    store_->finish_gradients(context_);
    norm_->compute(context_, scalars_);
    optimizer_->step(context_, scalars_);
    outcome_.norms.push_back(get(StepScalar::gradient_norm));
  }

  ToyRank finish() {
    forward();  // lazy gathers
    outcome_.weight_bytes = held(MemoryTag::weights);
    store_->finish_gathers();
    store_->gather_gradients();
    for (const Parameter& p : parameters_) {
      outcome_.weights += bytes_of(store_->weight(p));
      outcome_.gradients += bytes_of(store_->main_gradient(p));
    }
    for (const ParameterBuffer& buffer : store_->buffers())
      outcome_.buffer_elements += buffer.layout().elements();
    for (const ShardRun& run : store_->shard_runs()) {
      outcome_.run_elements += run.range.size();
      outcome_.masters += bytes_of(master_values(context_, run));
    }
    const auto held = [&](MemoryTag tag) {
      return device_->memory().bytes_by_tag[static_cast<size_t>(tag)];
    };
    outcome_.gradient_bytes = held(MemoryTag::main_gradients);
    outcome_.master_bytes = held(MemoryTag::master_weights);
    outcome_.moment_bytes = held(MemoryTag::moments);
    return std::move(outcome_);
  }

  void record() { device_->set_record(&outcome_.record); }
  void stop_record() { device_->set_record(nullptr); }

 private:
  /// Two parameters form a layer.
  static int layer_of(size_t parameter) { return static_cast<int>(parameter / 2); }
  /// Gathers as a forward does from the parameter `from` on.
  GatherPlan plan(size_t from) const {
    GatherPlan plan;
    for (size_t i = from; i < parameters_.size(); ++i) {
      const size_t unit = store_->bucket_of(parameters_[i]);
      if (i == from) {
        store_->sharded_weights()->plan_now(plan, unit);
      } else if (!store_->sharded_weights()->plan_ahead(plan, unit)) {
        break;
      }
    }
    return plan;
  }
  void forward() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& p = parameters_[run_.last_first ? parameters_.size() - 1 - i : i];
      if (run_.plans && store_->shards_weights()) {
        store_->sharded_weights()->keep_gathered(plan(i));
        store_->sharded_weights()->gather(plan(i));
      }
      const AcquiredWeight weight(*store_, p, WeightUse::forward);
      const Tensor out = context_.allocate(weight.tensor().dtype(), p.shape, MemoryTag::other);
      copy(context_, {weight.tensor(), out});
    }
    if (run_.plans && store_->shards_weights()) store_->sharded_weights()->keep_gathered({});
  }
  void backward(int step, int micro_batch) {
    for (size_t i = parameters_.size(); i-- > 0;) {
      const auto to = store_->gradient(parameters_[i]);
      const Tensor values = host_tensor(DType::f32, parameters_[i].shape);
      for (int64_t e = 0; e < values.elements(); ++e)
        values.data<float>()[e] = toy_gradient(step, rank_, micro_batch, static_cast<int>(i), e);
      copy(context_, {values, to.tensor, to.mode});
      store_->done(parameters_[i]);
    }
  }
  int64_t held(MemoryTag tag) const {
    return device_->memory().bytes_by_tag[static_cast<size_t>(tag)];
  }
  void set(StepScalar slot, double value) { *step_scalar(scalars_, slot).data<double>() = value; }
  double get(StepScalar slot) { return *step_scalar(scalars_, slot).data<double>(); }

  const ToyRun& run_;
  std::unique_ptr<Device> device_;
  OpTable ops_;
  OpContext context_{*device_, ops_};
  int rank_ = 0;
  ParallelGroups groups_;
  std::vector<Parameter> parameters_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientNorm> norm_;
  Tensor scalars_;
  ToyRank outcome_;
};

}  // namespace

std::vector<Shape> toy_shapes() {
  return {{7, 30}, {30}, {40, 33}, {33}, {5, 19}, {19}};
}

int64_t toy_elements() {
  int64_t sum = 0;
  for (const Shape& shape : toy_shapes()) sum += shape.elements();
  return sum;
}

std::vector<std::vector<double>> toy_weights(const std::string& bytes) {
  std::vector<std::vector<double>> list;
  const char* next = bytes.data();
  for (const Shape& shape : toy_shapes()) {
    std::vector<float> floats(static_cast<size_t>(shape.elements()));
    std::memcpy(floats.data(), next, floats.size() * sizeof(float));
    next += floats.size() * sizeof(float);
    list.emplace_back(floats.begin(), floats.end());
  }
  return list;
}

float toy_gradient(int step, int rank, int micro_batch, int parameter, int64_t element) {
  const RandomKey key{static_cast<uint64_t>(100 * step + rank),
                      static_cast<uint64_t>(100 * parameter + micro_batch)};
  const auto words = philox4x32(philox_key(key), static_cast<uint64_t>(element), 0);
  return static_cast<float>(words[0]) / 0x1p32f - 0.5f;
}

std::vector<CollectiveRecord> ToyRank::collectives(const std::string& operation) const {
  std::vector<CollectiveRecord> list;
  for (const CollectiveRecord& c : record.collectives()) {
    if (choice_name(c.operation) == operation && c.ranks > 1) list.push_back(c);
  }
  return list;
}

std::vector<ToyRank> train_toy(const ToyRun& run) {
  std::vector<ToyRank> outcomes(static_cast<size_t>(run.mesh.ranks()));
  run_thread_ranks(run.mesh.ranks(), {.timeout_seconds = 60},
                   [&](std::shared_ptr<Communicator> world) {
                     ToyTrainer trainer(run, world);
                     for (int step = 0; step < run.steps; ++step) {
                       if (step + 1 == run.steps) trainer.record();
                       trainer.step(step);
                     }
                     trainer.stop_record();
                     outcomes[static_cast<size_t>(world->rank())] = trainer.finish();
                   });
  return outcomes;
}

}  // namespace viaduct::test
