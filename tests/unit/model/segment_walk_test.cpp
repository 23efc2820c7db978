// Tensors that pass through and around segments, and the hooks of a walk.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "device/second_memory.h"
#include "model/offload_segments.h"
#include "model/segment_edges.h"
#include "model/segment_walk.h"
#include "nn/exchange_segment.h"
#include "support/passing_model.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> names(const TensorSet& set) {
  std::vector<std::string> list;
  for (const auto& [name, operand] : set.operands()) list.push_back(name);
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<std::string> names(const Edge& edge) {
  std::vector<std::string> list;
  for (const EdgeTensor& tensor : edge) list.push_back(tensor.name);
  return list;
}

class SegmentEdges : public testing::Test {
 protected:
  const Layer& layer(size_t number) const { return chunk_.layers[number]; }
  Segment& segment(size_t number) const { return *layer(number).segments[0]; }
  TensorSet forward(size_t number, const TensorSet& in) {
    const SegmentScope scope(saved_, {static_cast<int>(number)});
    return forward_through(layer(number), segment(number), rank_.context(), batch_, in, saved_);
  }
  TensorSet backward(size_t number, const TensorSet& d_out) {
    const BackwardScope scope(saved_, {static_cast<int>(number)}, rank_.context(), batch_);
    return backward_through(
        layer(number), segment(number), rank_.context(), batch_, d_out, [&](const TensorSet& d) {
          return segment(number).backward_input(rank_.context(), batch_, d, saved_);
        });
  }
  static Tensor floats(const Shape& shape) { return host_tensor(DType::f32, shape); }

  test::PassingRank rank_;
  test::PassingNotes notes_;
  ModelChunk chunk_ = test::passing_chunk(0, 1, notes_);
  Batch batch_ = test::passing_batch(0);  // 3 tokens
  SavedStore saved_;
};

TEST_F(SegmentEdges, WhatASegmentDoesNotNamePassesItBy) {
  TensorSet in(kHidden, floats({3, 4}));
  const Tensor other = floats({7});
  in.set("other", other);
  const TensorSet out = forward(1, in);
  EXPECT_THAT(names(out), ElementsAre("hidden", "other"));
  EXPECT_EQ(out.get("other").raw(), other.raw());
  EXPECT_NE(out.get(kHidden).raw(), in.get(kHidden).raw());

  TensorSet d_out(kHidden, floats({3, 4}));
  d_out.set("other", other);
  const TensorSet d_in = backward(1, d_out);
  EXPECT_THAT(names(d_in), ElementsAre("hidden", "other"));
  EXPECT_EQ(d_in.get("other").raw(), other.raw());
}

TEST_F(SegmentEdges, NoSegmentRunsBetweenTheTwoOfAnExchange) {
  TensorSet in(kHidden, floats({3, 4}));
  in.set_under_way(std::make_shared<UnderWay>());
  EXPECT_FALSE(TensorSet(in).empty());
  EXPECT_THAT([&] { forward(1, in); },
              ThrowsMessage<ShapeError>(HasSubstr("segment blocks.0.mixer: an exchange is pending "
                                                  "that it does not end")));
  TensorSet d_out(kHidden, floats({3, 4}));
  d_out.set_under_way(std::make_shared<UnderWay>());
  EXPECT_THROW(backward(1, d_out), ShapeError);
}

