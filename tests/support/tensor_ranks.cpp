#include "support/tensor_ranks.h"
#include "model/model_place.h"
#include "model/segment_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>

#include "base/error.h"
#include "base/hash.h"
#include "comm/world.h"
#include "device/recording.h"
#include "engine/cut_batch.h"
#include "model/offload_segments.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "support/instruction_set.h"
#include "support/op_testing.h"

namespace viaduct::test {
namespace {

constexpr int64_t kPositions = 16;
constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();

/// Checks that ranks which hold the same value have the same bits.
void set_once(double& to, double value) {
  if (std::isnan(to)) to = value;
  EXPECT_EQ(to, value);
}

void expect_same_bits(const std::vector<double>& a, const std::vector<double>& b,
                      const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(double)), 0) << what;
}

LayerSettings settings_of(const TensorRun& run) {
  PrecisionRecipe recipe = precision_recipe(run.recipe, run.fp32_residual);
  if (run.products.any()) recipe.products = run.products;
  return {.precision = recipe,
          .fusions = run.fusions,
          .sequence_parallel = run.sequence_parallel,
          .overlap = run.overlap,
          .context_exchange = run.context_exchange,
          .recompute_logits = run.recompute_logits,
          .seed = 99};
}

ModelPlace place_of(const TensorRun& run, int rank) {
  ModelPlace place;
  place.tp = run.tp, place.tp_rank = rank % run.tp;
  place.vocabulary_multiple = run.vocabulary_multiple;
  return place;
}

/// Values around 0, for norms around 1, so that every term shows.
Tensor logical_weight(const std::string& name, const Shape& shape, const TensorRun& run) {
  const Tensor tensor = host_tensor(DType::f64, shape);
  std::mt19937 random(static_cast<unsigned>(hash64(name) + run.draw));
  std::normal_distribution<double> normal;
  const bool norm = name.find("norm") != std::string::npos || name.find("ln_") != std::string::npos;
  const double middle = norm && name.ends_with(".weight") ? 1 : 0;
  for (int64_t i = 0; i < shape.elements(); ++i)
    set_element(tensor, i, middle + run.deviation * normal(random));
  return tensor;
}

/// The elements of a part in a tensor of the parameter's storage, in the order of its box.
Tensor box_of(const Tensor& stored, const Part& part) {
  const Tensor rows = stored.slice(0, part.storage_row, part.rows());
  return part.transposed ? rows.transposed(0, 1) : rows;
}

/// Calls f(index in the logical tensor, index in the box) for every element of a part.
template <class F>
void for_each_element(const Part& part, F&& f) {
  const bool matrix = part.logical_shape.rank() == 2;
  const int64_t columns = matrix ? part.box.size[1] : 1;
  for (int64_t i = 0; i < part.box.size.elements(); ++i) {
    const int64_t row = part.box.begin[0] + i / columns;
    f(matrix ? row * part.logical_shape[1] + part.box.begin[1] + i % columns : row, i);
  }
}

/// Adds the gradients of one rank to the logical tensors.
class Joiner {
 public:
  void add(const Parameter& p, const Tensor& gradient) {
    int64_t covered = 0;
    for (const Part& part : p.parts) {
      covered += part.box.size.elements();
      auto& sum = sums[part.name];
      sum.resize(static_cast<size_t>(part.logical_shape.elements()));
      const Tensor values = box_of(gradient, part);
      const bool equal = part.replica_gradient == ReplicaGradient::equal;
      for_each_element(part, [&](int64_t logical, int64_t i) {
        const double value = element(values, i);
        if (equal && part.replicas != Replicas::none) {
          const auto [at, first] = equals_.try_emplace({part.name, logical}, value);
          EXPECT_EQ(at->second, value) << part.name << ": replicas differ";
          if (!first) return;
        }
        sum[static_cast<size_t>(logical)] += value;
      });
    }
    double all = 0, held = 0;
    for (const double v : values(gradient)) all += std::abs(v);
    for (const Part& part : p.parts)
      for (const double v : values(box_of(gradient, part))) held += std::abs(v);
    EXPECT_NEAR(all, held, 1e-12 * all) << p.path << ": padding has a gradient";
    EXPECT_LE(covered, p.shape.elements());
  }
  std::map<std::string, std::vector<double>> sums;

 private:
  std::map<std::pair<std::string, int64_t>, double> equals_;
};

