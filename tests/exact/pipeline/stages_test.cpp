// A model in stages has, bit by bit, the gradients of one rank with every schedule: stages pass on
// what one rank computes, and weight gradients add up in the order of micro-batches.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "comm/world.h"
#include "engine/engine.h"
#include "ops/cpu/cpu_ops.h"
#include "pipeline/layer_map.h"
#include "support/instruction_set.h"
#include "support/op_testing.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

// Rows of two documents; micro-batches differ in size.
HostBatch micro_batch(int64_t number, int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(static_cast<unsigned>(number));
  for (const int64_t length : {3 + number % 3, int64_t{5}}) {
    for (int64_t i = 0; i < length; ++i) {
      batch.ids.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
      batch.positions.push_back(static_cast<int32_t>(i));
      const bool scored = i + 1 < length && random() % 4 != 0;
      batch.targets.push_back(
          scored ? static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)) : -1);
      batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
      batch.token_index.push_back(number * 32 + batch.tokens() - 1);
    }
    batch.end_document();
  }
  return batch;
}

struct StageRun {
  ModelConfig model;
  std::string recipe = "fp32";
  LayerMapSettings map;
  ScheduleSettings schedule;
  ExecutorSettings executor;
  int64_t micro_batches = 5;
  std::optional<DType> message_format = {};
  bool fp32_residual = false;
  SavedPolicy saved_policy = {};
};

struct Outcome {
  /// Main gradients by path, from every stage that holds the parameter, in the order of stages.
  std::map<std::string, std::vector<std::vector<double>>> gradients;
  /// Gradients of the micro-batches alone, by stage.
  std::vector<StepRecord> records;
};

Outcome run_stages(const StageRun& run) {
  Outcome outcome;
  const auto stages = static_cast<size_t>(run.map.pp);
  outcome.records.resize(stages);
  std::vector<std::map<std::string, std::vector<double>>> gradients(stages);
  run_thread_ranks(run.map.pp, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    const int rank = world->rank();
    const auto device = make_cpu_device(1);
    const OpTable ops = cpu_ops(test::instruction_set());
    world->record_on(device.get());
    ResolvedRun resolved;
    resolved.layers.precision = precision_recipe(run.recipe, run.fp32_residual);
    resolved.positions = 32;
    Parallelism& parallelism = resolved.parallelism;
    parallelism.mesh = Mesh({1, 1, 1, 1, run.map.pp});
    parallelism.layer_map = layer_map(run.map);
    parallelism.schedule = run.schedule;
    parallelism.schedule.virtual_stages = run.map.virtual_stages;
    parallelism.executor = run.executor;
    parallelism.message_format = run.message_format;
    resolved.memory.saved_policy = run.saved_policy;
    Engine engine(*device, ops, run.model, resolved, ParallelGroups(parallelism.mesh, world));
    engine.initialize();
    engine.begin_step({});
    StepRecord record;
    device->set_record(&record);
    engine.run_micro_batches(run.micro_batches,
                             [&](int64_t i) { return micro_batch(i, run.model.vocabulary); });
    device->set_record(nullptr);
    const auto stage = static_cast<size_t>(rank);
    for (const Parameter* p : engine.store().parameters())
      gradients[stage][p->path] = test::values(engine.store().main_gradient(*p));
    outcome.records[stage] = std::move(record);
  });
  for (const auto& stage : gradients)
    for (const auto& [path, values] : stage) outcome.gradients[path].push_back(values);
  return outcome;
}

ModelConfig model_of(const std::string& name, int64_t layers) {
  ModelConfig model = test::tiny_model(name);
  model.layers = layers;
  if (!model.windows.empty()) model.windows.assign(static_cast<size_t>(layers), 3);
  model.embedding_dropout = model.residual_dropout = model.attention_dropout = 0.2;
  return model;
}

StageRun one_rank(const ModelConfig& model, const std::string& recipe) {
  return {model, recipe, LayerMapSettings{model.layers}, {}, {}};
}

/// bf16_mixed with an FP32 residual stream.
StageRun with_fp32_stream(StageRun run) {
  run.recipe = "bf16_mixed";
  run.fp32_residual = true;
  return run;
}