TEST_F(SegmentEdges, ASetThatDoesNotFitTheDeclarationIsAnError) {
  const auto message = [&](size_t number, const TensorSet& in) {
    try {
      forward(number, in);
    } catch (const ShapeError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(1, TensorSet("other", floats({1}))),
              AllOf(HasSubstr("segment blocks.0.mixer"), HasSubstr("no input \"hidden\"")));
  EXPECT_THAT(message(1, TensorSet(kHidden, floats({2, 4}))),
              AllOf(HasSubstr("segment blocks.0.mixer: input \"hidden\" is declared as f32 [3, 4]"),
                    HasSubstr("[2, 4]")));
  EXPECT_THAT(message(1, TensorSet(kHidden, host_tensor(DType::bf16, {3, 4}))),
              HasSubstr("declared as f32 [3, 4] and is bf16 [3, 4]"));
  TensorSet both(kHidden, floats({3, 4}));
  both.set("scores", floats({3, 1}));
  EXPECT_THAT(message(2, both),
              AllOf(HasSubstr("segment blocks.1.mixer"),
                    HasSubstr("\"scores\" bypasses it, but it also makes a tensor")));
}

TEST_F(SegmentEdges, GradientsAreThoseOfTheDeclaredInputs) {
  // Simulates a segment that returns a tensor other than declared.
  const auto backward_to = [&](size_t number, const TensorSet& d_in) {
    backward_through(layer(number), segment(number), rank_.context(), batch_, {},
                     [&](const TensorSet&) { return d_in; });
  };
  const Tensor d = floats({3, 4});
  EXPECT_NO_THROW(backward_to(1, TensorSet(kHidden, d)));
  EXPECT_THAT([&] { backward_to(1, {}); },
              ThrowsMessage<ShapeError>(HasSubstr("no gradient of input \"hidden\"")));
  EXPECT_THAT(
      [&] {
        backward_to(1, TensorSet(kHidden, floats({4, 3})));
      },
      ThrowsMessage<ShapeError>(HasSubstr("declared as f32 [3, 4]")));
  TensorSet all(kHidden, d);
  all.set("scores", floats({3, 1}));
  EXPECT_NO_THROW(backward_to(9, all)) << "labels need none";
  all.set("labels", floats({3}));
  EXPECT_THAT([&] { backward_to(9, all); },
              ThrowsMessage<ShapeError>(HasSubstr("segment head.mixer: 3 gradients of inputs, "
                                                  "expected 2")));
}

TEST_F(SegmentEdges, AnEdgeIsWhatTheSegmentsBeyondItRead) {
  const auto model = test::passing_model([&] {
    std::vector<ModelChunk> chunks;
    for (int stage = 0; stage < 4; ++stage) chunks.push_back(test::passing_chunk(stage, 4, notes_));
    return chunks;
  }());
  const RankContext& context = rank_.context();
  EXPECT_TRUE(model->edge_into(0, context, batch_).empty());
  EXPECT_TRUE(model->edge_from(3, context, batch_).empty());
  for (size_t chunk = 1; chunk < 4; ++chunk) {
    const Edge into = model->edge_into(chunk, context, batch_);
    EXPECT_THAT(names(into), ElementsAre("hidden", "labels", "scores"));
    EXPECT_EQ(names(model->edge_from(chunk - 1, context, batch_)), names(into));
    EXPECT_FALSE(into[1].needs_gradient);
    EXPECT_EQ(into[1].dtype, DType::i64);
  }
  // Block 1 makes the scores, so they are not among its inputs.
  EXPECT_THAT(names(edge_before(layer(2), segment(2), context, batch_,
                                model->edge_into(1, context, batch_))),
              ElementsAre("hidden", "labels"));
}

/// Adds the scores to the stream, and keeps the labels.
class Adder final : public Segment {
 public:
  Edge inputs(const RankContext& context, const Batch& batch) const override {
    return {stream_edge(context, batch, test::kPassingHidden),
            {"scores", DType::f32, {batch.stream_tokens, 1}},
            {"labels", DType::i64, {batch.stream_tokens}, false}};
  }
  std::vector<std::string_view> outputs() const override { return {kHidden, "sums"}; }
  std::vector<std::string_view> read_for_outputs() const override { return {kHidden, "scores"}; }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore& saved) override {
    saved.keep(this, "labels", in.get("labels"));
    seen = names(in);
    TensorSet out;
    if (saved.output_is_read(kHidden)) out.set(kHidden, in.get(kHidden));
    out.set("sums", host_tensor(DType::f32, {1}));
    return out;
  }
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override {
    return {};
  }
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "adder"; }

  std::vector<std::string> seen;
};

