#include "generate/generator.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "model/model_stage.h"
#include "pipeline/executor.h"
#include "pipeline/schedule.h"

namespace viaduct {
namespace {

template <class T>
Tensor to_device(Device& device, std::span<const T> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  const Tensor host = host_tensor(dtype_of<T>, shape);
  std::memcpy(host.raw(), values.data(), values.size_bytes());
  Tensor tensor = device.allocate(dtype_of<T>, shape, MemoryTag::batch);
  device.copy_from_host(host, tensor);
  return tensor;
}

}  // namespace

Generator::Generator(Device& device, const OpTable& ops, const ModelConfig& config,
                     const PrecisionRecipe& recipe, int64_t capacity)
    : device_(device),
      ops_(ops),
      recipe_(recipe),
      capacity_(capacity),
      groups_(self_groups()),
      model_(build_model(device, config, recipe_, capacity)),
      store_(std::make_unique<ParameterStore>(
          device, recipe_, model_->uses(),
          StoreSettings{.with_gradients = false, .with_masters = false}, groups_)) {
  restart();
}

void Generator::restart() {
  const ModelConfig& config = model_->config();
  cache_.reset();  // its memory first
  cache_ = std::make_unique<KeyValueCache>(device_, config.layers, capacity_, config.kv_heads,
                                           config.head_dim, recipe_.activation);
}

Batch Generator::batch_of(std::span<const int32_t> ids) {
  const auto tokens = static_cast<int64_t>(ids.size());
  const int64_t vocabulary = model_->config().vocabulary;
  VIADUCT_CHECK(ShapeError, tokens > 0, "generate: no tokens");
  VIADUCT_CHECK(ShapeError, length() + tokens <= capacity_,
                "generate: {} tokens after {}, capacity {}", tokens, length(), capacity_);
  for (const int32_t id : ids)
    VIADUCT_CHECK(ShapeError, id >= 0 && id < vocabulary,
                  "generate: token {} is outside the model's vocabulary of {}", id, vocabulary);
  std::vector<int32_t> positions(ids.size());
  std::vector<int64_t> index(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    index[i] = length() + static_cast<int64_t>(i);
    positions[i] = static_cast<int32_t>(index[i]);
  }
  const std::vector<int32_t> offsets{0, static_cast<int32_t>(tokens)};
  const std::vector<int32_t> targets(ids.size(), -1);
  const std::vector<float> weights(ids.size(), 0.0f);
  return {.ids = to_device(device_, ids),
          .positions = to_device<int32_t>(device_, positions),
          .targets = to_device<int32_t>(device_, targets),
          .loss_weight = to_device<float>(device_, weights),
          .token_index = to_device<int64_t>(device_, index),
          .document_offsets = to_device<int32_t>(device_, offsets),
          .max_document = tokens,
          .stream_tokens = tokens};
}

std::vector<float> Generator::feed(std::span<const int32_t> ids) {
  const Batch batch = batch_of(ids);
  RankContext context{.ops = {device_, ops_},
                      .weights = *store_,
                      .groups = groups_,
                      .precision = recipe_,
                      .cache = cache_.get()};
  Tensor logits;
  const auto logits_of_last = [&](const HeadSegment& head, const Tensor& stream) {
    const Tensor last = stream.slice(0, batch.tokens() - 1, 1);
    logits = head.logits(context, head.final_norm(context, last));
  };
  const auto this_one = [&](int64_t) { return batch; };
  ModelStage stage(
      *model_, context,
      {.message_format = recipe_.stream, .has_backward = false, .instead_of_head = logits_of_last},
      this_one);
  run_schedule(stage_schedule({.backward = false}, 0), stage, *groups_.pp);
  cache_->advance(batch.tokens());

  const Tensor host = host_tensor(logits.dtype(), logits.shape());
  device_.copy_to_host(logits, host);
  std::vector<float> values(static_cast<size_t>(model_->config().vocabulary));
  dispatch_floating(host.dtype(), [&](auto zero) {
    const auto* from = host.data<decltype(zero)>();
    std::transform(from, from + values.size(), values.begin(),
                   [](auto v) { return static_cast<float>(v); });
  });
  if (const auto cap = static_cast<float>(model_->head()->spec().softcap); cap > 0) {
    for (float& v : values) v = cap * std::tanh(v / cap);
  }
  return values;
}

Generated generate(Generator& generator, std::span<const int32_t> prompt,
                   const GenerateOptions& options, FunctionRef<void(int32_t)> token) {
  check(options.sampling);
  VIADUCT_CHECK(ConfigError, !prompt.empty(), "generate: the prompt has no tokens");
  VIADUCT_CHECK(ConfigError,
                options.max_new_tokens >= 0 && static_cast<int64_t>(prompt.size()) <=
                                                   generator.capacity() - options.max_new_tokens,
                "generate: a prompt of {} tokens and {} new ones do not fit into {} positions",
                prompt.size(), options.max_new_tokens, generator.capacity());
  generator.restart();
  Generated result;
  std::span<const int32_t> next = prompt;
  int32_t chosen = 0;
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    const std::vector<float> logits = generator.feed(next);
    const DrawKey key{options.seed, 0, static_cast<uint64_t>(generator.length())};
    chosen = static_cast<int32_t>(pick_token(logits, options.sampling, key));
    if (std::find(options.stop_tokens.begin(), options.stop_tokens.end(), chosen) !=
        options.stop_tokens.end()) {
      result.reason = StopReason::stop_token;
      result.stop_token = chosen;
      break;
    }
    result.tokens.push_back(chosen);
    token(chosen);
    next = {&chosen, 1};
  }
  return result;
}

}  // namespace viaduct
