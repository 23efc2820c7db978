#pragma once
// Values derived from the parallel settings of a run: degrees, groups and the values of `auto`.

#include <cstdint>

#include "model/model_config.h"
#include "run/run_config.h"

namespace viaduct {

/// dp: replicas of the model that take different rows; 0 if those of a
/// replica, cp · (etp · epp + tp · pp), do not divide the ranks.
int64_t data_parallel_size(const RunConfig& config);

/// Blocks of the model's encoder; where the field is auto those of its family, or 0 while only a
/// folder that is not read yet says it.
int64_t encoder_layers(const RunConfig& config);

/// Tokens of the encoder's rows that a context rank has of a micro-batch: whole rows, equally many
/// on each. 0 while their length is not known.
int64_t encoder_tokens(const RunConfig& config);

/// Tensor ranks of a stage of the encoder or of the decoder, whichever has more.
int most_tensor_ranks(const ParallelConfig& sizes);

/// Tensor ranks over which the token table is cut, of the encoder's side or the decoder's,
/// whichever has more: a vision tower has none.
int table_ranks(const RunConfig& config);

/// Fast domains in which ranks that exchange tokens lie, where tokens are sent by domain; else 1.
/// That an explicit `hierarchical` fits is validated (rules/expert_exchange.cpp).
int expert_domains(const RunConfig& config);

/// dp · cp: the ranks that documents are shared among under hybrid context parallel.
int64_t document_ranks(const RunConfig& config);

/// Micro-batches of a step on a data-parallel rank; 0 if the batch does not divide.
int64_t micro_batches(const RunConfig& config);

/// Bytes of the logits that a rank of the last stage would keep from forward to backward: of one
/// micro-batch, or of all of a step under GPipe. 0 where the model is not known yet.
int64_t kept_logits_bytes(const RunConfig& config);

/// Whether kernels of a GPU run, which take settings of their own (nn/kernel_settings.h); in a
/// simulated run, whether they would.
bool tells_kernels(const RunConfig& config);

/// What the table of overlapped GEMMs depends on, as far as it is known yet. Pipelined GEMMs put
/// out the hidden size and, as gradients, the compressed queries, keys and values of latent
/// attention.
OverlapConditions overlap_conditions(const RunConfig& config);

/// The exchanges of tensor ranks that run beside GEMMs: one table for checks, for ResolvedRun, and
/// for the question what a setting changes. Problems and notes as of resolve_gemm_overlap.
GemmOverlapTable gemm_overlap(const RunConfig& config, Problems& problems,
                              std::vector<std::string>* notes = nullptr);

/// Replaces every `auto` of parallelism. model.seq_length may still be `auto`.
void resolve_parallel(RunConfig& config);

}  // namespace viaduct
