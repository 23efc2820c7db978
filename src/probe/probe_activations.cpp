#include "probe/probe_activations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "engine/cut_batch.h"
#include "nn/encoder_rows.h"

namespace viaduct {
namespace {

/// Any floating tensor [R, W] of a device as f32 on the host.
Tensor to_host(Device& device, const Tensor& tensor) {
  const Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  const Tensor out = host_tensor(DType::f32, tensor.shape());
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    const auto* source = host.data<decltype(zero)>();
    for (int64_t i = 0; i < out.elements(); ++i)
      out.data<float>()[i] = static_cast<float>(source[i]);
  });
  return out;
}

/// The ranks' rows [R, W] one after the other.
Tensor gather_rows(Communicator& group, const Tensor& rows) {
  const Tensor all = host_tensor(DType::f32, {group.size() * rows.dim(0), rows.dim(1)});
  group.all_gather(rows, all).wait_host();
  return all;
}

/// `rows` [R, W] with row i put at origin[i] of [S, W]; padding (origin −1) is omitted.
Tensor in_token_order(const Tensor& rows, const std::vector<int64_t>& origin, int64_t length) {
  const Tensor out = host_tensor(DType::f32, {length, rows.dim(1)});
  const int64_t width = rows.dim(1);
  for (size_t i = 0; i < origin.size(); ++i) {
    if (origin[i] < 0) continue;
    std::memcpy(out.data<float>() + origin[i] * width,
                rows.data<float>() + static_cast<int64_t>(i) * width,
                static_cast<size_t>(width) * sizeof(float));
  }
  return out;
}

/// Logits [R, V] of normed rows [R, H] on the host, made chunk by chunk.
Tensor full_logits(RankContext& context, const HeadSegment& head, const Tensor& normed) {
  const Tensor out = host_tensor(DType::f32, {normed.dim(0), head.spec().vocabulary});
  const int64_t chunk = head.chunk_tokens(context.ops);
  for (int64_t begin = 0; begin < normed.dim(0); begin += chunk) {
    const int64_t count = std::min(chunk, normed.dim(0) - begin);
    const Tensor rows =
        to_host(context.ops.device, head.logits(context, normed.slice(0, begin, count)));
    std::memcpy(out.data<float>() + begin * out.dim(1), rows.raw(),
                static_cast<size_t>(rows.bytes()));
  }
  return out;
}

/// Positions in the rows of the tokens of all context ranks, one rank after the other.
std::vector<int64_t> token_origins(BatchPlace place, const HostBatch& rows) {
  std::vector<int64_t> origins;
  for (place.cp_rank = 0; place.cp_rank < place.cp; ++place.cp_rank) {
    const auto sources = cut_sources(rows.document_offsets, place, true);
    origins.insert(origins.end(), sources.begin(), sources.end());
  }
  return origins;
}

/// Values of the encoder, one for each of its tokens.
constexpr std::string_view kOfEncoder = "hidden.encoder.";

/// Those of the encoder's `tokens` tokens from what a context rank has: whole rows, the last ones
/// blank where they do not divide; of the encoder's output all.
Tensor encoder_values(Communicator& cp, const std::string& name, const Tensor& local,
                      int64_t tokens) {
  const Tensor all = name.ends_with("final_norm") ? local : gather_rows(cp, local);
  return all.slice(0, 0, tokens);
}

/// The number in a name that begins with `prefix`; −1: it does not.
int64_t number_behind(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) ? std::stoll(name.substr(prefix.size())) : -1;
}

