#include "nn/image_projector.h"

#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// Where adapters drop, the context has the token indices of the rows that are kept, while the
/// layers run.
class KeptTokens {
 public:
  KeptTokens(RankContext& context, const ImageProjectorParts& parts)
      : context_(context), all_(context.token_index) {
    const bool drops = context.training && context.settings.adapters.dropout > 0;
    if (!drops || parts.leading == 0) return;
    const int64_t kept = parts.tokens - parts.leading, images = all_.dim(0) / parts.tokens;
    const Tensor rows = context.ops.allocate(DType::i64, {images, kept}, MemoryTag::activations);
    if (images > 0)
      copy(context.ops, {all_.view({images, parts.tokens}).slice(1, parts.leading, kept), rows});
    context.token_index = rows.view({images * kept});
  }
  ~KeptTokens() { context_.token_index = all_; }
  KeptTokens(const KeptTokens&) = delete;
  KeptTokens& operator=(const KeptTokens&) = delete;

 private:
  RankContext& context_;
  Tensor all_;
};

}  // namespace

EdgeTensor image_features_edge(const RankContext& context, int64_t rows, int64_t hidden) {
  return {.name = std::string(kImageFeatures),
          .dtype = context.settings.precision.activation,
          .shape = {rows, hidden},
          .message_format = true};
}

Edge ImageProjectorSegment::inputs(const RankContext& context, const Batch& batch) const {
  Edge edge;
  for (const std::string& name : parts_.inputs) {
    EdgeTensor tensor = stream_edge(context, batch, parts_.width);
    tensor.name = name;
    tensor.needs_gradient = parts_.input_gradient;
    edge.push_back(std::move(tensor));
  }
  return edge;
}

Tensor ImageProjectorSegment::kept_rows(const Tensor& of) const {
  return of.view({of.dim(0) / parts_.tokens, parts_.tokens, of.dim(1)})
      .slice(1, parts_.leading, parts_.tokens - parts_.leading);
}

Tensor ImageProjectorSegment::columns_of(const Tensor& joined, size_t index) const {
  const int64_t kept = parts_.tokens - parts_.leading;
  return joined.view({joined.dim(0) / kept, kept, joined.dim(1)})
      .slice(2, static_cast<int64_t>(index) * parts_.width, parts_.width);
}

TensorSet ImageProjectorSegment::forward(RankContext& context, const Batch& batch,
                                         const TensorSet& in, SavedStore& saved) {
  const KeptTokens tokens(context, parts_);
  const int64_t rows = batch.tokens() / parts_.tokens * (parts_.tokens - parts_.leading),
                inputs = static_cast<int64_t>(parts_.inputs.size());
  const Tensor x = context.activation({rows, inputs * parts_.width}, saved.tag());
  for (size_t i = 0; i < parts_.inputs.size() && rows > 0; ++i)
    copy(context.ops, {kept_rows(in.get(parts_.inputs[i])), columns_of(x, i)});
  // raised [rows, H here] = x · W_upᵀ + b
  const Tensor raised = parts_.up.forward(context, x, saved, saved.tag());
  const Tensor activated = context.activation(raised.shape(), saved.tag());
  activation_forward(context.ops, {parts_.activation, false, raised, activated});
  saved.keep(this, "raised", raised);
  return TensorSet(kImageFeatures,
                   parts_.down.forward(context, activated, saved, saved.output_tag()));
}

TensorSet ImageProjectorSegment::backward_input(RankContext& context, const Batch& batch,
                                                const TensorSet& d_out, SavedStore& saved) {
  const KeptTokens tokens(context, parts_);
  const Tensor d_activated =
      parts_.down.backward_input(context, d_out.get(kImageFeatures), saved);  // [rows, H here]
  const Tensor raised = saved.take(this, "raised");
  activation_backward(context.ops, {parts_.activation, false, d_activated, raised, raised});
  const Tensor d_x = parts_.up.backward_input(context, raised, saved);  // [rows, inputs · width]
  TensorSet d_in;
  if (!parts_.input_gradient) return d_in;
  for (size_t i = 0; i < parts_.inputs.size(); ++i) {
    const Tensor d = context.stream({batch.tokens(), parts_.width}, MemoryTag::activations);
    fill(context.ops, {d, 0});
    if (d_x.dim(0) > 0) copy(context.ops, {columns_of(d_x, i), kept_rows(d)});
    d_in.set(parts_.inputs[i], d);
  }
  return d_in;
}

void ImageProjectorSegment::backward_weight(RankContext& context, const Batch&, SavedStore& saved) {
  const KeptTokens tokens(context, parts_);
  parts_.down.backward_weight(context, saved);
  parts_.up.backward_weight(context, saved);
}

std::vector<const Parameter*> ImageProjectorSegment::parameters() const {
  std::vector<const Parameter*> list;
  parts_.up.append_parameters(list);
  parts_.down.append_parameters(list);
  return list;
}

}  // namespace viaduct
