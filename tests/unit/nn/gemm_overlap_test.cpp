// The ten rows of overlapped GEMMs: defaults, switches, the user's table, and its errors.

#include "nn/gemm_overlap.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/gemm_overlap_presets.h"
#include "nn/tensor_parallel_config.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kNone = OverlapMethod::none, kBulk = OverlapMethod::bulk,
               kRing = OverlapMethod::ring_exchange, kPipeline = OverlapMethod::pipeline;

struct Outcome {
  GemmOverlapTable table;
  std::vector<std::string> problems, notes;
};

TensorOverlapConfig overlapped(const std::string& table = "") {
  TensorOverlapConfig config;
  config.tp_comm_overlap = true;
  if (!table.empty()) config.tp_comm_overlap_cfg.value = parse_yaml(table, "test");
  return config;
}

Outcome outcome_of(const TensorOverlapConfig& config, OverlapConditions conditions = {4, 64}) {
  Outcome outcome;
  Problems problems;
  outcome.table = resolve_gemm_overlap(config, conditions, problems, &outcome.notes);
  outcome.problems = problems.all();
  return outcome;
}

std::vector<OverlapMethod> methods_of(const Outcome& outcome) {
  std::vector<OverlapMethod> methods;
  for (const GemmOverlap& row : outcome.table.rows) methods.push_back(row.method);
  return methods;
}

// Order of the rows: qkv f d w, proj f d, fc1 f d w, fc2 f d.
TEST(GemmOverlap, BuiltInMethods) {
  const Outcome built_in = outcome_of(overlapped());
  EXPECT_THAT(methods_of(built_in), ElementsAre(kRing, kBulk, kBulk, kPipeline, kRing, kRing, kBulk,
                                                kBulk, kPipeline, kRing));
  EXPECT_EQ(built_in.table[OverlapGemm::proj_fprop].num_splits, 4);
  EXPECT_EQ(built_in.table[OverlapGemm::qkv_fprop].num_splits, 4) << "as many as ranks";
  EXPECT_EQ(outcome_of(overlapped(), {8, 64}).table[OverlapGemm::qkv_fprop].num_splits, 8);
  EXPECT_EQ(outcome_of(overlapped(), {4, 66}).table[OverlapGemm::proj_fprop].num_splits, 3)
      << "4 does not divide 66";
  EXPECT_THAT(built_in.problems, IsEmpty());
}

TEST(GemmOverlap, OffMeansNoRow) {
  TensorOverlapConfig off = overlapped();
  off.tp_comm_overlap = false;
  EXPECT_EQ(outcome_of(off).table, GemmOverlapTable{});
  EXPECT_EQ(outcome_of(overlapped(), {1, 64}).table, GemmOverlapTable{});
}

TEST(GemmOverlap, SwitchesTurnRowsOff) {
  const auto with = [](bool TensorOverlapConfig::*member, bool value) {
    TensorOverlapConfig config = overlapped();
    config.*member = value;
    return methods_of(outcome_of(config));
  };
  EXPECT_THAT(
      with(&TensorOverlapConfig::tp_comm_overlap_ag, false),
      ElementsAre(kNone, kBulk, kBulk, kPipeline, kNone, kNone, kBulk, kBulk, kPipeline, kNone));
  EXPECT_THAT(with(&TensorOverlapConfig::tp_comm_overlap_rs, false),
              ElementsAre(kRing, kBulk, kBulk, kNone, kRing, kRing, kBulk, kBulk, kNone, kRing));
  EXPECT_THAT(
      with(&TensorOverlapConfig::tp_comm_bulk_dgrad, false),
      ElementsAre(kRing, kNone, kBulk, kPipeline, kRing, kRing, kNone, kBulk, kPipeline, kRing));
  EXPECT_THAT(
      with(&TensorOverlapConfig::tp_comm_bulk_wgrad, false),
      ElementsAre(kRing, kBulk, kNone, kPipeline, kRing, kRing, kBulk, kNone, kPipeline, kRing));
  EXPECT_THAT(with(&TensorOverlapConfig::tp_comm_overlap_rs_dgrad, true),
              ElementsAre(kRing, kPipeline, kNone, kPipeline, kRing, kRing, kPipeline, kNone,
                          kPipeline, kRing));
  EXPECT_THAT(
      with(&TensorOverlapConfig::tp_comm_overlap_disable_qkv, true),
      ElementsAre(kNone, kNone, kNone, kPipeline, kRing, kRing, kBulk, kBulk, kPipeline, kRing));
  EXPECT_THAT(
      with(&TensorOverlapConfig::tp_comm_overlap_disable_fc1, true),
      ElementsAre(kRing, kBulk, kBulk, kPipeline, kRing, kNone, kNone, kNone, kPipeline, kRing));
}