/// Whether a chunk computes a value, but for those of the head.
bool makes_value(const ChunkLayers& chunk, const std::string& name) {
  const auto among = [](int64_t block, int64_t first, int64_t blocks) {
    return block >= first && block < first + blocks;
  };
  const EncoderChunk& encoder = chunk.encoder;
  const std::string of_encoder(kOfEncoder);
  if (name == of_encoder + "embed") return encoder.embedding;
  if (name == of_encoder + "final_norm") return encoder.norm;
  if (const int64_t block = number_behind(name, of_encoder + "layer"); block >= 0)
    return among(block, encoder.first_block, encoder.blocks);
  if (name == "hidden.embed") return chunk.embedding;
  const int64_t block = number_behind(name, "hidden.layer");
  return block >= 0 && among(block, chunk.first_block, chunk.blocks);
}

/// The pipeline rank that computes a value.
int stage_of(const Parallelism& parallelism, const std::string& name) {
  for (size_t i = 0; i < parallelism.layer_map.size(); ++i) {
    if (makes_value(parallelism.layer_map[i], name))
      return parallelism.stage_order().rank_of(static_cast<int64_t>(i));
  }
  return parallelism.head_stage();
}

}  // namespace

std::map<std::string, Tensor> probe_activations(Engine& engine, const Parallelism& parallelism,
                                                const HostBatch& rows, bool hidden) {
  const ParallelGroups& groups = engine.groups();
  const Model& model = engine.model();
  RankContext context = engine.context(false, false);
  const Batch batch = engine.upload_part(rows);
  std::map<std::string, Tensor> local;  // what this rank has of each value, all its tokens
  const auto keep = [&](const std::string& name, const Tensor& stream) {
    if (!hidden) return;
    Tensor all = to_host(engine.device(), stream);
    const std::string full = "hidden." + name;
    const bool of_encoder = full.starts_with(kOfEncoder);
    const int64_t tokens = of_encoder ? encoder_rows(batch).rows.tokens() : batch.tokens();
    if (all.dim(0) < tokens) all = gather_rows(groups.tp(), all);
    local[full] = all;
  };
  const auto keep_logits = [&](const HeadSegment& head, const Tensor& stream) {
    const Tensor normed = head.final_norm(context, stream);
    if (hidden) local["hidden.final_norm"] = to_host(engine.device(), normed);  // all tokens
    local["logits"] = full_logits(context, head, normed);
  };
  engine.forward(batch, keep_logits, keep);

  std::vector<std::string> names{"logits"};
  if (hidden) {
    names.insert(names.end(), {"hidden.embed", "hidden.final_norm"});
    for (int64_t i = 0; i < model.config().layers; ++i)
      names.push_back("hidden.layer" + std::to_string(i));
    if (const int64_t layers = model.config().encoder.layers; layers > 0) {
      for (const char* end : {"embed", "final_norm"})
        names.push_back(std::string(kOfEncoder) + end);
      for (int64_t i = 0; i < layers; ++i) names.push_back(fmt::format("{}layer{}", kOfEncoder, i));
    }
  }
  const std::vector<int64_t> origin = token_origins(engine.batch_place(), rows);
  std::map<std::string, Tensor> values;
  for (const std::string& name : names) {
    const int64_t width = name == "logits" ? model.config().vocabulary : model.config().hidden;
    const int owner = stage_of(parallelism, name);
    const bool of_encoder = name.starts_with(kOfEncoder);
    const int64_t tokens = of_encoder ? rows.encoder->tokens() : rows.tokens();
    Tensor whole = host_tensor(DType::f32, {tokens, width});
    if (groups.stage() == owner)
      whole = of_encoder ? encoder_values(groups.cp(), name, local.at(name), tokens)
                         : in_token_order(gather_rows(groups.cp(), local.at(name)), origin, tokens);
    groups.pp().broadcast(whole, groups.root_of(owner)).wait_host();
    values[name] = gather_rows(groups.dp(), whole);
  }
  if (const double cap = model.config().logit_softcap; cap > 0) {
    const Tensor logits = values.at("logits");
    for (int64_t i = 0; i < logits.elements(); ++i) {
      float& value = logits.data<float>()[i];
      value = static_cast<float>(cap * std::tanh(value / cap));
    }
  }
  return values;
}

}  // namespace viaduct
