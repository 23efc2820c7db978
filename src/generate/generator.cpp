#include "generate/generator.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "generate/pass_tokens.h"
#include "model/model_place.h"
#include "model/model_stage.h"
#include "ops/elementwise.h"
#include "pipeline/forward_schedule.h"

namespace viaduct {
namespace {

const GeneratorSettings& checked(const GeneratorSettings& settings, const ParallelGroups& groups) {
  VIADUCT_CHECK(ConfigError, groups.cp().size() == 1,
                "model.context_parallel_size: generation runs on 1 context rank, found {}",
                groups.cp().size());
  return settings;
}

/// Whether some rank exchanges tokens of experts with a rank of another replica.
bool share_experts(const ModelConfig& config, const Mesh& mesh) {
  if (!config.moe.any() || mesh.size(Axis::dp) == 1) return false;
  for (GlobalRank rank{0}; rank.value < mesh.ranks(); ++rank.value) {
    const int replica = mesh.coordinate(rank, Axis::dp).value;
    for (const GlobalRank other : mesh.group(Grid::expert, rank, {Axis::tp, Axis::ep}))
      if (mesh.coordinate(other, Axis::dp).value != replica) return true;
  }
  return false;
}

int64_t fed_sequences(Generator::Feed ids) {
  return std::count_if(ids.begin(), ids.end(), [](auto& i) { return !i.empty(); });
}

/// Logits [n, V] as FP32 on the host, with the model's soft cap.
Tensor on_host(Device& device, const Tensor& logits, float cap) {
  const Tensor raw = host_tensor(logits.dtype(), logits.shape());
  device.copy_to_host(logits, raw);
  const Tensor values = raw.dtype() == DType::f32 ? raw : host_tensor(DType::f32, raw.shape());
  auto* to = values.data<float>();
  if (raw.dtype() != DType::f32) {
    dispatch_floating(raw.dtype(), [&](auto zero) {
      const auto* from = raw.data<decltype(zero)>();
      std::transform(from, from + raw.elements(), to, [](auto v) { return static_cast<float>(v); });
    });
  }
  if (cap > 0) {
    std::transform(to, to + values.elements(), to,
                   [&](float v) { return cap * std::tanh(v / cap); });
  }
  return values;
}

}  // namespace

Generator::Generator(Device& device, const OpTable& ops, const ModelConfig& config,
                     const GeneratorSettings& settings, ParallelGroups groups)
    : device_(device),
      ops_(ops),
      settings_(checked(settings, groups)),
      groups_(std::move(groups)),
      together_(share_experts(config, settings_.parallelism.mesh)),
      own_model_(build_model(device, config.without_training_layers(), settings_.layers,
                             settings_.positions, model_place(settings_.parallelism, groups_))),
      store_(std::make_unique<ParameterStore>(
          device, settings_.layers.precision, own_model_->uses(),
          StoreSettings{.with_gradients = false, .with_masters = false}, groups_)),
      model_(own_model_.get()) {
  VIADUCT_CHECK(
      ConfigError, !together_ || config.moe.dispatch != ExpertDispatch::all_gather,
      "model.moe_token_dispatcher_type: allgather needs the same number of tokens on "
      "every rank, but the replicas of a generation have different prompts; nearest: alltoall");
  OpContext context = this->context();
  store_->derive_weights(context, settings_.memory.packed_weights);
  start(1);
}

Generator::Generator(const BorrowedModel& borrowed, const GeneratorSettings& settings,
                     ParallelGroups groups)
    : device_(borrowed.context.ops.device),
      ops_(borrowed.context.ops.ops),
      settings_(checked(settings, groups)),
      groups_(std::move(groups)),
      borrowed_(borrowed),
      model_(&borrowed.model) {
  start(1);
}

std::vector<int64_t> Generator::blocks() const {
  std::vector<int64_t> blocks;
  for (const ModelChunk& chunk : model_->chunks()) {
    for (int64_t i = 0; i < chunk.holds.blocks; ++i) blocks.push_back(chunk.holds.first_block + i);
  }
  return blocks;
}

int64_t Generator::kv_heads() const {
  const ModelConfig& config = model_->config();
  return config.latent.any() ? 1 : std::max<int64_t>(1, config.kv_heads / groups_.tp().size());
}

void Generator::start(int64_t sequences) {
  const ModelConfig& config = model_->config();
  const LatentSizes& latent = config.latent;
  cache_.reset();  // their memory first
  cross_.reset();
  inputs_.clear();
  images_.assign(static_cast<size_t>(sequences), {});
  std::vector<CachedHeads> heads;
  if (config.full.any()) {
    for (const int64_t block : blocks()) {
      const int64_t dim = config.head_dim_of(block);
      heads.push_back(
          {std::max<int64_t>(1, config.kv_heads_of(block) / groups_.tp().size()), dim, dim});
    }
  }
  cache_ = std::make_unique<KeyValueCache>(
      device_, CacheShape{.layers = blocks(),
                          .kv_heads = kv_heads(),
                          .head_dim = latent.any() ? latent.kv_rank : config.key_dim(),
                          .value_dim = latent.any() ? latent.rotary_dim : config.head_dim,
                          .dtype = settings_.layers.precision.activation,
                          .sequences = sequences,
                          .positions = settings_.positions + room(),
                          .chunk = config.attention_chunk(),
                          .heads = std::move(heads)});
}

void Generator::truncate(int64_t i, int64_t tokens) {
  VIADUCT_CHECK(ShapeError, tokens >= 0 && tokens <= length(i),
                "generate: {} tokens to keep of sequence {}, which has {}", tokens, i, length(i));
  cache_->forget(i, length(i) - tokens);
}

void Generator::check_id(int32_t id) const {
  const int64_t vocabulary = model_->config().vocabulary;
  VIADUCT_CHECK(ShapeError, id >= 0 && id < vocabulary,
                "generate: token {} is outside the model's vocabulary of {}", id, vocabulary);
}

Generator::Pass Generator::pass_of(Feed ids) {
  PassTokens tokens;
  std::vector<int64_t> counts;
  Pass pass;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto count = static_cast<int64_t>(ids[i].size());
    const int64_t before = length(static_cast<int64_t>(i));
    VIADUCT_CHECK(ShapeError, before + count <= settings_.positions,
                  "generate: {} tokens after {} of sequence {}, at most {} positions", count,
                  before, i, settings_.positions);
    int64_t position = before;
    for (const int32_t id : ids[i]) {
      check_id(id);
      tokens.add(id, position++);
    }
    tokens.end_run();
    counts.push_back(count);
    if (count > 0) pass.filled = static_cast<int64_t>(i);
  }
  const int64_t parts = stream_parts();
  pass.filling = filling_of(tokens.tokens(), parts);
  if (pass.filling > 0) {
    const auto filled = static_cast<size_t>(pass.filled);
    for (int64_t i = 0; i < pass.filling; ++i) tokens.add(0, 0);
    counts[filled] += pass.filling;
    tokens.longest = std::max(tokens.longest, counts[filled]);
    for (size_t i = filled + 1; i < tokens.offsets.size(); ++i)
      tokens.offsets[i] = static_cast<int32_t>(tokens.tokens());
  }
  OpContext context = this->context();
  cache_->begin_step(context, counts);
  pass.batch = upload_tokens(device_, tokens, parts, stream_part());
  if (model_->config().encoder.any()) pass.batch.encoder = encoder_rows_of(ids, tokens, pass.batch);
  if (model_->config().vision.any()) add_images(ids, tokens, pass.batch);
  return pass;
}

