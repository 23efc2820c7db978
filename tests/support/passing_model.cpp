#include "support/passing_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace viaduct::test {
namespace {

constexpr const char *kScores = "scores", *kLabels = "labels";
constexpr int64_t kFirstScores = 1, kNextScores = 4;  // blocks that produce them

EdgeTensor stream(const RankContext& context, const Batch& batch) {
  return stream_edge(context, batch, kPassingHidden);
}
EdgeTensor scores(const Batch& batch) {
  return {kScores, DType::f32, {batch.stream_tokens, 1}};
}
EdgeTensor labels(const Batch& batch) {
  return {kLabels, DType::i64, {batch.stream_tokens}, false};
}

/// A segment with a weight that records its computations.
class NotingSegment : public Segment {
 public:
  NotingSegment(std::string path, PassingNotes& notes) : path_(std::move(path)), notes_(notes) {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "mixer"; }

 protected:
  static float* data(const Tensor& tensor) { return tensor.data<float>(); }
  static Tensor make(RankContext& context, const Shape& shape) {
    return context.ops.allocate(DType::f32, shape, MemoryTag::saved);
  }
  void note(const Batch& batch, const Tensor& out) {
    auto& list = notes_.outputs[{path_, *batch.ids.data<int32_t>() / 100}];
    list.insert(list.end(), data(out), data(out) + out.elements());
  }
  void add_gradient(double gradient) { notes_.gradients[path_] += gradient; }
  float weight() const { return 0.3f + 0.01f * static_cast<float>(path_.size() + path_.back()); }

  std::string path_;

 private:
  PassingNotes& notes_;
};

class Source final : public NotingSegment {
 public:
  using NotingSegment::NotingSegment;
  Edge inputs(const RankContext&, const Batch&) const override { return {}; }
  std::vector<std::string_view> outputs() const override { return {kHidden, kLabels}; }
  TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                    SavedStore& saved) override {
    EXPECT_TRUE(in.empty());
    const Tensor x = make(context, {batch.stream_tokens, kPassingHidden});
    const Tensor label = context.ops.allocate(DType::i64, {batch.stream_tokens}, MemoryTag::saved);
    for (int64_t i = 0; i < x.elements(); ++i)
      data(x)[i] = std::sin(weight() * static_cast<float>(id(batch, i) + i));
    for (int64_t t = 0; t < batch.stream_tokens; ++t)
      label.data<int64_t>()[t] = batch.ids.data<int32_t>()[t] % 7;
    saved.once([&] { note(batch, x); });
    TensorSet out(kHidden, x);
    out.set(kLabels, label);
    return out;
  }
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet& d_out,
                           SavedStore& saved) override {
    EXPECT_FALSE(d_out.has(kLabels));
    saved.keep(this, "d", d_out.get(kHidden));
    return {};
  }
  void backward_weight(RankContext&, const Batch& batch, SavedStore& saved) override {
    const Tensor d = saved.take(this, "d");
    double sum = 0;
    for (int64_t i = 0; i < d.elements(); ++i) {
      const auto at = static_cast<float>(id(batch, i) + i);
      sum += data(d)[i] * at * std::cos(weight() * at);
    }
    add_gradient(sum);
  }

 private:
  static int64_t id(const Batch& batch, int64_t element) {
    return batch.ids.data<int32_t>()[element / kPassingHidden];
  }
};

/// y = tanh(w x + scores / 10); makes scores / 2 + w Σ x. The unit mlp keeps x and y.
class Mixer final : public NotingSegment {
 public:
  Mixer(std::string path, PassingNotes& notes, bool reads, bool makes)
      : NotingSegment(std::move(path), notes), reads_(reads), makes_(makes) {}
  Edge inputs(const RankContext& context, const Batch& batch) const override {
    Edge edge{stream(context, batch)};
    if (reads_) edge.push_back(scores(batch));
    return edge;
  }
  std::vector<std::string_view> outputs() const override {
    return makes_ ? std::vector<std::string_view>{kHidden, kScores}
                  : std::vector<std::string_view>{kHidden};
  }
  TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                    SavedStore& saved) override {
    EXPECT_EQ(in.operands().size(), reads_ ? 2u : 1u) << path_ << ": unexpected inputs";
    const Tensor x = in.get(kHidden), y = make(context, x.shape());
    const Tensor s = make(context, {x.dim(0), 1});
    for (int64_t t = 0; t < x.dim(0); ++t) {
      const float before = reads_ ? data(in.get(kScores))[t] : 0;
      float sum = 0;
      for (int64_t i = t * kPassingHidden; i < (t + 1) * kPassingHidden; ++i) {
        data(y)[i] = std::tanh(weight() * data(x)[i] + before / 10);
        sum += data(x)[i];
      }
      data(s)[t] = before / 2 + weight() * sum;
    }
    const UnitScope unit(saved, unit::mlp);
    saved.keep(this, "x", x), saved.keep(this, "y", y);
    saved.once([&] {
      note(batch, y);
      if (makes_) note(batch, s);
    });
    TensorSet out(kHidden, y);
    if (makes_) out.set(kScores, s);
    return out;
  }
  TensorSet backward_input(RankContext& context, const Batch&, const TensorSet& d_out,
                           SavedStore& saved) override {
    EXPECT_EQ(d_out.operands().size(), makes_ ? 2u : 1u) << path_;
    const Tensor dy = d_out.get(kHidden), y = saved.take(this, "y");
    const Tensor g = make(context, y.shape()), dx = make(context, y.shape());
    const Tensor ds = make(context, {y.dim(0), 1}), d_made = make(context, {y.dim(0), 1});
    for (int64_t t = 0; t < y.dim(0); ++t) {
      data(d_made)[t] = makes_ ? data(d_out.get(kScores))[t] : 0;
      float sum = 0;
      for (int64_t i = t * kPassingHidden; i < (t + 1) * kPassingHidden; ++i) {
        data(g)[i] = data(dy)[i] * (1 - data(y)[i] * data(y)[i]);
        data(dx)[i] = weight() * (data(g)[i] + data(d_made)[t]);
        sum += data(g)[i];
      }
      data(ds)[t] = sum / 10 + data(d_made)[t] / 2;
    }
    saved.keep(this, "g", g), saved.keep(this, "d_made", d_made);
    TensorSet d_in(kHidden, dx);
    if (reads_) d_in.set(kScores, ds);
    return d_in;
  }
  void backward_weight(RankContext&, const Batch&, SavedStore& saved) override {
    const Tensor x = saved.take(this, "x"), g = saved.take(this, "g");
    const Tensor d_made = saved.take(this, "d_made");
    double sum = 0;
    for (int64_t i = 0; i < x.elements(); ++i)
      sum += data(x)[i] * (data(g)[i] + data(d_made)[i / kPassingHidden]);
    add_gradient(sum);
  }

 private:
  bool reads_, makes_;
};