// As where a layer is recomputed for what it keeps.
TEST_F(SegmentEdges, WithoutReadersASegmentGetsWhatItKeepsAndMakesNothing) {
  Adder adder;
  const auto before = [&](bool makes_outputs) {
    return names(edge_before(layer(9), adder, rank_.context(), batch_, {{"other", DType::f32, {7}}},
                             makes_outputs));
  };
  EXPECT_THAT(before(true), ElementsAre("hidden", "labels", "other", "scores"));
  EXPECT_THAT(before(false), ElementsAre("labels", "other"));
  const Edge stream{stream_edge(rank_.context(), batch_, test::kPassingHidden)};
  EXPECT_THAT(unread_outputs(adder, {}), ElementsAre(kHidden, "sums"));
  EXPECT_THAT(unread_outputs(adder, stream), ElementsAre("sums"));

  TensorSet in(kHidden, floats({3, 4}));
  in.set("scores", floats({3, 1})), in.set("labels", host_tensor(DType::i64, {3}));
  in.set("other", floats({7}));
  const auto run = [&](const SegmentRun& as) {
    SavedStore saved;
    const LayerReplayScope scope(saved, as);
    return names(forward_through(layer(9), adder, rank_.context(), batch_, in, saved));
  };
  EXPECT_THAT(run({}), ElementsAre("hidden", "other", "sums"));
  EXPECT_THAT(run({.unread = {"sums"}}), ElementsAre("hidden", "other"));
  EXPECT_THAT(adder.seen, ElementsAre("hidden", "labels", "scores"));
  EXPECT_THAT(run({.output_unread = true, .unread = {kHidden, "sums"}}), ElementsAre("other"));
  EXPECT_THAT(adder.seen, ElementsAre("labels"));
}

// The head reads the scores and keeps them: later segments could not read them.
TEST_F(SegmentEdges, WhatIsUsedUpCannotBeReadLater) {
  EXPECT_THAT(
      [&] {
        edge_before(layer(9), segment(9), rank_.context(), batch_,
                    {{"scores", DType::f32, {3, 1}}});
      },
      ThrowsMessage<ShapeError>(HasSubstr("segment head.mixer: it reads \"scores\"")));
}

TEST_F(SegmentEdges, WhatNobodyReadsIsAnErrorWhereTheChunkEnds) {
  ModelChunk chunk = test::passing_chunk(0, 2, notes_);
  chunk.after = [](const RankContext& context, const Batch& batch) {
    return Edge{stream_edge(context, batch, test::kPassingHidden)};
  };
  std::vector<ModelChunk> chunks;
  chunks.push_back(std::move(chunk));
  const auto model = test::passing_model(std::move(chunks));
  ModelStage stage(*model, rank_.context(), {}, test::kPassingBatches);
  EXPECT_THAT([&] { stage.forward(0, 0, {}, {}); },
              ThrowsMessage<ShapeError>(
                  HasSubstr("\"scores\" leaves the chunk, but no later segment names it")));
}

// The edges given by the builder of a dense model match the declarations of the segments.
TEST(ModelEdges, OfDenseModelsAreTheStream) {
  test::PassingRank rank;
  Batch batch;
  batch.stream_tokens = 5;
  const ModelConfig config = test::tiny_model("llama");
  ModelPlace place;
  place.pp = 2;
  place.chunks = {{true, 0, 1, false}, {false, 1, config.layers - 1, false}, {false, 0, 0, true}};
  const auto model = build_model(rank.device(), config, {.precision = precision_recipe("fp32")},
                                 config.max_positions, place);
  for (size_t chunk = 0; chunk < 3; ++chunk) {
    const Edge into = model->edge_into(chunk, rank.context(), batch);
    if (chunk == 0) {
      EXPECT_TRUE(into.empty());
      continue;
    }
    ASSERT_THAT(names(into), ElementsAre("hidden"));
    EXPECT_EQ(into[0].shape, (Shape{5, config.hidden}));
    EXPECT_EQ(names(model->edge_from(chunk - 1, rank.context(), batch)), names(into));
  }
  EXPECT_TRUE(model->edge_from(2, rank.context(), batch).empty());
}

/// Records its calls.
class Listener final : public SegmentHooks {
 public:
  Listener(std::string name, std::vector<std::string>& log) : name_(std::move(name)), log_(log) {}
  void before(const SegmentEvent& event) override {
    add("before", event);
    if (event.layer.path == throws_at) throw Error("a hook fails");
  }
  void after(const SegmentEvent& event, const TensorSet& out) override {
    add("after", event);
    out_ = names(out);
  }
  void failed(const SegmentEvent& event) noexcept override { add("failed", event); }

  const std::vector<std::string>& last_out() const { return out_; }
  std::string throws_at;

 private:
  void add(const char* what, const SegmentEvent& event) {
    static constexpr const char* kWork[] = {"forward", "backward", "input", "weight", "replay"};
    log_.push_back(fmt::format("{} {} {} {} next {}", name_, what,
                               kWork[static_cast<size_t>(event.work)], event.number, event.next));
  }
  std::string name_;
  std::vector<std::string>& log_;
  std::vector<std::string> out_;
};