class Rank {
 public:
  Rank(const TensorRun& run, std::shared_ptr<Communicator> world)
      : run_(run),
        device_(run.device ? run.device(1) : make_cpu_device(1)),
        ops_(run.ops ? run.ops(instruction_set()) : cpu_ops(instruction_set())),
        settings_(settings_of(run)),
        rank_(world->rank()),
        model_(build_model(*device_, run.model, settings_, kPositions, place_of(run, rank_))),
        // Groups of one rank, so that gradients stay what this rank computed.
        store_(*device_, settings_.precision, model_->uses(), {}, self_groups()) {
    world->record_on(device_.get());
    GroupSizes sizes;
    sizes.kv_replicas = std::max(1, run.tp / static_cast<int>(run.model.kv_heads));
    sizes.hierarchical_context_parallel = {run.cp_inner, run.cp / run.cp_inner};
    groups_ = ParallelGroups(Mesh({run.tp, run.cp, 1, 1, 1}).with(sizes), world);
    place_ = batch_place(groups_, run.sequence_parallel);
    OpContext context{*device_, ops_};
    store_.derive_weights(context, run.packed_weights);
    for (const Parameter* p : store_.parameters()) {
      fill(context, {store_.master(*p), 0});
      for (const Part& part : p->parts) {
        const Tensor whole = logical_weight(part.name, part.logical_shape, run_);
        const Tensor here = box_of(store_.master(*p), part);
        for_each_element(part, [&](int64_t logical, int64_t i) {
          set_element(here, i, element(whole, logical));
        });
      }
    }
    store_.publish_masters(context);
  }

  /// Runs forward and backward and returns the record of both.
  StepRecord step() {
    OpContext ops{*device_, ops_};
    scalars_ = device_->allocate(DType::f64, {kStepScalars}, MemoryTag::other);
    loss_state_ = device_->allocate(DType::f64, {kReproducibleSumSize}, MemoryTag::other);
    fill(ops, {scalars_, 1});
    fill(ops, {loss_state_, 0});
    store_.begin_step(ops);
    RankContext context = make_context(true);
    const Batch batch = cut();
    StepRecord record;
    const Recording recording(*device_, record);
    const auto second = run_.second_memory ? run_.second_memory() : nullptr;
    SavedStore saved(true, &run_.saved_policy, second.get());
    saved.check_writes();
    walk_forward(context, batch, saved);
    for (const auto& [unit, bytes] : saved.bytes_by_unit()) saved_bytes_ += bytes;
    saved_tag_bytes_ = device_->memory().bytes_by_tag.at(static_cast<size_t>(MemoryTag::saved));
    walk_backward(context, batch, saved);
    VIADUCT_CHECK(ShapeError, saved.entries() == 0, "backward: {} saved values were never read",
                  saved.entries());
    device_->set_record(nullptr);  // the rest of the step is not used
    store_.finish_gradients(ops);
    return record;
  }
  int64_t saved_bytes() const { return saved_bytes_; }
  int64_t saved_tag_bytes() const { return saved_tag_bytes_; }
  double loss() {
    const Tensor value = device_->allocate(DType::f64, {1}, MemoryTag::other);
    OpContext ops{*device_, ops_};
    sum_value(ops, {loss_state_, value});
    return *value.data<double>();
  }
  std::vector<double> logits() {
    RankContext context = make_context(false);
    SavedStore nothing(false);
    const Batch batch = cut();
    const SegmentWalk walk(model_->chunks()[0], context, batch, nothing);
    const Tensor hidden = walk.forward(model_->before_head(0), {}).get(kHidden);
    const HeadSegment& head = *model_->head();
    return values(head.logits(context, head.final_norm(context, hidden)));
  }
  /// The index in the whole batch of each token of the rank, −1 for padding.
  std::vector<int64_t> sources() const {
    return cut_sources(tensor_batch(run_.model.vocabulary, run_.repeats).document_offsets, place_,
                       true);
  }
  ParameterStore& store() { return store_; }

 private:
  /// The segments of the walk, or one range of all.
  std::vector<SegmentRange> ranges() const {
    if (run_.walk == TensorRun::Walk::whole) return {SegmentRange{}};
    std::vector<SegmentRange> list;
    for (int i = 0; i < model_->segments(0); ++i) list.push_back({i, i + 1});
    return list;
  }
  void walk_forward(RankContext& context, const Batch& batch, SavedStore& saved) {
    const SegmentWalk walk(model_->chunks()[0], context, batch, saved, hooks_);
    TensorSet set;
    for (const SegmentRange& range : ranges()) set = walk.forward(range, set);
  }
  void walk_backward(RankContext& context, const Batch& batch, SavedStore& saved) {
    const bool halves = run_.walk == TensorRun::Walk::halves;
    std::vector<SegmentRange> list = ranges();
    std::reverse(list.begin(), list.end());
    const SegmentWalk walk(model_->chunks()[0], context, batch, saved, hooks_);
    TensorSet set;
    for (const SegmentRange& range : list)
      set = walk.backward(range, set, halves ? SegmentWork::backward_input : SegmentWork::backward);
    if (!halves) return;
    for (const SegmentRange& range : list) walk.backward_weight(range);
  }
  RankContext make_context(bool training) {
    return {.ops = {*device_, ops_},
            .weights = store_,
            .gradients = training ? &store_ : nullptr,
            .groups = groups_,
            .settings = settings_,
            .training = training,
            .scalars = scalars_,
            .loss_state = loss_state_};
  }
  Batch cut() {
    const int64_t vocabulary = run_.model.vocabulary;
    return upload(*device_, cut_batch(tensor_batch(vocabulary, run_.repeats), place_, true),
                  vocabulary, kPositions, place_);
  }