Tensor Generator::logits_of(RankContext& context, const HeadSegment& head, const Batch& batch,
                            const Tensor& stream, Feed ids) {
  const int64_t fed = fed_sequences(ids);
  // Rows of other tensor ranks come with the norm.
  const Tensor rows = cuts_stream() ? head.final_norm(context, stream) : stream;
  Tensor last = rows;
  if (fed < batch.tokens()) {  // the last row of each sequence
    last = context.ops.allocate(rows.dtype(), {fed, rows.dim(1)}, MemoryTag::activations);
    int64_t end = 0, row = 0;
    for (const std::vector<int32_t>& tokens : ids) {
      if (tokens.empty()) continue;
      end += static_cast<int64_t>(tokens.size());
      copy(context.ops, {rows.slice(0, end - 1, 1), last.slice(0, row++, 1)});
    }
  }
  return head.logits(context, cuts_stream() ? last : head.final_norm(context, last));
}

bool Generator::announce(bool feeds) {
  if (!together_) return feeds;
  const Tensor any = host_tensor(DType::i64, {1});
  *any.data<int64_t>() = feeds ? 1 : 0;
  groups_.dp().all_reduce(any, ReduceOp::max).wait_host();
  return *any.data<int64_t>() > 0;
}

bool Generator::keep_up() {
  if (!together_ || !announce(false)) return false;
  run(std::vector<std::vector<int32_t>>(static_cast<size_t>(sequences())));
  return true;
}