/// The loss Σ (label + 1) (w + scores) Σ x².
class Loss final : public NotingSegment {
 public:
  using NotingSegment::NotingSegment;
  Edge inputs(const RankContext& context, const Batch& batch) const override {
    return {stream(context, batch), scores(batch), labels(batch)};
  }
  std::vector<std::string_view> outputs() const override { return {}; }
  TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                    SavedStore& saved) override {
    const Tensor loss = make(context, {batch.stream_tokens});
    for (const char* name : {"hidden", kScores, kLabels}) saved.keep(this, name, in.get(name));
    for (int64_t t = 0; t < batch.stream_tokens; ++t) {
      data(loss)[t] = static_cast<float>(in.get(kLabels).data<int64_t>()[t] + 1) *
                      (weight() + data(in.get(kScores))[t]) * squares(in.get(kHidden), t);
    }
    saved.once([&] { note(batch, loss); });
    return {};
  }
  TensorSet backward_input(RankContext& context, const Batch&, const TensorSet& d_out,
                           SavedStore& saved) override {
    EXPECT_TRUE(d_out.empty());
    const Tensor x = saved.get(this, "hidden"), s = saved.take(this, kScores);
    const Tensor label = saved.get(this, kLabels);
    const Tensor dx = make(context, x.shape()), ds = make(context, s.shape());
    for (int64_t t = 0; t < x.dim(0); ++t) {
      const auto factor = static_cast<float>(label.data<int64_t>()[t] + 1);
      data(ds)[t] = factor * squares(x, t);
      for (int64_t i = t * kPassingHidden; i < (t + 1) * kPassingHidden; ++i)
        data(dx)[i] = factor * (weight() + data(s)[t]) * 2 * data(x)[i];
    }
    TensorSet d_in(kHidden, dx);
    d_in.set(kScores, ds);
    return d_in;
  }
  void backward_weight(RankContext&, const Batch&, SavedStore& saved) override {
    const Tensor x = saved.take(this, "hidden"), label = saved.take(this, kLabels);
    double sum = 0;
    for (int64_t t = 0; t < x.dim(0); ++t)
      sum += static_cast<double>(label.data<int64_t>()[t] + 1) * squares(x, t);
    add_gradient(sum);
  }

 private:
  static float squares(const Tensor& x, int64_t t) {
    float sum = 0;
    for (int64_t i = t * kPassingHidden; i < (t + 1) * kPassingHidden; ++i)
      sum += data(x)[i] * data(x)[i];
    return sum;
  }
};

}  // namespace

ModelChunk passing_chunk(int stage, int stages, PassingNotes& notes) {
  ModelChunk chunk;
  const int64_t blocks = kPassingBlocks / stages, first = stage * blocks, end = first + blocks;
  chunk.holds = {stage == 0, first, blocks, stage == stages - 1};
  const auto add = [&](std::string path, std::unique_ptr<Segment> segment, int64_t block = -1) {
    chunk.layers.push_back(Layer{std::move(path), {}, block});
    chunk.layers.back().segments.push_back(std::move(segment));
  };
  if (stage == 0) add("embedding", std::make_unique<Source>("embedding", notes));
  for (int64_t i = first; i < end; ++i) {
    const std::string path = "blocks." + std::to_string(i);
    const bool next = i == kNextScores;
    add(path, std::make_unique<Mixer>(path, notes, next, next || i == kFirstScores), i);
  }
  if (stage == stages - 1) {
    add("head", std::make_unique<Loss>("head", notes));
  } else {
    chunk.after = [end](const RankContext& context, const Batch& batch) {
      Edge edge{stream(context, batch), labels(batch)};
      if (end > kFirstScores) edge.push_back(scores(batch));
      return edge;
    };
  }
  return chunk;
}

std::unique_ptr<Model> passing_model(std::vector<ModelChunk> chunks) {
  ModelConfig config;
  config.hidden = kPassingHidden;
  config.layers = kPassingBlocks;
  return std::make_unique<Model>(std::move(config), nullptr, std::move(chunks));
}

int64_t passing_tokens(int64_t micro_batch) {
  return 3 + micro_batch % 3;
}

Batch passing_batch(int64_t micro_batch) {
  Batch batch;
  batch.stream_tokens = passing_tokens(micro_batch);
  batch.ids = host_tensor(DType::i32, {batch.stream_tokens});
  for (int64_t t = 0; t < batch.stream_tokens; ++t)
    batch.ids.data<int32_t>()[t] = static_cast<int32_t>(micro_batch * 100 + t * 3);
  return batch;
}

}  // namespace viaduct::test