  const TensorRun& run_;
  std::unique_ptr<Device> device_;
  OpTable ops_;
  LayerSettings settings_;
  int rank_;
  ParallelGroups groups_;
  BatchPlace place_;
  std::unique_ptr<Model> model_;
  ParameterStore store_;
  Tensor scalars_, loss_state_;
  OffloadSegments offload_;
  std::vector<SegmentHooks*> hooks_{&offload_};
  int64_t saved_bytes_ = 0, saved_tag_bytes_ = 0;
};

}  // namespace

HostBatch tensor_batch(int64_t vocabulary, int repeats) {
  HostBatch batch;
  std::mt19937 random(7);
  const auto token = [&] {
    return static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary));
  };
  int64_t index = 100;
  std::vector<int> lengths;
  for (int i = 0; i < repeats; ++i) lengths.insert(lengths.end(), {5, 3, 8});
  for (const int length : lengths) {
    for (int i = 0; i < length; ++i) {
      batch.ids.push_back(token());
      batch.positions.push_back(i);
      const bool scored = i + 1 < length && random() % 5 != 0;
      batch.targets.push_back(scored ? token() : -1);
      batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
      batch.token_index.push_back(index++);
    }
    batch.end_document();
  }
  return batch;
}

TensorOutcome run_tensor_ranks(const TensorRun& run) {
  TensorOutcome outcome;
  outcome.records.resize(static_cast<size_t>(run.tp * run.cp));
  std::vector<Joiner> joiners(static_cast<size_t>(run.cp));
  std::vector<double> losses(static_cast<size_t>(run.cp), kUnset);
  std::mutex mutex;
  run_thread_ranks(run.tp * run.cp, {}, [&](std::shared_ptr<Communicator> world) {
    Rank rank(run, world);
    StepRecord record = rank.step();
    const double loss = rank.loss();
    const std::vector<double> logits = rank.logits();
    const std::lock_guard lock(mutex);
    outcome.records[static_cast<size_t>(world->rank())] = std::move(record);
    if (world->rank() == 0) {
      outcome.saved_bytes = rank.saved_bytes();
      outcome.saved_tag_bytes = rank.saved_tag_bytes();
    }
    const auto context_rank = static_cast<size_t>(world->rank() / run.tp);
    set_once(losses[context_rank], loss);
    const std::vector<int64_t> sources = rank.sources();
    const size_t width = logits.size() / sources.size();
    outcome.logits.resize(width * tensor_batch(run.model.vocabulary, run.repeats).ids.size(),
                          kUnset);
    for (size_t row = 0; row < sources.size(); ++row) {
      for (size_t i = 0; i < width && sources[row] >= 0; ++i)
        set_once(outcome.logits[static_cast<size_t>(sources[row]) * width + i],
                 logits[row * width + i]);
    }
    for (const Parameter* p : rank.store().parameters())
      joiners[context_rank].add(*p, rank.store().main_gradient(*p));
  });
  for (const double loss : losses) outcome.loss += loss;
  for (const Joiner& joiner : joiners) {
    for (const auto& [name, values] : joiner.sums) {
      auto& sum = outcome.gradients[name];
      sum.resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
    }
  }
  return outcome;
}

std::vector<std::vector<Parameter>> parameters_by_rank(const TensorRun& run) {
  const auto device = make_cpu_device(1);
  std::vector<std::vector<Parameter>> ranks(static_cast<size_t>(run.tp));
  for (int rank = 0; rank < run.tp; ++rank) {
    const auto model =
        build_model(*device, run.model, settings_of(run), kPositions, place_of(run, rank));
    for (const Parameter* p : model->parameters()) ranks[static_cast<size_t>(rank)].push_back(*p);
  }
  return ranks;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference) /
         std::max(std::sqrt(size), 1e-5 * std::sqrt(static_cast<double>(b.size())));
}

void expect_same_bits(const TensorOutcome& a, const TensorOutcome& b) {
  expect_same_bits({a.loss}, {b.loss}, "loss");
  expect_same_bits(a.logits, b.logits, "logits");
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, gradient] : b.gradients)
    expect_same_bits(a.gradients.at(name), gradient, name);
}

}  // namespace viaduct::test