class SegmentHooksTest : public testing::Test {
 protected:
  SegmentHooksTest() {
    std::vector<ModelChunk> chunks;
    chunks.push_back(test::passing_chunk(0, 1, notes_));
    model_ = test::passing_model(std::move(chunks));
  }
  /// The calls of two hooks for one segment.
  void expect(const char* work, int number, int next) {
    for (const char* who : {"a before", "b before", "b after", "a after"})
      expected_.push_back(fmt::format("{} {} {} next {}", who, work, number, next));
  }

  SegmentWalk walk(SavedStore& saved, SegmentHookList hooks) {
    return {model_->chunks()[0], rank_.context(), batch_, saved, hooks};
  }

  test::PassingRank rank_;
  test::PassingNotes notes_;
  std::unique_ptr<Model> model_;
  Batch batch_ = test::passing_batch(0);
  std::vector<std::string> log_, expected_;
  Listener a_{"a", log_}, b_{"b", log_};
  std::vector<SegmentHooks*> hooks_{&a_, &b_};
};

TEST_F(SegmentHooksTest, AreToldOfEachSegmentAndHalfInOrderReplaysIncluded) {
  SavedPolicy policy;
  policy.recompute_layers({2, 2});  // segments 3 and 4
  SavedStore saved(true, &policy);
  walk(saved, hooks_).forward({}, {});
  for (int i = 0; i < 10; ++i) expect("forward", i, i < 9 ? i + 1 : -1);
  EXPECT_TRUE(a_.last_out().empty()) << "the head returns nothing";

  const TensorSet d =
      walk(saved, hooks_).backward({5, SegmentRange::kEnd}, {}, SegmentWork::backward_input);
  for (int i = 9; i >= 5; --i) expect("input", i, i > 5 ? i - 1 : -1);
  EXPECT_THAT(a_.last_out(), ElementsAre("hidden", "scores"));
  walk(saved, hooks_).backward_weight({5, SegmentRange::kEnd});
  for (int i = 9; i >= 5; --i) expect("weight", i, i > 5 ? i - 1 : -1);
  walk(saved, hooks_).backward({0, 5}, d, SegmentWork::backward);
  expect("replay", 3, 4), expect("replay", 4, -1);
  for (int i = 4; i >= 0; --i) expect("backward", i, i - 1);
  EXPECT_EQ(log_, expected_);
  EXPECT_EQ(saved.entries(), 0u);
}

TEST_F(SegmentHooksTest, WhoWasToldLearnsOfAFailure) {
  b_.throws_at = "blocks.0";
  SavedStore saved;
  EXPECT_THROW(walk(saved, hooks_).forward({}, {}), Error);
  expect("forward", 0, 1);
  for (const char* line :
       {"a before forward 1 next 2", "b before forward 1 next 2", "a failed forward 1 next 2"})
    expected_.push_back(line);
  EXPECT_EQ(log_, expected_);

  log_.clear();
  b_.throws_at.clear();
  EXPECT_THROW(walk(saved, hooks_).forward({1, 2}, {}), ShapeError);
  EXPECT_THAT(log_, ElementsAre("a before forward 1 next -1", "b before forward 1 next -1",
                                "b failed forward 1 next -1", "a failed forward 1 next -1"));
}

TEST_F(SegmentHooksTest, TheRecordHasAScopeForEachAndClosesItAfterAFailure) {
  StepRecord record;
  rank_.device().set_record(&record);
  ModelStage stage(*model_, rank_.context(), {.hooks = {&b_}}, test::kPassingBatches);
  b_.throws_at = "blocks.1";
  EXPECT_THROW(stage.forward(0, 0, {}, {}), Error);
  rank_.device().set_record(nullptr);
  ASSERT_EQ(record.scopes().size(), 4u);
  EXPECT_EQ(record.scopes()[1].name, "embedding.mixer");
  EXPECT_EQ(record.scopes()[3].name, "blocks.1.mixer");
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(record.scopes()[i].parent, 0);
    EXPECT_GT(record.scopes()[i].end_at, record.scopes()[i].begin_at);
    EXPECT_LT(record.scopes()[i].end_at, record.scopes()[0].end_at);
  }
}

