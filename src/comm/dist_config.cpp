#include "comm/dist_config.h"

namespace viaduct {
namespace {

constexpr double kMostRanks = 1 << 20, kMostMultiprocessors = 1024;
/// Of a slider's positions, to find typing errors: GPUs have few.
constexpr double kHighestBoost = 255;

}  // namespace

FieldGroup dist_fields(DistConfig& config) {
  FieldGroup group("dist", "Ranks and the device they run on.");
  group.on_resume(resume::free);
  group
      .field("ranks", config.ranks,
             "World size. Without a launcher the ranks are threads of this process; under one it "
             "is absent or equal.")
      .range(1, kMostRanks)
      .alias("world_size")
      .constraint("divisible by cp · (etp · epp + tp · pp), and by those of experts");
  group
      .field("device", config.device,
             "What ranks compute on; cuda needs libviaduct_cuda.so and a GPU for each rank, or one "
             "that ranks share; sim trains in virtual time on dist.cluster, without losses and "
             "checkpoints, train_iters=3 unless given; auto: cuda where a GPU can be used, else "
             "cpu.")
      .constraint("sim needs dist.cluster; viaduct train alone has it");
  group
      .field("cpu_isa", config.cpu_isa,
             "Instruction set of the CPU kernels; auto: the fastest of this machine, the last that "
             "`viaduct version` names. portable runs on any processor (aarch64), with the bits of "
             "avx2.")
      .constraint("supported by this machine");
  group
      .field("threads_per_rank", config.threads_per_rank,
             "Threads that compute for a rank; auto: max(1, cores / ranks on this machine).")
      .range(1, 4096)
      .of_values()
      .may_differ();
  group
      .field("distributed_timeout_minutes", config.distributed_timeout_minutes,
             "A collective that waits longer fails with an error that lists the missing ranks.")
      .positive()
      .in("minutes")
      .of_values();
  group
      .field("use_tp_pp_dp_mapping", config.use_tp_pp_dp_mapping,
             "Rank order tp-cp-ep-pp-dp instead of tp-cp-ep-dp-pp (the first axis varies fastest).")
      .constraint("with pp > 1: expert dp = dp");
  group
      .field("nvlink_domain_size", config.nvlink_domain_size,
             "Devices that share a fast domain (72 or 8 with NVLink): groups of heavy traffic that "
             "straddle two domains are reported before the run; null: not checked.")
      .range(1, kMostRanks);
  group
      .field("cluster", config.cluster,
             "Cluster that dist.device=sim trains on: a name of hardware/clusters.yaml or a YAML "
             "file with the fields of one. Without effect on other devices.")
      .constraint("a known cluster whose GPU has kernels");
  group
      .field("product_algorithms_path", config.product_algorithms_path,
             "File with the algorithm of cuBLASLt for each kind of product, made if there is none: "
             "the first algorithms that the library proposes for a kind that is not in it are "
             "timed once, and the fastest is added (docs/cuda.md). null: the first one, untimed.")
      .constraint("dist.device = cuda; the GPU and the library that made the file")
      .on_resume(resume::said("products may have other algorithms, which round otherwise"));
  group
      .field("nccl_communicator_config_path", config.nccl_communicator_config_path,
             "YAML file with the connections of NCCL by group of ranks: {dp_cp: {min_ctas: 4, "
             "max_ctas: 16, cga_cluster_size: 2, net_name: IB}}; null: NCCL chooses.")
      .constraint("dist.device = cuda, a GPU for each rank");
  group
      .field("nccl_blocking", config.nccl_blocking,
             "Connections of NCCL block the host in the library's calls, without a thread of NCCL "
             "for each group of calls; then a rank that does not come is waited for without a "
             "limit of time. Not measured on a GPU.")
      .constraint("dist.device = cuda, a GPU for each rank");
  group
      .field("nccl_multiprocessors", config.nccl_multiprocessors,
             "Multiprocessors of a GPU that the kernels of all of a rank's connections of NCCL may "
             "take together, in equal shares; null: each connection takes what NCCL chooses.")
      .range(2, kMostMultiprocessors)
      .constraint("dist.device = cuda, a GPU for each rank; more than a rank has connections");
  group
      .field("use_sharp", config.use_sharp,
             "Sums of gradients over dp_cp are made by the switches of the network, where NCCL "
             "finds some that can.")
      .alias("use_sharp_on")
      .constraint("dist.device = cuda, NCCL 2.27 or newer");
  group
      .field("distributed_backend", config.distributed_backend,
             "What carries tensors between GPUs. gloo: the memory of hosts, by this program's "
             "threads or by MPI (not by Gloo), as for ranks that share a GPU; slow, and needs no "
             "NCCL. On cpu that is always so.")
      .one_of({TensorTransport::nccl, TensorTransport::gloo})
      .constraint("gloo: not with settings of NCCL, nor for ranks of torchrun");
  group
      .field(
          "high_priority_stream_groups", config.high_priority_stream_groups,
          "Groups of ranks, by the names that a dry run lists or Megatron's, whose communication "
          "goes before computation on a GPU (streams of the highest priority), while that of "
          "the others does not; ep: every exchange of tokens between experts. null: all groups, "
          "[]: none.")
      .constraint("dist.device = cuda");
  group
      .field("vboost", config.vboost,
             "Before training, once a machine: `nvidia-smi boost-slider --vboost N`, which shifts "
             "power to the cores of the GPUs and stays after the run; where that is not allowed or "
             "not supported, a warning says so. null: the slider stays where it is; 0 moves it "
             "back.")
      .range(0, kHighestBoost)
      .alias("--vboost")
      .constraint("dist.device = cuda; the slider's end is the GPU's own");
  group
      .field(
          "numactl", config.numactl,
          "Binds each rank to a memory node of the machine: its threads to the node's cores, its "
          "memory to the node as long as that has some. With cuda the node of the rank's GPU, on "
          "cpu the nodes in turn, as many ranks each. null: with cuda the cores near the GPU "
          "alone, on cpu nothing; false: nothing.")
      .constraint("a machine with several memory nodes");
  return group;
}

FieldGroup dist_model_fields(DistConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group
      .field("pipeline_model_parallel_comm_backend", config.pipeline_model_parallel_comm_backend,
             "What carries tensors between the stages of GPUs; null: dist.distributed_backend, as "
             "for the other groups.")
      .one_of({TensorTransport::nccl, TensorTransport::ucc})
      .constraint(
          "not ucc, a library that is not used here; nccl needs distributed_backend = nccl");
  return group;
}

FieldGroup dist_buffer_fields(DistConfig& config) {
  FieldGroup group("ddp", "");
  group.on_resume(resume::free);
  group
      .field("nccl_ub", config.nccl_ub,
             "The run's memory is registered with NCCL's connections of data-parallel and "
             "tensor-parallel groups, so that they need no copies through buffers of their own; as "
             "symmetric memory, where all ranks of a group have it at the same places.")
      .constraint("dist.device = cuda, a GPU for each rank, NCCL 2.19 or newer");
  group
      .field("disable_symmetric_registration", config.disable_symmetric_registration,
             "Memory that ddp.nccl_ub registers is not symmetric: NCCL has no kernels for it that "
             "read other ranks' memory, nor copy engines (comm_overlap.use_ce).")
      .constraint("needs nccl_ub")
      .idle([&config] { return !config.nccl_ub; }, "ddp.nccl_ub = false registers no memory");
  return group;
}

FieldGroup parallel_fields(ParallelConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group
      .field("tensor_model_parallel_size", config.tensor_model_parallel_size,
             "tp: ranks that share each layer; qkv, fc1 and vocabulary are cut by columns, proj "
             "and fc2 by rows.")
      .range(1, kMostRanks)
      .constraint("divides heads and ffn_hidden_size; key-value groups divide by it or it by them")
      .decides(LayoutPart::tp);
  group
      .field("pipeline_model_parallel_size", config.pipeline_model_parallel_size,
             "pp: stages that the layers are cut into.")
      .range(1, kMostRanks)
      .constraint("divides num_layers unless the split is given")
      .decides(LayoutPart::pp);
  group
      .field(
          "encoder_pipeline_model_parallel_size", config.encoder_pipeline_model_parallel_size,
          "epp: stages of the encoder of an encoder-decoder model, or of the vision tower and "
          "projector of one with images, in front of the decoder's pp; their ranks come first. 0: "
          "they are on the decoder's first stage.")
      .range(0, kMostRanks)
      .constraint(
          "divides encoder_num_layers, or the blocks of the tower that are read; above 0 needs one "
          "of them, and in front of virtual stages comm_overlap.overlap_p2p_comm")
      .decides(LayoutPart::encoder_pp);
  group
      .field("encoder_tensor_model_parallel_size", config.encoder_tensor_model_parallel_size,
             "etp: tp of the encoder's stages; 0: tensor_model_parallel_size.")
      .range(0, kMostRanks)
      .constraint(
          "needs encoder_pipeline_model_parallel_size above 0; a divisor or a multiple of tp that "
          "divides what is cut over the encoder's tensor ranks")
      .decides(LayoutPart::encoder_tp);
  group
      .field("context_parallel_size", config.context_parallel_size,
             "cp: ranks that share a sequence; activations are cut along it in zigzag chunks, "
             "weights are replicated.")
      .range(1, kMostRanks)
      .constraint("2 · cp divides seq_length")
      .decides(LayoutPart::cp);
  group
      .field("expert_model_parallel_size", config.expert_model_parallel_size,
             "ep: ranks that share the experts of a layer, each owning a contiguous run of them.")
      .range(1, kMostRanks)
      .constraint("divides num_moe_experts; more than 1 needs num_moe_experts")
      .decides(LayoutPart::ep);
  group
      .field("expert_tensor_parallel_size", config.expert_tensor_parallel_size,
             "etp: tensor parallelism inside an expert; null: tp.")
      .range(1, kMostRanks)
      .constraint("divides the width of an expert; needs num_moe_experts")
      .decides(LayoutPart::etp);
  group
      .field("sequence_parallel", config.sequence_parallel,
             "Norms, dropout and residual work on 1/tp of the tokens; auto: if tp > 1 and the "
             "sequence divides.")
      .constraint("tp > 1; tp · cp divides seq_length")
      .accepts({"false"})
      .decides(LayoutPart::sequence_parallel);
  return group;
}

}  // namespace viaduct