/// `v`: whether `actual` is from a model with both ends on one stage of several.
void expect_bitwise(const Outcome& actual, const Outcome& expected, bool v = false) {
  const bool tied = !expected.gradients.contains("head.weight");
  const auto regroups_table = [&](const std::string& path) {
    return v && tied && path == "embedding.tokens";
  };
  EXPECT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [path, one] : expected.gradients) {
    ASSERT_TRUE(actual.gradients.contains(path)) << path;
    const auto& held = actual.gradients.at(path);
    if (held.size() == 1 && !regroups_table(path)) {
      EXPECT_EQ(held[0], one[0]) << path;
      continue;
    }
    // A tied table: the first stage has the look-up's part, the last one the head's. In a V one
    // stage has both, and adds the look-ups of a micro-batch after the heads of later ones.
    ASSERT_EQ(held.size(), v ? 1u : 2u) << path;
    for (size_t i = 0; i < one[0].size(); ++i) {
      double sum = 0, size = 1e-2;
      for (const auto& part : held) sum += part[i], size += std::abs(part[i]);
      ASSERT_NEAR(sum, one[0][i], 2e-5 * size) << path;
    }
  }
}

struct Case {
  std::string name;
  LayerMapSettings map;
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int64_t group = 0;
};

std::vector<Case> cases() {
  LayerMapSettings uneven{4, 3, 1};
  uneven.account_for_embedding = uneven.account_for_loss = true;
  LayerMapSettings first{4, 2, 1};
  first.first_stage = 1;
  LayerMapSettings bare{4, 3, 2};  // ends without a block
  bare.account_for_embedding = bare.account_for_loss = true;
  return {{"two stages", {4, 2, 1}},
          {"four stages, few micro-batches", {4, 4, 1}},
          {"gpipe", {4, 2, 1}, ScheduleKind::gpipe},
          {"zero bubble", {4, 4, 1}, ScheduleKind::zb_h1},
          {"uneven", uneven},
          {"first stage given", first, ScheduleKind::zb_h1},
          {"virtual stages", {4, 2, 2}, ScheduleKind::interleaved},
          {"virtual stages, groups of five", {4, 2, 2}, ScheduleKind::interleaved, 5},
          {"ends without a block", bare, ScheduleKind::interleaved},
          {"a V", {4, 2, 2}, ScheduleKind::dualpipe_v}};
}

TEST(Stages, HaveTheGradientsOfOneRank) {
  for (const char* name : {"llama", "gpt2"}) {
    for (const char* recipe : {"fp32", "bf16_mixed", "FP32 stream"}) {
      const ModelConfig model = model_of(name, 4);
      const bool fp32_stream = std::string_view(recipe) == "FP32 stream";
      StageRun reference = one_rank(model, recipe);
      if (fp32_stream) reference = with_fp32_stream(reference);
      for (const Case& c : cases()) {
        const bool v = c.kind == ScheduleKind::dualpipe_v;
        StageRun run{model, recipe, c.map, {}, {}};
        if (fp32_stream) run = with_fp32_stream(run);
        // With groups of pp the last group must have pp micro-batches too: with 5 it would have 1
        // (pp 2) or 2 (pp 3).
        run.micro_batches = reference.micro_batches =
            c.kind == ScheduleKind::interleaved && c.group == 0 ? 2 * c.map.pp : 5;
        const Outcome expected = run_stages(reference);
        run.schedule.kind = c.kind, run.schedule.group = c.group;
        for (const PointToPoint messages : {PointToPoint::overlapped, PointToPoint::batched}) {
          if (v && messages == PointToPoint::batched) continue;
          SCOPED_TRACE(fmt::format("{} {} {} messages {}", name, recipe, c.name, int(messages)));
          run.schedule.messages = messages;
          run.executor.deallocate_outputs = messages == PointToPoint::overlapped;
          expect_bitwise(run_stages(run), expected, v);
        }
      }
    }
  }
}