Tensor Generator::feed(Feed ids) {
  VIADUCT_CHECK(ShapeError, fed_sequences(ids) > 0, "generate: no tokens");
  announce(true);
  return run(ids);
}

Tensor Generator::run(Feed ids) {
  const Pass pass = pass_of(ids);
  RankContext context = pass_context();
  const Model& model = model_in_use();
  Tensor logits;
  const auto instead_of_head = [&](const HeadSegment& head, const Tensor& stream) {
    if (fed_sequences(ids) > 0) logits = logits_of(context, head, pass.batch, stream, ids);
  };
  const auto this_one = [&](int64_t) { return pass.batch; };
  ModelStage stage(model, context,
                   {.message_format = settings_.parallelism.message_format.value_or(
                        settings_.layers.precision.stream),
                    .has_backward = false,
                    .instead_of_head = instead_of_head,
                    .hooks = borrowed_ ? borrowed_->hooks : std::vector<SegmentHooks*>()},
                   this_one);
  const ScheduleSettings schedule =
      forward_schedule(settings_.parallelism.schedule, groups_.stages());
  run_schedule(stage_schedule(schedule, groups_.stage()), stage, groups_,
               settings_.parallelism.executor);
  cache_->end_step();
  cache_->forget(pass.filled, pass.filling);
  if (!logits) return Tensor();
  return on_host(device_, logits, static_cast<float>(model.head()->spec().softcap));
}

std::vector<int32_t> Generator::step(Feed ids, Choose choose) {
  const Tensor logits = feed(ids);
  const int64_t fed = fed_sequences(ids);
  const Tensor chosen = host_tensor(DType::i32, {fed});
  auto* tokens = chosen.data<int32_t>();
  // One rank chooses: others might round an exponential differently.
  if (logits && groups_.tp().rank() == 0) {
    const int64_t vocabulary = logits.dim(1);
    std::vector<int64_t> sequence_of;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!ids[i].empty()) sequence_of.push_back(static_cast<int64_t>(i));
    }
    device_.pool().run(fed, [&](int64_t row, int) {
      const std::span<const float> mine(logits.data<float>() + row * vocabulary,
                                        static_cast<size_t>(vocabulary));
      tokens[row] = choose(sequence_of[static_cast<size_t>(row)], mine);
    });
  }
  groups_.tp().broadcast(chosen, 0).wait_host();
  groups_.pp().broadcast(chosen, groups_.root_of(settings_.parallelism.head_stage())).wait_host();
  if (borrowed_) groups_.dp().broadcast(chosen, 0).wait_host();
  return {tokens, tokens + fed};
}

void Generator::skip_to(int64_t tokens) {
  VIADUCT_CHECK(ShapeError, !device_.executes(),
                "generate: only a dry run skips tokens: it computes no keys");
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < sequences(); ++i)
    counts.push_back(std::max<int64_t>(0, tokens - length(i)));
  OpContext context = this->context();
  cache_->begin_step(context, counts);
  cache_->end_step();
}

}  // namespace viaduct
