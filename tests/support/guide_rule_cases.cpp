#include "support/guide_rule_cases.h"

#include "plan/product_peak.h"

namespace viaduct::rules::test {
namespace {

constexpr Outcome kFires = Outcome::fires, kNot = Outcome::not_applicable,
                  kUnknown = Outcome::unknown;

using Change = std::function<void(Figures&)>;

void add(std::vector<RuleCase>& cases, const std::string& id, Change holds, Change not_so,
         Change border, Outcome at_border) {
  cases.push_back({id, RuleCase::holds, kFires, std::move(holds)});
  cases.push_back({id, RuleCase::not_so, kNot, std::move(not_so)});
  cases.push_back({id, RuleCase::border, at_border, std::move(border)});
}

void nothing(Figures&) {}
void crossing(Figures& f, const char* axis, int64_t ranks, int inside) {
  f.crossings[axis] = {8, 8, ranks, inside};
}
StageBytes& stage(Figures& f) {
  return f.stages.front();
}
double capacity(const Figures& f) {
  return f.machine->capacity_bytes;
}
void set_encoder(Figures& f, int stages) {
  f.model.encoder.layers = 4;
  f.config.parallel.encoder_pipeline_model_parallel_size = stages;
}
void use_fp8(Figures& f, Fp8Scaling scaling = Fp8Scaling::tensorwise) {
  f.fp8 = true, f.scaling = scaling;
}

void add_mapping(std::vector<RuleCase>& c) {
  add(
      c, "dp-first", [](Figures& f) { set_sizes(f, 2); }, nothing,
      [](Figures& f) { set_sizes(f, 2), f.global_batch = 63; }, kNot);
  add(
      c, "dist-opt-off", [](Figures& f) { f.distributed_optimizer = false; }, nothing,
      [](Figures& f) { f.distributed_optimizer = false, f.fully_sharded = true; }, kNot);
  add(
      c, "smallest-that-fits", [](Figures& f) { set_sizes(f, 2); }, nothing,
      [](Figures& f) { set_sizes(f, 1, 1, 2), f.machine.reset(); }, kUnknown);
  add(
      c, "tp-cross-domain", [](Figures& f) { set_sizes(f, 16), crossing(f, "tp", 16, 8); },
      [](Figures& f) { set_sizes(f, 8); },
      [](Figures& f) {
        set_sizes(f, 8), f.crossings["tp"] = {8, 0, 8, 8};
      },
      kNot);
  add(
      c, "tp-too-large", [](Figures& f) { set_sizes(f, 8); }, [](Figures& f) { set_sizes(f, 2); },
      [](Figures& f) { set_sizes(f, 4); }, kFires);  // 3.3 hide
  add(
      c, "tp-kv-replicated", [](Figures& f) { set_sizes(f, 16); },
      [](Figures& f) { set_sizes(f, 4); }, [](Figures& f) { set_sizes(f, 8); }, kNot);
  add(
      c, "sp-off", [](Figures& f) { set_sizes(f, 2), f.sequence_cut = false; },
      [](Figures& f) { set_sizes(f, 2); }, [](Figures& f) { f.sequence_cut = false; }, kNot);
  add(
      c, "cp-for-activations",
      [](Figures& f) {
        f.stages = {{90e9, 10e9, 10e9, 5e9, 60e9, 0}};
      },
      nothing,
      [](Figures& f) {
        f.stages = {{90e9, 15e9, 15e9, 10e9, 40e9, 0}};
      },
      kNot);
  add(
      c, "cp-skinny", [](Figures& f) { f.length = 2048, set_sizes(f, 1, 4); },
      [](Figures& f) { f.length = 32768, set_sizes(f, 1, 2); },
      [](Figures& f) { f.length = 4096, f.micro_batch = 4, set_sizes(f, 1, 2); }, kNot);
  add(
      c, "cp-wrong-tool", [](Figures& f) { set_sizes(f, 1, 2), stage(f).weights = 70e9; },
      [](Figures& f) { set_sizes(f, 1, 2); },
      [](Figures& f) {
        set_sizes(f, 1, 2);
        f.stages = {{70e9, 0.8 * capacity(f), 0, 0, 1e9, 0}};
      },
      kNot);
  add(
      c, "tp-cp-mix", [](Figures& f) { set_sizes(f, 4); }, [](Figures& f) { set_sizes(f, 2); },
      [](Figures& f) { set_sizes(f, 4), f.length = f.model.hidden; }, kNot);
}

void add_pipeline(std::vector<RuleCase>& c) {
  const auto bubble = [](double share, int vpp) {
    return [=](Figures& f) { set_sizes(f, 1, 1, 4, vpp), f.times->bubble = share; };
  };
  add(c, "pp-without-vpp", bubble(0.2, 1), bubble(0.01, 1), bubble(0.05, 1), kNot);
  add(
      c, "pp-over-tp", [](Figures& f) { set_sizes(f, 8); }, [](Figures& f) { set_sizes(f, 2); },
      [](Figures& f) { set_sizes(f, 4); }, kFires);
  add(
      c, "vpp-too-large", [](Figures& f) { set_sizes(f, 1, 1, 2, 4), f.micro_batches = 256; },
      [](Figures& f) { set_sizes(f, 1, 1, 2), f.micro_batches = 256; },
      [](Figures& f) { set_sizes(f, 1, 1, 2, 2), f.micro_batches = 25; }, kNot);
  // Behind a stage of an encoder with this share of a decoder's work chunks wait for it.
  const auto behind = [](double share, int vpp, int64_t micro_batches) {
    return [=](Figures& f) {
      set_sizes(f, 1, 1, 4, vpp), f.micro_batches = micro_batches;
      f.times->bubble = 0.2;
      set_encoder(f, 1), f.times->stage_compute = {share, 1, 1, 1, 1};
    };
  };
  add(c, "pp-without-vpp", behind(0.1, 1, 8), behind(1, 1, 8), behind(0.99, 1, 8), kFires);
  add(c, "vpp-too-large", behind(1, 2, 8), behind(0.1, 2, 8), behind(0.6, 2, 150), kFires);
  const auto computes = [](double last) {
    return [=](Figures& f) { set_sizes(f, 1, 1, 4), f.times->stage_compute = {1, 1, 1, last}; };
  };
  c.push_back({"pp-head-imbalance", RuleCase::not_so, kNot, behind(0.1, 1, 8)});
  add(c, "pp-head-imbalance", computes(1.3), computes(1), computes(1.06), kNot);
  add(c, "pp-few-microbatches", bubble(0.2, 8), bubble(0.01, 8), bubble(0.1, 8), kNot);
  const auto order = [](int64_t now, int64_t other) {
    return [=](Figures& f) {
      set_sizes(f, 2, 1, 2);
      f.traffic["dp"] = {1e9, 1e9, 1, 16};
      f.crossings["dp"] = {4, now, 16, 4};
      if (other >= 0) f.crossings_in_other_order["dp"] = {4, other, 16, 4};
    };
  };
  add(c, "axis-order", order(4, 0), order(4, 4), order(4, -1), kNot);
}

void add_expert_cases(std::vector<RuleCase>& c) {
  add(
      c, "ep-in-domain", [](Figures& f) { add_experts(f), crossing(f, "ep", 8, 4); },
      [](Figures& f) { add_experts(f); },
      [](Figures& f) { add_experts(f), f.ep = 1, crossing(f, "ep", 8, 4); }, kNot);
  add(
      c, "expert-grid", [](Figures& f) { add_experts(f), f.etp = 2; },
      [](Figures& f) { add_experts(f); }, [](Figures& f) { f.etp = 2; }, kNot);
  const auto large = [](int ep, double peak) {
    return [=](Figures& f) {
      add_experts(f), f.ep = ep;
      f.stages = {{peak, 20e9, 20e9, 20e9, 20e9, 0}};
      f.expert_parameters = 7e9;
    };
  };
  add(c, "ep-raise-first", large(2, 90e9), large(2, 70e9), large(8, 90e9), kNot);
  using enum TokenDispatcher;
  const auto gathers = [](TokenDispatcher type, int64_t topk) {
    return [=](Figures& f) {
      add_experts(f), f.model.moe.routing.topk = topk;
      f.config.model.moe.moe_token_dispatcher_type = type;
    };
  };
  const auto exposed = [](double share, bool overlaps = false) {
    return [=](Figures& f) {
      add_experts(f), f.times->exposed["ep"] = share;
      f.config.pipeline.overlap_moe_expert_parallel_comm = overlaps;
    };
  };
  add(c, "ep-overlap-off", exposed(0.1), exposed(0.1, true), exposed(0.03), kNot);
  add(c, "ep-dispatcher", gathers(allgather, 6), gathers(alltoall, 6), gathers(allgather, 7), kNot);
}

void add_sharding(std::vector<RuleCase>& c) {
  add(
      c, "fsdp-hides", [](Figures& f) { set_sizes(f, 2, 1, 2), crossing(f, "dp", 16, 8); },
      [](Figures& f) { f.length = 1024, set_sizes(f, 2, 1, 2), crossing(f, "dp", 16, 8); }, nothing,
      kNot);
  const auto kept = [](double bytes) {
    return [=](Figures& f) { f.fully_sharded = true, stage(f).activations = bytes; };
  };
  add(c, "fsdp-activations", kept(50e9), kept(10e9), kept(30e9), kNot);
  const auto host = [](double share) {
    return [=](Figures& f) { set_sizes(f, 2), f.times->host = share; };
  };
  add(c, "fsdp-host-bound", host(0.2), host(0.05), host(0.1), kNot);
  const auto exposed = [](double share) {
    return [=](Figures& f) { f.fully_sharded = true, f.times->exposed["fsdp"] = share; };
  };
  add(c, "fsdp-many-microbatches", exposed(0.1), exposed(0.01), exposed(0.03), kNot);
  const auto states = [](double bytes) {
    return [=](Figures& f) {
      f.fully_sharded = true, crossing(f, "dp", 64, 8);
      f.stages = {{20e9, bytes, 0, 0, 10e9, 0}};
    };
  };
  add(
      c, "fsdp-hybrid", states(5e9), [](Figures& f) { f.fully_sharded = true; }, states(9e9), kNot);
  add(
      c, "fsdp-buffers", [](Figures& f) { f.fully_sharded = true; }, nothing,
      [](Figures& f) { f.fully_sharded = true, f.machine.reset(); }, kUnknown);
  const auto straddles = [](int64_t groups, int64_t ranks) {
    return [=](Figures& f) { set_sizes(f, 1, 4), f.crossings["cp"] = {8, groups, ranks, 2}; };
  };
  const auto encoder = [](double seconds, int stages) {
    return [=](Figures& f) { set_encoder(f, stages), f.times->stage_compute = {seconds, 1, 1}; };
  };
  add(c, "encoder-layout", encoder(0.4, 1), encoder(0.4, 0), encoder(0.5, 1), kNot);
  const auto own_tower = [](double seconds, int stages) {
    return [=](Figures& f) {
      f.model.vision.layers = 4, f.model.vision.feature_layers = {4};
      f.config.parallel.encoder_pipeline_model_parallel_size = stages;
      f.times->stage_compute = std::vector<double>(static_cast<size_t>(stages), seconds);
      f.times->stage_compute.push_back(1);
    };
  };
  add(c, "encoder-layout", own_tower(0.4, 4), own_tower(0.6, 1), own_tower(0.5, 1), kNot);
  add(c, "encoder-layout", own_tower(1.2, 1), own_tower(1, 1), own_tower(1.05, 1), kNot);
  // Several stages, and more tensor ranks than the decoder's.
  c.push_back({"encoder-layout", RuleCase::holds, kFires, own_tower(0.6, 2)});
  c.push_back({"encoder-layout", RuleCase::holds, kFires, [=](Figures& f) {
                 own_tower(0.6, 1)(f);
                 f.config.parallel.encoder_tensor_model_parallel_size = 2;
               }});
  // A vision tower that is on the first stage.
  const auto tower = [](double seconds, int pp) {
    return [=](Figures& f) {
      f.model.vision.layers = 4;
      set_sizes(f, 1, 1, pp);
      f.times->stage_compute = std::vector<double>(static_cast<size_t>(pp), 1);
      f.times->stage_compute.front() = seconds;
    };
  };
  add(c, "encoder-layout", tower(1.2, 4), tower(1.2, 1), tower(1.05, 4), kNot);
  c.push_back({"encoder-layout", RuleCase::holds, kFires, [=](Figures& f) {
                 tower(1.2, 4)(f);
                 f.model.vision.layers = 0, set_encoder(f, 0);
               }});
  add(c, "domain-straddle", straddles(2, 4), straddles(0, 4), straddles(2, 16), kNot);
  const auto rack = [](int ranks) {
    return [=](Figures& f) {
      const Cluster cluster = load_cluster("gb200-nvl72");
      f.machine = machine_of(cluster, prediction_settings(cluster));
      f.ranks = ranks, set_sizes(f, 8);
    };
  };
  add(c, "domain-fill", rack(64), nothing, rack(72), kNot);
}

void add_data_overlap(std::vector<RuleCase>& c) {
  add(
      c, "dp-overlap-off", [](Figures& f) { f.config.ddp.overlap_grad_reduce = false; }, nothing,
      [](Figures& f) { f.config.ddp.overlap_grad_reduce = false, f.dp = 1; }, kNot);
  const auto aligned = [](bool on, int vpp) {
    return [=](Figures& f) {
      set_sizes(f, 1, 1, 2, vpp);
      f.config.ddp.overlap_param_gather = true, f.config.ddp.align_param_gather = on;
    };
  };
  add(c, "dp-align", aligned(false, 2), aligned(true, 2), aligned(false, 1), kNot);
  add(
      c, "dp-partial-instances", [](Figures& f) { crossing(f, "dp", 64, 8); }, nothing,
      [](Figures& f) { crossing(f, "dp", 2, 1), f.ranks = f.dp = 2; }, kNot);
  const auto bucket = [](int64_t elements) {
    return [=](Figures& f) { f.config.ddp.bucket_size = elements; };
  };
  add(c, "dp-bucket-small", bucket(100'000), bucket(400'000'000), bucket(40'000'000), kNot);
  add(
      c, "dp-bucket-tail", bucket(8'000'000'000), bucket(40'000'000),
      [](Figures& f) { f.dp = 1, f.config.ddp.bucket_size = 8'000'000'000; }, kNot);
  const auto exposed = [](double share, int dp) {
    return [=](Figures& f) { f.times->exposed["dp"] = share, f.ranks = f.dp = dp; };
  };
  const auto switches = [](double share, std::optional<bool> reduce) {
    return [=](Figures& f) {
      f.times->exposed["dp"] = share;
      f.machine->cluster.switch_reduction = reduce;
    };
  };
  add(c, "dp-sharp", switches(0.1, true), switches(0.1, false), switches(0.03, true), kNot);
  c.push_back({"dp-sharp", RuleCase::not_so, kUnknown, switches(0.1, {})});
  add(c, "dp-reduce-bf16", exposed(0.1, 64), exposed(0.01, 64), exposed(0.1, 128), kNot);
  const auto bf16 = [](int dp) {
    return [=](Figures& f) { f.config.ddp.grad_reduce_in_fp32 = false, f.ranks = f.dp = dp; };
  };
  add(
      c, "dp-reduce-bf16-ring", bf16(128), [](Figures& f) { f.ranks = f.dp = 128; }, bf16(127),
      kNot);
  add(
      c, "dp-fp8-gather", [](Figures& f) { use_fp8(f); }, nothing,
      [](Figures& f) { use_fp8(f, Fp8Scaling::mxfp8); }, kNot);
}

void add_model_overlap(std::vector<RuleCase>& c) {
  const auto exposed = [](double share) {
    return [=](Figures& f) {
      set_sizes(f, 2), f.config.tensor_overlap.tp_comm_overlap = false;
      f.times->exposed["tp"] = share;
    };
  };
  add(c, "tp-overlap-off", exposed(0.1), exposed(0.01), exposed(0.03), kNot);
  const auto pipelined = [](bool pipeline, int tp) {
    return [=](Figures& f) {
      set_sizes(f, tp), f.config.tensor_overlap.tp_comm_overlap = true;
      if (pipeline) f.config.tensor_overlap.method = OverlapMethod::pipeline;
    };
  };
  const auto multiprocessors = [](std::optional<int> number, double share) {
    return [=](Figures& f) {
      set_sizes(f, 2), f.config.tensor_overlap.tp_comm_overlap = true;
      f.config.tensor_overlap.kernels.num_sm = number;
      f.times->exposed["tp"] = share;
    };
  };
  add(c, "tp-overlap-sms", multiprocessors(16, 0.1), multiprocessors({}, 0.1),
      multiprocessors(1, 0.03), kNot);
  add(c, "tp-overlap-splits", pipelined(true, 2), pipelined(false, 2), pipelined(true, 1), kNot);
  const auto narrow = [](bool fp8, bool on) {
    return [=](Figures& f) {
      set_sizes(f, 2), f.config.tensor_overlap.tp_comm_overlap = true;
      if (fp8) use_fp8(f);
      f.config.tensor_overlap.fp8_buf = on;
    };
  };
  add(c, "tp-fp8-buf", narrow(true, false), narrow(true, true), narrow(false, false), kNot);
  const auto messages = [](double share, bool overlap) {
    return [=](Figures& f) {
      set_sizes(f, 1, 1, 4), f.times->exposed["pp"] = share;
      f.config.pipeline.overlap_p2p_comm = overlap;
    };
  };
  add(c, "pp-p2p-exposed", messages(0.1, false), messages(0.02, false), messages(0.02, true),
      kFires);
  using enum ContextExchange;
  const auto ring = [](int64_t length, ContextExchange type, int64_t kv_heads) {
    return [=](Figures& f) {
      f.length = length, f.model.kv_heads = kv_heads, set_sizes(f, 1, 2);
      f.config.context_parallel.cp_comm_type = type;
    };
  };
  add(c, "cp-p2p-covered", ring(8192, p2p, 8), ring(512, p2p, 8), ring(3104, p2p, 32), kNot);
  add(c, "cp-chunk-short", ring(512, p2p, 8), ring(8192, p2p, 8), ring(512, a2a, 8), kNot);
  add(
      c, "cp-allgather-gqa", ring(8192, p2p, 8), ring(8192, all_gather, 8),
      [](Figures& f) { set_sizes(f, 1, 2), f.times->compute = 0.05; }, kNot);
  const auto windows = [](int64_t second, int cp) {
    return [=](Figures& f) { set_sizes(f, 1, cp), f.model.windows = {0, second}; };
  };
  add(c, "cp-per-layer", windows(4096, 2), windows(0, 2), windows(4096, 1), kNot);
}

void add_precision(std::vector<RuleCase>& c) {
  const auto sends = [](double exposed, std::optional<SentFormat> format) {
    return [=](Figures& f) {
      add_experts(f), use_fp8(f, Fp8Scaling::mxfp8), f.times->exposed["ep"] = exposed;
      f.config.model.moe.moe_dispatch_fwd_dtype = format;
    };
  };
  add(c, "moe-fp8-dispatch", sends(0.1, {}), sends(0.1, SentFormat::mxfp8), sends(0.03, {}), kNot);
  const auto fp8 = [](Fp8Scaling scaling) { return [=](Figures& f) { use_fp8(f, scaling); }; };
  add(
      c, "fp8-linear-share", fp8(Fp8Scaling::tensorwise), nothing,
      [](Figures& f) { use_fp8(f, Fp8Scaling::delayed), f.machine.reset(); }, kUnknown);
  const auto host = [](double share) {
    return [=](Figures& f) { use_fp8(f), f.times->host = share; };
  };
  add(c, "fp8-host-bound", host(0.2), host(0.05), host(0.1), kNot);
  add(c, "fp8-block-size", fp8(Fp8Scaling::blockwise), nothing, fp8(Fp8Scaling::tensorwise), kNot);
  const auto products = [](double share) {
    return [=](Figures& f) { use_fp8(f), f.times->products = share; };
  };
  add(c, "fp8-range", products(0.1), products(0.6), products(0.45), kNot);
  add(c, "fp8-export", fp8(Fp8Scaling::mxfp8), nothing, nothing, kNot);
}

void add_host(std::vector<RuleCase>& c) {
  const auto host = [](double share) { return [=](Figures& f) { f.times->host = share; }; };
  add(c, "host-bound", host(0.2), host(0.05), host(0.1), kNot);
  add(c, "graph-on", host(0.2), host(0.05), host(0.1), kNot);
  c.push_back({"graph-on", RuleCase::not_so, kNot, [](Figures& f) {
                 f.times->host = 0.2;
                 f.config.graph.cuda_graph_impl = GraphCapture::local;
               }});
  const auto binding = [](std::optional<bool> binds) {
    return [=](Figures& f) { f.config.dist.numactl = binds; };
  };
  add(c, "cpu-binding", binding(false), binding(true), binding({}), kNot);
  add(
      c, "micro-batch-raise", nothing, [](Figures& f) { f.micro_batches = 3; },
      [](Figures& f) { set_sizes(f, 1, 1, 4), f.micro_batches = 6; }, kNot);
}

void add_memory(std::vector<RuleCase>& c) {
  const auto peak = [](double bytes) { return [=](Figures& f) { stage(f).peak = bytes; }; };
  const auto share = [](double of) {
    return [=](Figures& f) { stage(f).peak = of * capacity(f); };
  };
  add(c, "oom-smallest-change", peak(90e9), nothing, share(1), kNot);
  add(
      c, "recompute-cheapest", peak(90e9), nothing,
      [](Figures& f) { f.config.recompute.recompute_granularity = RecomputeGranularity::full; },
      kFires);
  add(
      c, "recompute-too-much",
      [](Figures& f) { f.config.recompute.recompute_granularity = RecomputeGranularity::full; },
      nothing,
      [=](Figures& f) {
        share(0.95)(f), f.config.recompute.recompute_granularity = RecomputeGranularity::full;
      },
      kNot);
  add(
      c, "recompute-core-attn-moot",
      [](Figures& f) {
        f.config.recompute.recompute_granularity = RecomputeGranularity::selective;
      },
      nothing,
      [](Figures& f) {
        f.config.recompute.recompute_granularity = RecomputeGranularity::selective,
        f.model.flash_attention = false;
      },
      kNot);
  const auto keeps = [](double step) {
    return [=](Figures& f) {
      f.fully_sharded = true, f.micro_batches = 1, f.times->step = step;
      f.stages = {{70e9, 5e9, 5e9, 5e9, 50e9, 0}};
    };
  };
  add(c, "offload-worth", keeps(2), nothing, keeps(0.7), kNot);  // 63 GB/s
  const auto offloads = [](double bytes, double exposed) {
    return
        [=](Figures& f) { f.offloaded_bytes = bytes, f.times->exposed["host memory"] = exposed; };
  };
  add(c, "offload-balance", offloads(1e9, 0.1), offloads(0, 0), offloads(1e9, 0), kNot);
  add(c, "precision-aware", share(0.95), nothing, share(0.9), kNot);
  add(
      c, "fp8-params", [=](Figures& f) { use_fp8(f), share(0.95)(f); }, nothing,
      [=](Figures& f) { use_fp8(f), share(0.9)(f); }, kNot);
  add(c, "fragmentation", share(0.95), share(0.5), share(0.94), kNot);
  const auto stages = [](double first, double second) {
    return [=](Figures& f) {
      set_sizes(f, 1, 1, 2);
      f.stages = {{first * capacity(f), 1, 1, 1, 1, 0}, {second * capacity(f), 1, 1, 1, 1, 0}};
    };
  };
  add(c, "first-stage-peak", stages(0.95, 0.5), stages(0.5, 0.5), stages(0.95, 0.9), kNot);
}

void add_fusions_and_rows(std::vector<RuleCase>& c) {
  add(
      c, "fusion-off", [](Figures& f) { f.config.fusion.bias_dropout_fusion = false; }, nothing,
      [](Figures& f) {
        f.config.model.apply_rope_fusion = false, f.model.positions = PositionKind::learned;
      },
      kNot);
  add(
      c, "ce-unfused", [](Figures& f) { f.config.fusion.cross_entropy_loss_fusion = false; },
      nothing, nothing, kNot);
  const auto scores = [](int64_t length) {
    return [=](Figures& f) { f.model.flash_attention = false, f.length = length; };
  };
  add(c, "attention-unfused", scores(8192), nothing, scores(1023), kNot);
  const auto rows = [](int64_t length) {
    return [=](Figures& f) { f.length = length, set_sizes(f, 2); };
  };
  add(c, "long-seq-sweep", rows(32768), rows(8192), rows(16384), kFires);
}

void add_packing(std::vector<RuleCase>& c) {
  const auto conversations = [](Figures& f, double padding, bool packed) {
    f.config.dataset.packing.conversations = true;
    if (packed) f.config.dataset.packing.packed_sequence_size = f.length;
    f.conversations = ConversationFigures{
        .conversations = 1000, .mean_tokens = 300, .padding = padding, .padding_packed = 0.01};
  };
  add(
      c, "pack-off", [=](Figures& f) { conversations(f, 0.6, false); }, nothing,
      [=](Figures& f) { conversations(f, 0.1, false); }, kNot);
  c.push_back(
      {"pack-off", RuleCase::holds, kFires, [=](Figures& f) { conversations(f, 0.06, true); }});
  c.push_back(
      {"pack-off", RuleCase::not_so, kNot, [=](Figures& f) { conversations(f, 0.04, true); }});
  const auto padded = [=](int64_t multiple, int64_t micro_batch) {
    return [=](Figures& f) {
      conversations(f, 0.01, true), set_sizes(f, 1, 2);
      f.config.parallel.context_parallel_size = 2;
      f.config.dataset.packing.pad_seq_to_mult = multiple, f.micro_batch = micro_batch;
    };
  };
  add(c, "pack-legal", padded(2, 1), padded(4, 1), padded(1, 1), kNot);
  c.push_back({"pack-legal", RuleCase::holds, kFires, padded(1, 2)});
  // Rows of two data ranks in turn.
  const auto uneven = [=](double other) {
    return [=](Figures& f) {
      conversations(f, 0.01, true);
      f.dp = 2, f.global_batch = 4, f.micro_batch = 1;
      f.conversations->row_squares = {1, other, 1, other, 1, other, 1, other};
    };
  };
  add(c, "pack-straggler", uneven(2), uneven(1), uneven(1.1), kNot);
}

void add_scaling(std::vector<RuleCase>& c) {
  const auto window = [](int64_t first, int64_t last) {
    return [=](Figures& f) {
      f.config.profiling.trace = true;
      f.config.profiling.profile_step_start = first, f.config.profiling.profile_step_end = last;
    };
  };
  add(c, "profile-window", window(2, 4), window(10, 12), window(10, 20), kNot);
  const auto few = [](int64_t batches, double exposed) {
    return [=](Figures& f) { f.micro_batches = batches, f.times->exposed["dp"] = exposed; };
  };
  add(c, "scale-few-microbatches", few(2, 0.1), few(8, 0.1), few(2, 0.03), kNot);
  add(c, "scale-batch-limit", few(1, 0), few(4, 0), few(2, 0), kNot);
  const auto days = [](int64_t steps) {
    return [=](Figures& f) { f.config.train.train_iters = steps; };
  };
  add(c, "goodput", days(300'000), days(100), days(86'400), kNot);
}

void add_sanity(std::vector<RuleCase>& c) {
  const auto mfu = [](double value) {
    return [=](Figures& f) { f.times->mfu = value, f.times->model_tflops = value * 989.4; };
  };
  add(c, "mfu-low", mfu(0.3), mfu(0.45), mfu(0.4), kNot);
  add(c, "mfu-impossible", mfu(0.8), mfu(0.45), mfu(0.75), kNot);
  const auto exposed = [](double share) {
    return [=](Figures& f) { f.times->exposed["tp"] = share; };
  };
  add(c, "comm-share", exposed(0.4), exposed(0.1), exposed(0.3), kNot);
  const auto tokens = [](double factor) {
    return [=](Figures& f) { f.times->tokens_per_second *= factor; };
  };
  add(c, "tflops-inconsistent", tokens(1.1), tokens(1), tokens(1.015), kNot);
  add(
      c, "forced-balance",
      [](Figures& f) { add_experts(f), f.config.model.moe.moe_router_force_load_balancing = true; },
      [](Figures& f) { add_experts(f); },
      [](Figures& f) { f.config.model.moe.moe_router_force_load_balancing = true; }, kNot);
}

}  // namespace

Figures dense() {
  Figures f;
  ModelConfig& m = f.model;
  m.family = "llama", m.layers = 32, m.hidden = 4096, m.heads = 32, m.kv_heads = 8;
  m.head_dim = 128, m.feed_forward = 14336, m.vocabulary = 128256;
  f.ranks = 64, f.global_batch = 256, f.length = 8192;
  f.config.dist.ranks = 64;
  f.config.ddp.bucket_size = 40'000'000;
  f.parameters = f.trained_parameters = f.parameters_in_all = 8e9;
  f.launches = 10'000;
  f.stages = {{60e9, 16e9, 16e9, 8e9, 15e9, 1e9}};
  const Cluster cluster = load_cluster("dgx-h100");
  f.machine = machine_of(cluster, prediction_settings(cluster));
  f.times = Times{.step = 1,
                  .compute = 0.9,
                  .products = 0.6,
                  .attention = 0.1,
                  .other = 0.2,
                  .stage_compute = {0.9},
                  .mfu = 0.45,
                  .model_tflops = 0.45 * 989.4,
                  .tokens_per_second = 256.0 * 8192 / 64,
                  .peak = product_peak(cluster.gpu, precision_recipe("bf16_mixed"))};
  set_sizes(f, 1);
  return f;
}

void set_sizes(Figures& f, int tp, int cp, int pp, int vpp) {
  f.tp = tp, f.cp = cp, f.pp = pp, f.vpp = vpp;
  f.dp = f.ranks / (tp * cp * pp);
  f.micro_batches = f.global_batch / (f.dp * f.micro_batch);
  f.sequence_cut = tp > 1;
  f.stages.resize(static_cast<size_t>(pp), f.stages.front());
}

void add_experts(Figures& f) {
  f.model.moe.experts = 64, f.model.moe.feed_forward = 2048, f.model.moe.routing.topk = 6;
  f.ep = 8;
}

std::vector<RuleCase> rule_cases() {
  std::vector<RuleCase> cases;
  add_mapping(cases), add_pipeline(cases), add_expert_cases(cases), add_sharding(cases);
  add_data_overlap(cases), add_model_overlap(cases), add_precision(cases), add_host(cases);
  add_memory(cases), add_fusions_and_rows(cases), add_packing(cases), add_scaling(cases),
      add_sanity(cases);
  return cases;
}

}  // namespace viaduct::rules::test