TEST(GemmOverlap, TheTableWins) {
  TensorOverlapConfig config = overlapped(
      "{proj_fprop: {num_splits: 8}, fc2_fprop: {method: ring_exchange, aggregate: true}, "
      "fc1_dgrad: {method: pipeline, num_split: 2}}");
  config.num_splits = 16;
  const Outcome outcome = outcome_of(config);
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_EQ(outcome.table[OverlapGemm::proj_fprop], (GemmOverlap{kPipeline, 8, false}));
  EXPECT_EQ(outcome.table[OverlapGemm::fc2_fprop], (GemmOverlap{kRing, 4, true}));
  EXPECT_EQ(outcome.table[OverlapGemm::fc1_dgrad], (GemmOverlap{kPipeline, 2, false}));
  EXPECT_EQ(outcome.table[OverlapGemm::fc1_wgrad].method, kNone)
      << "the input gradient is reduce-scattered by its own GEMM";
  EXPECT_EQ(outcome.table[OverlapGemm::qkv_wgrad].method, kBulk);
}

TEST(GemmOverlap, DefaultsForAllRows) {
  TensorOverlapConfig config = overlapped();
  config.method = OverlapMethod::ring_exchange;
  config.aggregate = true;
  EXPECT_THAT(methods_of(outcome_of(config)),
              ElementsAre(kRing, kBulk, kBulk, kRing, kRing, kRing, kBulk, kBulk, kRing, kRing));
  EXPECT_TRUE(outcome_of(config).table[OverlapGemm::qkv_fprop].aggregate);
  EXPECT_THAT(outcome_of(config, {3, 66}).problems, Contains(HasSubstr("tp = 3 is odd")));
}

TEST(GemmOverlap, WhatATableMayNotSay) {
  const auto problems = [](const std::string& table) {
    return outcome_of(overlapped(table)).problems;
  };
  EXPECT_THAT(problems("{qkv_fprop: {method: bulk}}"),
              ElementsAre(HasSubstr("qkv_fprop.method: expected ring_exchange, found bulk")));
  EXPECT_THAT(problems("{proj_fprop: {num_splits: 5}}"),
              ElementsAre(HasSubstr("5 does not divide the 64 output features; nearest: 4 or 8")));
  EXPECT_THAT(problems("{qkv_fprop: {num_splits: 3}}"),
              ElementsAre(HasSubstr("as many chunks as ranks: tp = 4, found 3")));
  EXPECT_THAT(problems("{qkv_dgrad: {method: pipeline}, qkv_wgrad: {method: bulk}}"),
              ElementsAre(HasSubstr("pipeline of qkv_dgrad already reduce-scatters")));
  EXPECT_THAT(problems("{qvk_fprop: {}}"), ElementsAre(HasSubstr("did you mean 'qkv_fprop'?")));
  EXPECT_THAT(problems("{proj_wgrad: {}}"), ElementsAre(HasSubstr("communicates nothing")));
  EXPECT_THAT(problems("{qkv_fprop: {metod: bulk}}"),
              ElementsAre(HasSubstr("did you mean 'method'?")));
  EXPECT_THAT(problems("{qkv_fprop: 3}"), ElementsAre(HasSubstr("expected a map, found 3")));
  EXPECT_THAT(problems("{fc2_fprop: {fp8_buf: true}}"),
              ElementsAre(HasSubstr("needs a mixed_precision recipe with FP8 products")));
  EXPECT_THAT(problems("{fc2_fprop: {fp8_buf: 3}}"), ElementsAre(HasSubstr("expected bool")));
  EXPECT_THAT(problems("{fc2_fprop: {num_splits: 0}}"), ElementsAre(HasSubstr("at least 1")));
  TensorOverlapConfig off = overlapped("{proj_fprop: {method: pipeline}}");
  off.tp_comm_overlap_rs = false;
  EXPECT_THAT(outcome_of(off).problems,
              ElementsAre(HasSubstr("model.tp_comm_overlap_rs=false turns this overlap off")));
}