// Recomputed values are the same in every schedule.
TEST(Stages, RecomputeChangesNoBit) {
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    const ModelConfig model = model_of("llama", 4);
    StageRun reference = one_rank(model, recipe);
    std::mt19937 random(5);
    for (const Case& c : cases()) {
      StageRun run{model, recipe, c.map, {}, {}};
      run.micro_batches = reference.micro_batches =
          c.kind == ScheduleKind::interleaved && c.group == 0 ? 2 * c.map.pp : 5;
      run.schedule.kind = c.kind, run.schedule.group = c.group;
      const Outcome expected = run_stages(reference);
      SavedPolicy units, layers;
      for (int64_t block = 0; block < model.layers; ++block) {
        for (const std::string_view unit : kUnits) {
          if (random() % 2 == 0) units.set(block, unit, UnitPolicy::recompute);
        }
      }
      for (const ChunkLayers& chunk : layer_map(c.map)) {
        if (chunk.blocks > 0) layers.recompute_layers({chunk.first_block, chunk.blocks});
      }
      for (const SavedPolicy& policy : {units, layers}) {
        SCOPED_TRACE(fmt::format("{} {} {}", recipe, c.name, policy.group_of(0) ? "layers" : ""));
        run.saved_policy = policy;
        expect_bitwise(run_stages(run), expected);
      }
    }
  }
}

TEST(Stages, RecomputeOfOneUnitOfTwoStages) {
  const ModelConfig model = model_of("gpt2", 2);
  StageRun run{model, "bf16_mixed", {2, 2, 1}, {}, {}};
  const Outcome expected = run_stages(run);
  for (int64_t block = 0; block < model.layers; ++block) {
    for (const std::string_view unit : kUnits) {
      SCOPED_TRACE(fmt::format("block {} {}", block, unit));
      run.saved_policy = {};
      run.saved_policy.set(block, unit, UnitPolicy::recompute);
      EXPECT_EQ(run_stages(run).gradients, expected.gradients);
    }
  }
}

struct Wire {
  int64_t sent = 0, received = 0, messages = 0;
};

Wire wire_of(const StepRecord& record) {
  Wire wire;
  for (const CollectiveRecord& c : record.collectives()) {
    if (c.operation != Collective::send && c.operation != Collective::receive) continue;
    ++wire.messages;
    (c.operation == Collective::send ? wire.sent : wire.received) += c.bytes;
    EXPECT_GT(c.completed_at, c.launched_at);
  }
  return wire;
}

/// Elements of the streams that an edge carries in one direction.
int64_t stream_elements(const StageRun& run) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < run.micro_batches; ++i)
    tokens += micro_batch(i, run.model.vocabulary).tokens();
  return tokens * run.model.hidden;
}

// Bytes on the wire: every edge carries each micro-batch's stream once in each direction.
TEST(Stages, SendTheStreamOfEachMicroBatch) {
  StageRun run{model_of("llama", 4), "bf16_mixed", {4, 2, 1}, {}, {}};
  const Outcome outcome = run_stages(run);
  for (const StepRecord& record : outcome.records) {
    const Wire wire = wire_of(record);
    EXPECT_EQ(wire.messages, 2 * run.micro_batches);
    EXPECT_EQ(wire.sent, stream_elements(run) * 2);
    EXPECT_EQ(wire.received, wire.sent);
  }
}

// An FP32 stream is sent unchanged, with twice the bytes of BF16 activations; BF16 messages round
// it.
TEST(Stages, SendAnFp32Stream) {
  const StageRun run = with_fp32_stream({model_of("llama", 4), "bf16_mixed", {4, 2, 1}, {}, {}});
  const Outcome own = run_stages(run);
  StageRun rounded = run;
  rounded.message_format = DType::bf16;
  const Outcome narrow = run_stages(rounded);
  for (size_t stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(wire_of(own.records[stage]).sent, stream_elements(run) * 4);
    EXPECT_EQ(wire_of(narrow.records[stage]).sent, stream_elements(run) * 2);
  }
  for (const auto& [path, gradients] : own.gradients)
    EXPECT_NE(narrow.gradients.at(path), gradients) << path << ": nothing was rounded";
}

// A wider format carries the same values in more bytes; a narrower one rounds them.
TEST(Stages, MessagesMayHaveAFormatOfTheirOwn) {
  StageRun run{model_of("llama", 4), "bf16_mixed", {4, 2, 2}, {}, {}};
  run.schedule.kind = ScheduleKind::interleaved;
  run.micro_batches = 4;
  const Outcome own = run_stages(run);
  run.message_format = DType::f32;
  const Outcome wide = run_stages(run);
  expect_bitwise(wide, own);
  for (size_t stage = 0; stage < 2; ++stage)
    EXPECT_EQ(wire_of(wide.records[stage]).sent, 2 * wire_of(own.records[stage]).sent);

  run.recipe = "fp32";
  const Outcome same = run_stages(run);
  run.message_format = std::nullopt;
  expect_bitwise(run_stages(run), same);
  run.message_format = DType::bf16;
  const Outcome narrow = run_stages(run);
  for (size_t stage = 0; stage < 2; ++stage)
    EXPECT_EQ(2 * wire_of(narrow.records[stage]).sent, wire_of(same.records[stage]).sent);
  for (const auto& [path, whole] : same.gradients) {
    double difference = 0, size = 0;
    const auto& rounded = narrow.gradients.at(path);
    for (size_t i = 0; i < whole[0].size(); ++i) {
      difference += std::pow(rounded[0][i] - whole[0][i], 2);
      size += std::pow(whole[0][i], 2);
    }
    EXPECT_GT(difference, 0) << path << ": nothing was rounded";
    EXPECT_LT(std::sqrt(difference / size), 0.03) << path;
  }
}

