#include "model/flops.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "model/adapter_modules.h"
#include "model/family.h"
#include "model/frozen_encoder.h"
#include "model/image_adapters.h"
#include "model/model_config.h"

namespace viaduct {
namespace {

void check(const FlopSizes& s) {
  using Sizes = std::initializer_list<std::pair<const char*, int64_t>>;
  const auto positive = [](Sizes sizes) {
    for (const auto& [name, value] : sizes)
      VIADUCT_CHECK(ShapeError, value > 0, "flops: {} must be positive, found {}", name, value);
  };
  positive({{"layers", s.layers},
            {"hidden", s.hidden},
            {"feed_forward", s.feed_forward},
            {"heads", s.heads},
            {"key_value_heads", s.key_value_heads},
            {"head_dim", s.head_dim},
            {"vocabulary", s.vocabulary}});
  VIADUCT_CHECK(ShapeError, s.expert_layers >= 0 && s.expert_layers <= s.layers,
                "flops: {} layers with experts of {}", s.expert_layers, s.layers);
  VIADUCT_CHECK(ShapeError, s.mtp_layers >= 0, "flops: {} layers of multi-token prediction",
                s.mtp_layers);
  if (s.expert_layers > 0) {
    positive({{"experts", s.experts},
              {"experts_of_token", s.experts_of_token},
              {"expert_feed_forward", s.expert_feed_forward}});
  }
  VIADUCT_CHECK(ShapeError, s.heads % s.key_value_heads == 0,
                "flops: {} heads do not divide by {} key-value heads", s.heads, s.key_value_heads);
  VIADUCT_CHECK(
      ShapeError,
      s.sliding_windows.empty() || static_cast<int64_t>(s.sliding_windows.size()) == s.layers,
      "flops: {} sliding windows for {} layers", s.sliding_windows.size(), s.layers);
  VIADUCT_CHECK(ShapeError, s.chunks.empty() || static_cast<int64_t>(s.chunks.size()) == s.layers,
                "flops: chunks of {} layers for {} layers", s.chunks.size(), s.layers);
}

/// What a query of a layer sees of its document; 0: all.
struct Sight {
  int64_t window = 0, chunk = 0;
};

/// Attended pairs of one document of length `length`.
double attended_pairs(double length, Sight sight, bool causal) {
  if (sight.chunk > 0 && static_cast<double>(sight.chunk) < length) {
    const auto chunk = static_cast<double>(sight.chunk);
    const double whole = std::floor(length / chunk);
    const Sight inside{sight.window, 0};
    return whole * attended_pairs(chunk, inside, causal) +
           attended_pairs(length - whole * chunk, inside, causal);
  }
  const int64_t window = sight.window;
  const double half = length * length / 2;
  if (window <= 0 || static_cast<double>(window) >= length) return causal ? half : 2 * half;
  const double beyond = length - static_cast<double>(window);
  const double one_side = half - beyond * beyond / 2;
  return causal ? one_side : 2 * one_side;
}

double attention_parameters(const FlopSizes& s);

/// Adds the encoder's row and cross attention of `count` documents of one length.
void add_encoder(const FlopSizes& s, double count, double length, FlopCount& flops) {
  const double tokens = static_cast<double>(s.encoder_length),
               encoder_layers = static_cast<double>(s.encoder_layers),
               layers = static_cast<double>(s.layers);
  const double attention = attention_parameters(s);
  const double h = static_cast<double>(s.hidden), kv_heads = static_cast<double>(s.key_value_heads),
               feed_forward = (s.gated_mlp ? 3 : 2) * h * static_cast<double>(s.feed_forward);
  const double key_value = 2 * h * kv_heads * static_cast<double>(s.head_dim);
  const double passes = s.frozen ? 4 : 6, front = s.encoder_frozen ? 2 : passes;
  flops.token_part += 6 * s.encoder_adapter_parameters * count * tokens;
  flops.token_part +=
      count * (front * tokens * (encoder_layers * (attention + feed_forward) + layers * key_value) +
               passes * length * layers * (attention - key_value));
  const double pairs =
      (s.encoder_frozen ? 2 : 6) * encoder_layers * tokens * tokens + 6 * layers * tokens * length;
  const double widths = 2 * static_cast<double>(s.heads) * static_cast<double>(s.head_dim);
  flops.attention_part += widths * count * pairs;
  flops.attention_part_full += widths * count * pairs;
}

/// Adds `count` documents of one length.
void add_documents(const FlopSizes& s, double parameters, double count, double length,
                   FlopCount& flops) {
  const int64_t value_dim = s.kv_rank > 0 ? s.value_dim : s.head_dim;
  // q + v of a layer with a window, or of any.
  const auto widths_of = [&](bool full) {
    const int64_t dims = full ? 2 * s.full_head_dim : s.head_dim + value_dim;
    return static_cast<double>(s.heads) * static_cast<double>(dims);
  };
  const double layers = static_cast<double>(s.layers + s.mtp_layers),
               full_layers = static_cast<double>(s.full_layers);
  const double beside = 6 * s.adapter_parameters + 2 * s.trained_parameters;
  flops.token_part += ((s.frozen ? 4 : 6) * parameters + beside) * count * length;
  flops.attention_part_full +=
      6 * (widths_of(false) * (layers - full_layers) + widths_of(true) * full_layers) * count *
      length * length;
  if (s.encoder_layers > 0) add_encoder(s, count, length, flops);
  const auto add_layers = [&](double number, Sight sight) {
    const double widths = widths_of(s.full_layers > 0 && sight.window == 0);
    flops.attention_part += 6 * widths * number * count * attended_pairs(length, sight, s.causal);
  };
  if (s.sliding_windows.empty() && s.chunks.empty()) return add_layers(layers, {});
  const auto sight_of = [&](int64_t layer) {
    const auto i = static_cast<size_t>(layer);
    return Sight{s.sliding_windows.empty() ? 0 : s.sliding_windows[i],
                 s.chunks.empty() ? 0 : s.chunks[i]};
  };
  for (int64_t layer = 0; layer < s.layers; ++layer) add_layers(1, sight_of(layer));
  add_layers(static_cast<double>(s.mtp_layers), sight_of(s.layers - 1));
}

}  // namespace

FlopSizes flop_sizes(const ModelConfig& config) {
  int64_t expert_layers = 0, full_layers = 0;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    expert_layers += config.moe.routes(layer) ? 1 : 0;
  for (int64_t block = 0; block < config.layers + config.mtp_layers; ++block)
    full_layers += config.full_attention(block) ? 1 : 0;
  return {.layers = config.layers,
          .hidden = config.hidden,
          .feed_forward = config.feed_forward,
          .heads = config.heads,
          .key_value_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .full_layers = full_layers,
          .full_key_value_heads = config.full.kv_heads > 0 ? config.full.kv_heads : config.kv_heads,
          .full_head_dim = config.rotary_head_dim(),
          .full_values = !config.full.values_from_keys,
          .q_rank = config.latent.q_rank,
          .kv_rank = config.latent.kv_rank,
          .plain_dim = config.latent.plain_dim,
          .rotary_dim = config.latent.rotary_dim,
          .value_dim = config.latent.value_dim,
          .vocabulary = config.vocabulary,
          .gated_mlp = config.gated,
          .expert_layers = expert_layers,
          .experts = config.moe.experts,
          .experts_of_token = config.moe.routing.topk,
          .expert_feed_forward = config.moe.feed_forward,
          .shared_feed_forward = config.moe.shared_feed_forward,
          .mtp_layers = config.mtp_layers,
          .mtp_experts = config.moe.routes(config.layers - 1),
          .encoder_layers = config.encoder.layers,
          .encoder_length = config.encoder.row_length,
          .sliding_windows = config.windows,
          .chunks = config.chunks};
}

FlopSizes flop_sizes(const ModelConfig& config, const AdapterSettings& adapters) {
  FlopSizes sizes = flop_sizes(config);
  sizes.frozen = adapters.any() || config.vision.freeze_text;
  if (!adapters.any()) return sizes;
  sizes.encoder_frozen = encoder_is_frozen(config, adapters);
  const TensorNames& names = model_family(config.family).names;
  if (adapters.trained.contains(config.tied_embeddings ? names.token_embedding : names.head))
    sizes.trained_parameters =  // used once more by each layer of multi-token prediction
        static_cast<double>(config.vocabulary * config.hidden * (1 + config.mtp_layers));
  for (const AdaptableModule& module : adaptable_modules(config)) {
    const AdapterShape* shape = adapters.of(module.name);
    if (shape == nullptr || module.of_images) continue;
    const double in =
        (module.of_encoder && sizes.encoder_frozen ? 2.0 / 3 : 1) * static_cast<double>(module.in);
    (module.of_encoder ? sizes.encoder_adapter_parameters : sizes.adapter_parameters) +=
        module.use * (static_cast<double>(shape->rank) * (in + static_cast<double>(module.out)));
  }
  return sizes;
}

namespace {

/// The same in layers without a window, where their attention is another.
double full_attention_parameters(const FlopSizes& s) {
  const double h = static_cast<double>(s.hidden), dim = static_cast<double>(s.full_head_dim);
  const double kinds = s.full_values ? 2 : 1;
  return h * dim *
         (2 * static_cast<double>(s.heads) + kinds * static_cast<double>(s.full_key_value_heads));
}

/// Of the attention of a layer: projections of queries, keys, values and of the result.
double attention_parameters(const FlopSizes& s) {
  const double h = static_cast<double>(s.hidden), n = static_cast<double>(s.heads);
  const double q = n * static_cast<double>(s.head_dim);
  if (s.kv_rank == 0) {
    const double kv = static_cast<double>(s.key_value_heads) * static_cast<double>(s.head_dim);
    return h * (q + 2 * kv) + q * h;
  }
  const double compressed = static_cast<double>(s.kv_rank),
               of_query = static_cast<double>(s.q_rank);
  const double queries = s.q_rank > 0 ? of_query * (h + q) : h * q;
  const double keys_and_values =
      compressed * (h + n * static_cast<double>(s.plain_dim + s.value_dim));
  return queries + keys_and_values + h * static_cast<double>(s.rotary_dim) +
         n * static_cast<double>(s.value_dim) * h;
}

}  // namespace

double matmul_parameters(const FlopSizes& s) {
  check(s);
  const double h = static_cast<double>(s.hidden), f = static_cast<double>(s.feed_forward);
  const double attention = attention_parameters(s);
  const double projections = s.gated_mlp ? 3 : 2;
  const double used =
      static_cast<double>(s.experts_of_token * s.expert_feed_forward + s.shared_feed_forward);
  const double experts = projections * h * used + h * static_cast<double>(s.experts);
  const double further = static_cast<double>(s.mtp_layers);
  const double layers = static_cast<double>(s.layers) + further;
  const double routed = static_cast<double>(s.expert_layers) + (s.mtp_experts ? further : 0);
  const double dense = layers - routed;
  const double full_layers = static_cast<double>(s.full_layers);
  return (layers - full_layers) * attention + full_layers * full_attention_parameters(s) +
         dense * projections * h * f + routed * experts + further * 2 * h * h +
         (1 + further) * h * static_cast<double>(s.vocabulary);
}

FlopCount training_flops(const FlopSizes& sizes, std::span<const int64_t> document_lengths) {
  const double parameters = matmul_parameters(sizes);
  FlopCount flops;
  for (int64_t length : document_lengths) {
    VIADUCT_CHECK(ShapeError, length >= 0, "flops: a document of length {}", length);
    add_documents(sizes, parameters, 1, static_cast<double>(length), flops);
  }
  return flops;
}

FlopCount training_flops(const FlopSizes& sizes, int64_t sequences, int64_t sequence_length) {
  VIADUCT_CHECK(ShapeError, sequences >= 0 && sequence_length >= 0,
                "flops: {} sequences of length {}", sequences, sequence_length);
  FlopCount flops;
  add_documents(sizes, matmul_parameters(sizes), static_cast<double>(sequences),
                static_cast<double>(sequence_length), flops);
  return flops;
}

double image_flops(const ModelConfig& config) {
  return image_flops(config, AdapterSettings{});
}

double image_flops(const ModelConfig& config, const AdapterSettings& adapters) {
  const VisionConfig& v = config.vision;
  if (!v.any()) return 0;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double h = number(v.hidden), tokens = number(v.tokens()), layers = number(v.read_layers());
  const double patches = number(v.patches()) * number(v.channels * v.patch_size * v.patch_size) * h;
  const double blocks = tokens * layers * (4 * h * h + 2 * h * number(v.feed_forward));
  const double pairs = 2 * h * layers * tokens * tokens;  // of QKᵀ and PV
  const double out = number(config.hidden),
               joined = h * number(static_cast<int64_t>(v.feature_layers.size())),
               projector = number(v.rows()) * out *
                           (v.projector == ProjectorKind::pooled ? h : joined + out);
  // A forward, the gradient of what is read, and that of weights, which adapters leave frozen.
  const bool adapts = adapters.any();
  const double trains = adapts ? 4 : 6;
  const double of_tower = v.freeze_tower ? 2 : trains,
               of_patches = v.freeze_tower || adapts ? 2 : 6, of_pairs = v.freeze_tower ? 2 : 6,
               of_projector = !v.freeze_projector ? trains
                              : v.freeze_tower    ? 2
                                                  : 4;
  double of_adapters = 0;
  for (const AdaptableModule& module : adaptable_modules(config)) {
    const AdapterShape* shape = adapters.of(module.name);
    if (shape == nullptr || !module.of_images) continue;
    const bool in_tower = module.name.starts_with(kTowerPattern);
    of_adapters +=
        (in_tower ? tokens : number(v.rows())) * number(shape->rank * (module.in + module.out));
  }
  return of_patches * patches + of_tower * blocks + of_pairs * pairs + of_projector * projector +
         6 * of_adapters;
}

double tflops_per_rank(double flops, double seconds, int64_t ranks) {
  VIADUCT_CHECK(ShapeError, seconds > 0 && ranks > 0, "flops: rate over {} seconds and {} ranks",
                seconds, ranks);
  return flops / (seconds * 1e12 * static_cast<double>(ranks));
}

}  // namespace viaduct