// A schedule that delays weight gradients computes all of them in their own half.
TEST(GemmOverlap, WeightGradientsThatWaitHideNothing) {
  const OverlapConditions waits{4, 64, true};
  const auto row_of = [&](const std::string& table, OverlapGemm gemm) {
    const Outcome outcome = outcome_of(overlapped(table), waits);
    EXPECT_THAT(outcome.problems, IsEmpty());
    return outcome.table[gemm];
  };
  EXPECT_THAT(methods_of(outcome_of(overlapped(), waits)),
              ElementsAre(kRing, kPipeline, kNone, kPipeline, kRing, kRing, kPipeline, kNone,
                          kPipeline, kRing));
  EXPECT_EQ(row_of("", OverlapGemm::qkv_dgrad).num_splits, 4);
  EXPECT_EQ(row_of("{fc1_dgrad: {method: ring_exchange}}", OverlapGemm::fc1_dgrad).method, kRing);
  EXPECT_EQ(row_of("{fc1_dgrad: {method: bulk}}", OverlapGemm::fc1_dgrad).method, kBulk)
      << "the gather of the saved input moves no weight gradient";
  EXPECT_THAT(outcome_of(overlapped("{qkv_wgrad: {method: bulk}}"), waits).problems,
              ElementsAre(HasSubstr("qkv_wgrad: a method is given, but "
                                    "model.pipeline_schedule=zero_bubble (or dualpipe_v, or "
                                    "comm_overlap.delay_wgrad_compute) turns this overlap off")));
  TensorOverlapConfig off = overlapped();
  off.tp_comm_bulk_dgrad = false;
  EXPECT_EQ(outcome_of(off, waits).table[OverlapGemm::qkv_dgrad].method, kNone);
}

TEST(GemmOverlap, WhatWaitsIsSaid) {
  const OverlapConditions waits{4, 64, true};
  EXPECT_THAT(waiting_gradients_note(outcome_of(overlapped(), waits).table, waits),
              HasSubstr("qkv_dgrad pipeline, qkv_wgrad none, fc1_dgrad pipeline, fc1_wgrad none"));
  EXPECT_EQ(waiting_gradients_note(outcome_of(overlapped()).table, {4, 64}), "");
  EXPECT_EQ(waiting_gradients_note(GemmOverlapTable{}, waits), "");
}