// Shapes are sent before messages, 8 bytes a dimension, in one message a channel, and nothing else
// changes.
TEST(Stages, ShapesMayGoAheadOfMessages) {
  for (const auto& [map, kind] : {std::pair{LayerMapSettings{4, 2, 1}, ScheduleKind::zb_h1},
                                  {LayerMapSettings{4, 2, 2}, ScheduleKind::interleaved}}) {
    StageRun run{model_of("llama", 4), "bf16_mixed", map, {}, {}};
    run.schedule.kind = kind;
    run.micro_batches = 4;
    const Outcome without = run_stages(run);
    run.executor.shapes_first = true;
    const Outcome with = run_stages(run);
    expect_bitwise(with, without);
    const int channels = kind == ScheduleKind::zb_h1 ? 2 : 4;  // of a stage, in both directions
    for (size_t stage = 0; stage < 2; ++stage) {
      const Wire bare = wire_of(without.records[stage]), full = wire_of(with.records[stage]);
      EXPECT_EQ(full.messages, bare.messages + channels);
      EXPECT_EQ(full.sent, bare.sent + bare.messages / 2 * 16);
    }
  }
}

// Overlapped messages have computation between launch and completion; batched ones have none.
TEST(Stages, OverlappedMessagesRunBesideComputation) {
  StageRun run{model_of("llama", 4), "fp32", {4, 2, 2}, {}, {}};
  run.schedule.kind = ScheduleKind::interleaved;
  run.micro_batches = 4;
  const auto beside = [&](PointToPoint messages) {
    run.schedule.messages = messages;
    const Outcome outcome = run_stages(run);
    int64_t count = 0;
    for (const CollectiveRecord& c : outcome.records[0].collectives()) {
      if (c.group != "pp") continue;
      for (const OpEntryRecord& op : outcome.records[0].ops()) {
        if (op.at > c.launched_at && op.at < c.completed_at) {
          ++count;
          break;
        }
      }
    }
    return count;
  };
  EXPECT_EQ(beside(PointToPoint::batched), 0);
  EXPECT_GT(beside(PointToPoint::overlapped), 8);
}

// The most that stage 0 holds for backwards: pp micro-batches under 1F1B, all under GPipe.
TEST(Stages, OneForwardOneBackwardHoldsFewerMicroBatches) {
  StageRun run{model_of("llama", 4), "fp32", {4, 2, 1}, {}, {}};
  run.micro_batches = 8;
  const auto saved_peak = [&](ScheduleKind kind) {
    run.schedule.kind = kind;
    return run_stages(run).records[0].peak().bytes_by_tag.at(
        std::string(memory_tag_name(MemoryTag::saved)));
  };
  const int64_t all = saved_peak(ScheduleKind::gpipe), few = saved_peak(ScheduleKind::one_f_one_b);
  EXPECT_GT(all, 3 * few) << "8 micro-batches against 2";
}

/// The run of the next tests: an untied head, four micro-batches.
StageRun deferring(int64_t deferred_micro_batches) {
  StageRun run{model_of("llama", 2), "bf16_mixed", {2, 2, 1}, {}, {}};
  run.micro_batches = 4;
  run.schedule.deferred_heads = deferred_micro_batches;
  return run;
}