/// Records its requests.
class NotedMemory final : public SecondMemory {
 public:
  explicit NotedMemory(std::vector<std::string>& log) : log_(log) {}
  Id put(const Tensor& value) override {
    copies_.push_back(host_tensor(DType::u8, value.shape()));
    std::memcpy(copies_.back().raw(), value.raw(), static_cast<size_t>(value.bytes()));
    note("put", static_cast<Id>(copies_.size()) - 1);
    return static_cast<Id>(copies_.size()) - 1;
  }
  void finish_put(Id id) override { note("finish", id); }
  void fetch(Id id, const Tensor& value) override {
    note("fetch", id);
    std::memcpy(value.raw(), copies_[static_cast<size_t>(id)].raw(),
                static_cast<size_t>(value.bytes()));
  }
  void take(Id id) override { note("take", id); }
  void finish_fetch(Id id) override { note("finish_fetch", id); }
  void put_again(Id id, const Tensor&) override { note("put_again", id); }
  void drop(Id id) noexcept override { note("drop", id); }

 private:
  void note(const char* what, Id id) { log_.push_back(fmt::format("{} {}", what, id)); }
  std::vector<std::string>& log_;
  std::vector<Tensor> copies_;
};

// Segments 1 and 2 keep two storages each.
TEST_F(SegmentHooksTest, WhatIsOffloadedLeavesAndComesBackAtFixedPoints) {
  NotedMemory memory(log_);
  SavedPolicy policy;
  policy.set(0, unit::mlp, UnitPolicy::offload);
  policy.set(1, unit::mlp, UnitPolicy::offload);
  OffloadSegments offload;
  const std::vector<SegmentHooks*> hooks{&a_, &offload};
  const auto line = [&](const char* text) { expected_.push_back(text); };
  const auto told = [&](const char* when, const char* work, int number, int next) {
    expected_.push_back(fmt::format("a {} {} {} next {}", when, work, number, next));
  };
  SavedStore saved(true, &policy, &memory);
  const TensorSet in = walk(saved, {}).forward({0, 1}, {});
  walk(saved, hooks).forward({1, 4}, in);
  told("before", "forward", 1, 2);
  line("put 0"), line("put 1");
  told("after", "forward", 1, 2), told("before", "forward", 2, 3);
  line("finish 0"), line("finish 1"), line("put 2"), line("put 3");
  told("after", "forward", 2, 3), told("before", "forward", 3, -1);
  line("finish 2"), line("finish 3");
  told("after", "forward", 3, -1);
  EXPECT_EQ(log_, expected_);

  TensorSet d(kHidden, host_tensor(DType::f32, {3, 4}));
  d.set("scores", host_tensor(DType::f32, {3, 1}));
  walk(saved, hooks).backward({1, 4}, d, SegmentWork::backward);
  told("before", "backward", 3, 2);
  line("fetch 2"), line("fetch 3");
  told("after", "backward", 3, 2), told("before", "backward", 2, 1);
  line("fetch 0"), line("fetch 1");
  line("take 3"), line("take 2");  // y is read by the first half, x by the second
  told("after", "backward", 2, 1), told("before", "backward", 1, -1);
  line("take 1"), line("take 0");
  told("after", "backward", 1, -1);
  EXPECT_EQ(log_, expected_);

  // At its end a range releases what its last segment saved.
  log_.clear(), expected_.clear();
  SavedStore other(true, &policy, &memory);
  walk(other, hooks).forward({1, 2}, in);
  told("before", "forward", 1, -1);
  line("put 4"), line("put 5"), line("finish 4"), line("finish 5");
  told("after", "forward", 1, -1);
  EXPECT_EQ(log_, expected_);
}

TEST_F(SegmentHooksTest, WatchLayersSeesWhatLeavesThemInTheForward) {
  std::vector<std::string> seen;
  WatchLayers watch([&](const std::string& name, const Tensor& hidden) {
    EXPECT_EQ(hidden.shape(), (Shape{3, 4}));
    seen.push_back(name);
  });
  const std::vector<SegmentHooks*> hooks{&watch};
  SavedStore saved;
  walk(saved, hooks).forward({}, {});
  walk(saved, hooks).backward({}, {}, SegmentWork::backward);
  EXPECT_THAT(seen, ElementsAre("embed", "layer0", "layer1", "layer2", "layer3", "layer4", "layer5",
                                "layer6", "layer7"));
}

}  // namespace
}  // namespace viaduct