// Megatron-Bridge's tables by name.
TEST(GemmOverlap, ATableHasAName) {
  const Outcome bf16 = outcome_of(overlapped("userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192"));
  EXPECT_THAT(bf16.problems, IsEmpty());
  EXPECT_EQ(bf16.table, outcome_of(overlapped()).table) << "the built-in choices are of this table";
  EXPECT_THAT(bf16.notes,
              ElementsAre(AllOf(HasSubstr("num_sm, cga_size and set_sm_margin of the table"),
                                HasSubstr("kernels of GPUs"))));
  const Outcome fp8 = outcome_of(overlapped("userbuffers_fp8_h100_h8192_tp4_mbs1_seqlen8192"));
  EXPECT_THAT(methods_of(fp8),
              ElementsAre(kRing, kBulk, kBulk, kRing, kRing, kRing, kBulk, kBulk, kRing, kRing));
  const Outcome mixed = outcome_of(overlapped("userbuffers_bf16_b200_h18432_tp8_mbs1_seqlen4096"));
  EXPECT_EQ(mixed.table[OverlapGemm::proj_fprop].method, kRing);
  EXPECT_EQ(mixed.table[OverlapGemm::fc2_fprop], (GemmOverlap{kPipeline, 4, false}));
}

TEST(GemmOverlap, ATableByNameYieldsToSwitches) {
  const std::string name = "userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192";
  TensorOverlapConfig off = overlapped(name);
  off.tp_comm_overlap_rs = false;
  EXPECT_THAT(outcome_of(off).problems, IsEmpty());
  EXPECT_EQ(outcome_of(off).table[OverlapGemm::proj_fprop].method, kNone);
  const OverlapConditions waits{4, 64, true};
  EXPECT_EQ(outcome_of(overlapped(name), waits).table, outcome_of(overlapped(), waits).table)
      << "zero bubble";
  EXPECT_THAT(outcome_of(overlapped(name), {4, 66}).problems,
              ElementsAre(HasSubstr("proj_fprop.num_splits: 4 does not divide"),
                          HasSubstr("fc2_fprop.num_splits: 4 does not divide")));
}

TEST(GemmOverlap, PartsInFp8NeedWholeGroupsOfScales) {
  TensorOverlapConfig config = overlapped();
  config.fp8_buf = true;
  const OverlapConditions fp8{4, 512, false, true};
  EXPECT_THAT(outcome_of(config, fp8).problems, IsEmpty());
  for (const OverlapGemm gemm : {OverlapGemm::proj_fprop, OverlapGemm::fc2_fprop})
    EXPECT_TRUE(outcome_of(config, fp8).table[gemm].fp8_buf);
  EXPECT_FALSE(outcome_of(config, fp8).table[OverlapGemm::qkv_dgrad].fp8_buf) << "bulk";
  EXPECT_THAT(outcome_of(config, {4, 192, false, true}).problems,
              ElementsAre(HasSubstr("proj_fprop.fp8_buf: chunks have 48 columns"),
                          HasSubstr("fc2_fprop.fp8_buf: chunks have 48 columns")));
}

TEST(GemmOverlap, ChunksAreWholeBlocksOfQuantizedWeights) {
  const auto splits = [](OverlapConditions conditions) {
    return outcome_of(overlapped(), conditions).table[OverlapGemm::proj_fprop].num_splits;
  };
  EXPECT_EQ(splits({4, 512, false, true, 128}), 4);
  EXPECT_EQ(splits({4, 384, false, true, 128}), 3);
  EXPECT_EQ(splits({4, 2304, false, true, 128}), 3);
  EXPECT_EQ(splits({4, 64, false, true, 128}), 1);
  EXPECT_THAT(
      outcome_of(overlapped("{proj_fprop: {num_splits: 4}}"), {4, 384, false, true, 128}).problems,
      ElementsAre(HasSubstr("384 output features into multiples of 128, which share a "
                            "scale; nearest: 3")));
}