// If all weight gradients of the head are delayed, they keep their order; if the first two of four
// are, they are added last.
TEST(Stages, DeferredWeightGradientsOfTheHead) {
  const Outcome expected = run_stages(deferring(0));
  expect_bitwise(run_stages(deferring(4)), expected);
  Outcome some = run_stages(deferring(2));
  const auto& actual = some.gradients.at("head.weight")[0];
  const auto& head = expected.gradients.at("head.weight")[0];
  EXPECT_NE(actual, head) << "the order of the sums differs";
  double difference = 0, norm = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    difference += std::pow(actual[i] - head[i], 2);
    norm += head[i] * head[i];
  }
  EXPECT_LT(difference, 1e-12 * norm);
  some.gradients.at("head.weight")[0] = head;
  expect_bitwise(some, expected);
}

// They run after everything that the other stage waits for, in the last stage's idle time. Their
// operands are held until then: the normed tokens and the gradients of the logits, in the
// activation format.
TEST(Stages, DeferredWeightGradientsRunAfterTheLastMessageAndHoldTheirInputs) {
  const auto held = [](int64_t deferred) {
    const StageRun run = deferring(deferred);
    const StepRecord record = run_stages(run).records[1];
    const int64_t weight_bytes = run.model.vocabulary * run.model.hidden * 4;
    int64_t last_message = 0, after = 0, all = 0;
    for (const CollectiveRecord& c : record.collectives()) {
      if (c.group == "pp") last_message = std::max(last_message, c.launched_at);
    }
    for (const OpEntryRecord& op : record.ops()) {
      if (op.op != "gemm" || op.cost.bytes_written != weight_bytes) continue;
      ++all;
      if (op.at > last_message) ++after;
    }
    EXPECT_EQ(all, run.micro_batches);
    EXPECT_EQ(after, deferred);
    int64_t bytes = 0;  // bytes that live then
    for (const AllocationRecord& a : record.allocations()) {
      if (a.allocated_at < last_message && a.released_at > last_message &&
          a.tag == memory_tag_name(MemoryTag::saved))
        bytes += a.bytes;
    }
    return bytes;
  };
  EXPECT_EQ(held(0), 0);
  const StageRun run = deferring(0);
  int64_t expected = 0;
  for (int64_t n = 1; n <= 4; ++n) {
    expected += micro_batch(n - 1, run.model.vocabulary).tokens() *
                (run.model.vocabulary + run.model.hidden) * 2;
    EXPECT_NEAR(static_cast<double>(held(n)), static_cast<double>(expected), 64.0 * 2 * n)
        << n << " micro-batches";
  }
}

TEST(Stages, BothEndsHoldATiedTableAndTheFirstOwnsIt) {
  const auto device = make_cpu_device(1);
  const ModelConfig model = model_of("gpt2", 4);
  const auto map = layer_map(LayerMapSettings{4, 2, 2});
  for (int stage = 0; stage < 2; ++stage) {
    ModelPlace place;
    place.pp = 2, place.pp_rank = stage, place.chunks = chunks_of_stage(map, {2}, stage);
    const auto part =
        build_model(*device, model, {.precision = precision_recipe("fp32")}, 16, place);
    int tables = 0;
    for (const Parameter* p : part->parameters()) {
      if (p->path != "embedding.tokens") {
        EXPECT_TRUE(p->holders.empty()) << p->path;
        continue;
      }
      ++tables;
      EXPECT_EQ(p->holders, (std::vector<int>{0, 1}));
      for (const Part& held : p->parts) EXPECT_EQ(held.owned, stage == 0);
    }
    EXPECT_EQ(tables, 1);
  }
}

// In a V the first stage has both ends, and no other stage has a copy.
TEST(Stages, AVHoldsATiedTableOnce) {
  const auto device = make_cpu_device(1);
  const ModelConfig model = model_of("gpt2", 4);
  const auto map = layer_map(LayerMapSettings{4, 2, 2});
  for (int stage = 0; stage < 2; ++stage) {
    ModelPlace place;
    place.pp = 2, place.pp_rank = stage;
    place.chunks = chunks_of_stage(map, {2, StagePlacement::v}, stage);
    const auto part =
        build_model(*device, model, {.precision = precision_recipe("fp32")}, 16, place);
    int uses = 0;
    for (const auto& chunk : part->uses()) {
      for (const ParameterUse& use : chunk) {
        if (use.parameter->path != "embedding.tokens") continue;
        ++uses;
        EXPECT_TRUE(use.parameter->holders.empty());
        for (const Part& held : use.parameter->parts) EXPECT_TRUE(held.owned);
      }
    }
    EXPECT_EQ(uses, stage == 0 ? 2 : 0);
  }
}

}  // namespace
}  // namespace viaduct
