#pragma once
// What the rules know about a run: its configuration, sizes that follow from it, and what its dry
// run and its prediction gave. Rules read nothing else, so tests make figures by hand.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/dry_run.h"
#include "hardware/cluster.h"
#include "plan/predict.h"
#include "plan/rules/finding.h"
#include "run/setup.h"

namespace viaduct::rules {

/// Bytes of a rank of a stage at its fullest moment.
struct StageBytes {
  double peak = 0;
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  double states() const { return weights + gradients + optimizer; }
};

/// Bytes and operations of a step that a rank of the first stage takes part in, by axis.
struct AxisTraffic {
  double bytes = 0;       // of the larger operands
  double wire_bytes = 0;  // that the rank hands to a network
  int64_t count = 0;
  int ranks = 1;  // of the largest group
};

/// Groups of an axis that lie in several domains of fast links.
struct Crossing {
  int64_t groups = 0, straddling = 0;  // of them: with ranks in more than one domain
  int64_t ranks = 1;                   // of a group
  int inside = 1;                      // most of a group in one domain
};

/// Of the machine, in bytes and operations a second.
struct Machine {
  Cluster cluster;
  PredictionSettings settings;
  double capacity_bytes = 0;
  double product_flops = 0;  // of BF16 products
  double attention_flops = 0;
  double link = 0, network = 0;  // of a rank and direction, inside a domain and out of it
};

/// Seconds of the step, means over the stages.
struct Times {
  double step = 0, compute = 0, optimizer = 0, bubble = 0, host = 0;
  double products = 0, attention = 0, other = 0;  // of compute
  /// Compute waits while data moves: by axis, "tp", "cp", "dp", "pp", "ep", "fsdp" (data ranks
  /// where weights are sharded) and "host memory".
  std::map<std::string, double> exposed;
  std::vector<double> stage_compute;
  double mfu = 0, model_tflops = 0, tokens_per_second = 0;  // of a GPU
  MatmulPeak peak;                                          // MFU is of it

  double share(double seconds) const { return step > 0 ? seconds / step : 0; }
  double exposed_of(const std::string& axis) const;
  double exposed_in_all() const;
};

struct Figures {
  RunConfig config;  // resolved
  ModelConfig model;
  int ranks = 1, tp = 1, cp = 1, pp = 1, vpp = 1, dp = 1;
  int ep = 1, etp = 1;
  int64_t micro_batch = 1, micro_batches = 1, global_batch = 1;  // of a step, on a data rank
  int64_t length = 1;                                            // s: tokens of a row
  bool sequence_cut = false, distributed_optimizer = true, fully_sharded = false;
  bool fp8 = false;
  std::string format = "bf16";                  // of products (plan/product_peak.h)
  Fp8Scaling scaling = Fp8Scaling::tensorwise;  // of FP8 products
  double parameters = 0;                        // of the fullest rank
  double trained_parameters = 0;                // of these: beside adapters the others are frozen
  double parameters_in_all = 0;
  double expert_parameters = 0;  // of the fullest rank
  int64_t launches = 0;          // of a step, of the rank with the most
  std::vector<StageBytes> stages;
  std::map<std::string, AxisTraffic> traffic;  // by axis as in Times
  double offloaded_bytes = 0;                  // of a step, out or back, whichever is more
  std::map<std::string, Crossing> crossings;   // "tp", "cp", "dp", "ep"; only with a machine
  /// The same of the other order of axes (dist.use_tp_pp_dp_mapping).
  std::map<std::string, Crossing> crossings_in_other_order;
  std::optional<Machine> machine;
  std::optional<Times> times;
  std::optional<ConversationFigures> conversations;  // where rows hold conversations

  // Z, De, T
  int64_t shards() const { return int64_t{1} * dp * cp; }
  int64_t expert_shards() const { return decoder_ranks() / (int64_t{1} * etp * ep * pp); }
  /// Stages of an encoder, or of a vision tower, in front of the pp of the decoder.
  int encoder_stages() const { return config.parallel.encoder_pipeline_model_parallel_size; }
  int64_t decoder_ranks() const {
    return ranks - int64_t{1} * dp * cp * config.parallel.encoder_tensor() * encoder_stages();
  }
  /// Compute of the mean encoder's stage over that of the decoder's; 0: it has no stages of its
  /// own. Needs times.
  double encoder_share() const;
  double tokens() const;  // of a rank and micro-batch
  bool experts() const { return model.moe.any(); }
  int64_t local_experts() const { return experts() ? model.moe.experts / ep : 0; }
  const StageBytes& fullest() const;
  double peak() const { return stages.empty() ? 0 : fullest().peak; }
  /// False if the capacity is not known.
  bool too_large() const { return machine && peak() > machine->capacity_bytes; }
  bool tighter_than(double share) const {
    return machine && peak() > share * machine->capacity_bytes;
  }
  double layers_of_a_stage() const;
  bool crosses(const std::string& axis) const;
  const AxisTraffic& traffic_of(const std::string& axis) const;
  /// The axis of the data ranks' communication: "dp", or "fsdp" where weights are sharded.
  std::string data_axis() const { return fully_sharded ? "fsdp" : "dp"; }
};

/// A product of a block as a rank computes it in the forward: rows × in · in × out.
struct BlockProduct {
  std::string name;  // "qkv", "proj", "fc1", "fc2"
  double in = 0, out = 0;
};
/// Of a dense block, or an expert's in place of its feed-forward, with `tp` tensor ranks.
std::vector<BlockProduct> block_products(const Figures& f, int tp);
/// Elements of the weights of a block that a token's products read, of one rank alone.
double block_elements(const Figures& f);
/// The share of the rate of large products that a block's products with `rows` rows reach on `tp`
/// ranks.
double product_efficiency(const Figures& f, int tp, double rows);
/// FLOP per byte: product rate over the rate of the links inside a domain, of one NIC, and of a
/// group of `axis`, which enters the network with one NIC a member.
double link_ratio(const Machine& machine);
double network_ratio(const Machine& machine);
double group_ratio(const Figures& f, const std::string& axis);
/// The maximum number of tensor ranks whose communication a block's products of the same size hide,
/// and the product that limits it.
struct TensorLimit {
  double ranks = 1;
  std::string product;
};
TensorLimit tensor_limit(const Figures& f);

Machine machine_of(const Cluster& cluster, const PredictionSettings& settings);

/// Which figures exist: without a cluster there are neither times nor a capacity.
Figures figures_of(const RunSetup& setup, const std::vector<DryRun>& stages);
Figures figures_of(const RunSetup& setup, const Cluster& cluster,
                   const PredictionSettings& settings, const Prediction& prediction);

/// "tp", "cp", "dp", "pp", "ep" of a group of a record, or the name itself.
std::string axis_of_group(const std::string& group);

// Texts and overrides that rules share.
inline constexpr const char* kNoTimes =
    "the step's times: give a cluster (viaduct plan --cluster, train --dry-run --cluster)";
inline constexpr const char* kNoCapacity =
    "what a GPU has of memory: give a cluster (viaduct plan --cluster, train --dry-run --cluster)";

/// Changes that keep the rest of the configuration legal: sizes of tensor parallelism leave
/// sequence parallelism to `auto`, one pipeline stage has no virtual ones.
Advice with_sizes(const Figures& f, int tp, int cp, int pp);
Advice with_sizes(const Figures& f, int tp, int cp, int pp, int vpp);
Advice change(std::vector<std::string> overrides);

}  // namespace viaduct::rules