TEST(GemmOverlap, EachTableByNameIsWellFormed) {
  for (const std::string& name : overlap_preset_names()) {
    Problems problems;
    const OverlapPreset& preset = *overlap_preset(name, problems);
    EXPECT_THAT(name, HasSubstr(fmt::format("_h{}_tp{}_", preset.hidden, preset.tp)));
    const Outcome outcome = outcome_of(overlapped(name), {preset.tp, preset.hidden});
    EXPECT_THAT(outcome.problems, testing::Each(HasSubstr("fp8_buf: true needs"))) << name;
    EXPECT_EQ(outcome.problems.empty(), !preset.fp8_buf) << name;
    const Outcome fp8 = outcome_of(overlapped(name), {preset.tp, preset.hidden, false, true});
    EXPECT_THAT(fp8.problems, IsEmpty()) << name;
    EXPECT_EQ(fp8.table[OverlapGemm::fc2_fprop].fp8_buf, preset.fp8_buf) << name;
    EXPECT_FALSE(fp8.table[OverlapGemm::fc2_dgrad].fp8_buf) << "it gathers";
  }
  EXPECT_EQ(overlap_preset_names().size(), 19u);
  EXPECT_THAT(
      outcome_of(overlapped("userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen819")).problems,
      ElementsAre(HasSubstr("did you mean 'userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192'?")));
}

TEST(GemmOverlap, WhatOnlyAGpuHasIsNoted) {
  const Outcome outcome = outcome_of(
      overlapped("{fc2_fprop: {num_sm: 8, cga_size: 2, set_sm_margin: true, atomic_gemm: false, "
                 "use_ce: true}}"));
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_EQ(outcome.notes.size(), 5u);
  for (const char* name : {"num_sm", "cga_size", "use_ce"})
    EXPECT_THAT(outcome.notes,
                Contains(AllOf(HasSubstr(std::string("fc2_fprop.") + name + " has no effect"),
                               HasSubstr("kernels of GPUs"))));
  EXPECT_EQ(outcome.table, outcome_of(overlapped()).table);
  for (const char* wrong :
       {"num_sm: banana", "num_sm: 0", "num_sm: 65", "cga_size: 1.5", "cga_size: 5",
        "set_sm_margin: 3", "atomic_gemm: banana", "use_ce: 1"}) {
    EXPECT_THAT(outcome_of(overlapped("{fc2_fprop: {" + std::string(wrong) + "}}")).problems,
                ElementsAre(HasSubstr("tp_comm_overlap_cfg.fc2_fprop")))
        << wrong;
  }
}

const OverlapConditions kOnGpu{.tp = 4, .features = 64, .on_gpu = true};

TEST(KernelSettings, OfAProductAndOfAllOthers) {
  TensorOverlapConfig config = overlapped(
      "{fc2_fprop: {num_sm: 8, set_sm_margin: true}, qkv_fprop: {num_sm: null, cga_size: 1}}");
  config.kernels.num_sm = 4;
  config.kernels.cga_size = 2;
  const Outcome outcome = outcome_of(config, kOnGpu);
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_THAT(outcome.notes, IsEmpty());
  const GemmOverlapTable& table = outcome.table;
  EXPECT_EQ(table[OverlapGemm::fc2_fprop].connection, (ConnectionSettings{8, 2}));
  EXPECT_EQ(table[OverlapGemm::fc2_fprop].spare_multiprocessors, 8);
  EXPECT_EQ(table[OverlapGemm::proj_fprop].connection, (ConnectionSettings{4, 2}));
  EXPECT_EQ(table[OverlapGemm::proj_fprop].spare_multiprocessors, 0);
  EXPECT_EQ(table[OverlapGemm::qkv_fprop].connection, (ConnectionSettings{0, 1}));
  EXPECT_EQ(table[OverlapGemm::qkv_wgrad].connection, (ConnectionSettings{4, 2})) << "bulk";
}

TEST(KernelSettings, ThereAreAsManyConnectionsAsDifferentSettings) {
  EXPECT_THAT(own_connections(outcome_of(overlapped(), kOnGpu).table), IsEmpty());
  const auto of = [](const std::string& table) {
    return own_connections(outcome_of(overlapped(table), kOnGpu).table);
  };
  EXPECT_THAT(of("{qkv_fprop: {num_sm: 2}}"), ElementsAre(OwnConnection{{2}, false, true, false}));
  EXPECT_THAT(of("{proj_dgrad: {num_sm: 2}, qkv_dgrad: {num_sm: 2}, fc2_fprop: {num_sm: 3}}"),
              ElementsAre(OwnConnection{{2}, true, false, true}, OwnConnection{{3}, true}));
}

