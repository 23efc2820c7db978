#pragma once
// Orders of rows by expert (ops/expert_rows.h), and the limit on the tokens of experts
// (ops/expert_capacity.h), from choices that are sorted by expert (`sort_tokens`, stable).

#include "ops/cuda/kernels/embedding.h"

namespace viaduct::cuda {

/// Choices in the order of experts: `begin` [experts + 1] says where each expert's begin in
/// `sorted`, and where those of no expert do.
struct SortedChoices {
  const TokenOfRow* sorted;  // [choices]: expert and choice
  int32_t* begin;
  int64_t choices, experts;
};
void find_begins(const SortedChoices& args, Stream stream);

/// Runs of `together` neighbouring experts as one: run [choices] is the number of each choice's
/// run, from `first_expert` on, or −1 for no expert and, with `once`, for a choice whose token
/// chose the run before.
struct ChoiceRuns {
  const int32_t* choice;  // [choices]
  int32_t* run;
  int64_t choices, topk, first_expert, together;
  bool once;
};
void choice_runs(const ChoiceRuns& args, Stream stream);

struct ExpertOrder {
  SortedChoices choices;
  int64_t topk, experts_per_rank, copies, rows_each, rows_multiple;
  int32_t* token;     // [rows]
  int32_t* position;  // [choices, copies]
  int64_t* counts;    // [experts · copies]
  int32_t* offsets;   // [experts · copies + 1]
  int64_t rows;
  int64_t* all_rows;  // the rows of all destinations, or null
  bool adds_rows;     // to all_rows
};
void expert_order(const ExpertOrder& args, Stream stream);

struct ArrivalOrder {
  const int64_t* counts;  // [senders, experts]
  int32_t *from, *back, *offsets;
  int32_t *received, *placed;  // [senders · experts] both: where blocks begin in either order
  int64_t senders, experts;
};
void arrival_order(const ArrivalOrder& args, Stream stream);

/// Of each expert's (or run's) choices beyond `capacity`, `choice` becomes −1 and the probability
/// 0.
struct ExpertLimit {
  SortedChoices choices;
  int32_t* choice;
  float* probabilities;
  int64_t capacity;
  bool by_probability;  // else the first tokens are kept
};
void limit_experts(const ExpertLimit& args, Stream stream);

/// out (= or +=) E · n − Σ n; f32 or f64.
struct LoadErrors {
  const int64_t* counts;
  Vector out;
  int64_t experts;
  bool accumulate;
};
void load_error(const LoadErrors& args, Stream stream);

/// bias −= rate · sign(error), or with `set` bias = error, and the weight; f32 or f64. Slot `skip`
/// of `scalars`.
struct LoadBias {
  Vector bias, error, weight;
  const double* scalars;
  int skip;
  int64_t count;
  double rate;
  bool set;
};
void move_load_bias(const LoadBias& args, Stream stream);

}  // namespace viaduct::cuda