TEST(KernelSettings, ATableByNameTellsThemToKernels) {
  const Outcome outcome =
      outcome_of(overlapped("userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192"), kOnGpu);
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_THAT(outcome.notes, IsEmpty());
  const GemmOverlap& proj = outcome.table[OverlapGemm::proj_fprop];
  EXPECT_EQ(proj.connection, (ConnectionSettings{24, 2}));
  EXPECT_EQ(proj.spare_multiprocessors, 24);
  EXPECT_EQ(outcome.table[OverlapGemm::fc1_wgrad].connection, (ConnectionSettings{4, 2}));
  EXPECT_EQ(outcome.table[OverlapGemm::fc1_wgrad].spare_multiprocessors, 0);
}

TEST(KernelSettings, WhatContradictsItselfIsRefused) {
  const auto problems = [](const std::string& row, bool symmetric = false) {
    OverlapConditions conditions = kOnGpu;
    conditions.symmetric_memory = symmetric;
    return outcome_of(overlapped("{" + row + "}"), conditions).problems;
  };
  EXPECT_THAT(problems("fc2_fprop: {num_sm: 2, cga_size: 3}"),
              ElementsAre(HasSubstr("fc2_fprop.cga_size: a cluster of 3 blocks does not fit")));
  EXPECT_THAT(problems("fc2_fprop: {set_sm_margin: true}"),
              ElementsAre(HasSubstr("fc2_fprop.set_sm_margin: true needs num_sm")));
  EXPECT_THAT(problems("fc2_fprop: {atomic_gemm: true}"),
              ElementsAre(HasSubstr("fc2_fprop.atomic_gemm: cuBLASLt has no counters")));
  EXPECT_THAT(problems("fc2_fprop: {use_ce: true}", true),
              ElementsAre(HasSubstr("fc2_fprop.use_ce: NCCL has copy engines for all-gathers")));
  EXPECT_THAT(problems("qkv_dgrad: {use_ce: true}"),
              ElementsAre(HasSubstr("qkv_dgrad.use_ce: copy engines read and write registered")));
  EXPECT_THAT(problems("qkv_dgrad: {use_ce: true}", true), IsEmpty());
  EXPECT_THAT(problems("fc2_fprop: {use_ce: false, atomic_gemm: false}"), IsEmpty());

  TensorOverlapConfig all = overlapped();
  all.kernels.set_sm_margin = true;
  EXPECT_THAT(outcome_of(all, kOnGpu).problems,
              ElementsAre(HasSubstr("comm_overlap.set_sm_margin: true needs num_sm")))
      << "said once";
  all = overlapped();
  all.kernels.atomic_gemm = true;
  EXPECT_THAT(outcome_of(all, kOnGpu).problems,
              ElementsAre(HasSubstr("comm_overlap.atomic_gemm: cuBLASLt has no counters")));
  EXPECT_THAT(outcome_of(all).problems, IsEmpty()) << "on the cpu";
}

TEST(KernelSettings, CopyEnginesOfAllProductsAreThoseOfGathers) {
  TensorOverlapConfig config = overlapped();
  config.kernels.use_ce = true;
  OverlapConditions conditions = kOnGpu;
  conditions.symmetric_memory = true;
  const Outcome outcome = outcome_of(config, conditions);
  EXPECT_THAT(outcome.problems, IsEmpty());
  for (const OverlapGemm gemm : {OverlapGemm::qkv_dgrad, OverlapGemm::fc1_dgrad})
    EXPECT_TRUE(outcome.table[gemm].connection.copy_engines);
  EXPECT_THAT(own_connections(outcome.table), ElementsAre(OwnConnection{{0, 0, true}, true}));
}

}  // namespace
}  // namespace viaduct
