#pragma once
// The table of ops: one entry per op of the list (ops/op_list.h), filled by a backend, immutable
// afterwards. The application builds it; nothing registers itself. An entry that a backend leaves
// empty is an error where it is called.

#include "ops/dispatch.h"
#include "ops/op_list.h"

namespace viaduct {

struct OpTable {
  Traits traits;

  /// Forms that the products' operands have; null: plain tensors.
  GemmForms (*gemm_forms)(const GemmRequest&, const Traits&) = nullptr;
  /// The part of a request that producers make besides their matrix; null: nothing.
  FormsRequest (*produced_forms)(const FormsRequest&, const Traits&) = nullptr;
  /// Products of a score matrix round their factors to the format of q: they may be stored in it.
  bool narrow_score_factors = false;
  /// Products add terms (`GemmArgs::terms`).
  bool product_terms = false;
  /// The most rows of products that make what their terms read (`GemmArgs::reduction`); 0: none do.
  int64_t reduced_rows = 0;
  /// Attention adds a bias of the scores (`AttentionProblem::bias`).
  bool biased_attention = false;

#define VIADUCT_OP_ENTRY(name, Args, gpu) OpEntry<Args> name;
  VIADUCT_OPS(VIADUCT_OP_ENTRY)
#undef VIADUCT_OP_ENTRY
};

/// The arguments of an entry's op: `decltype(args_of_entry(&OpTable::gemm))`. Never called.
template <class Args>
Args args_of_entry(OpEntry<Args> OpTable::*);

/// Calls `f.template operator()<&OpTable::NAME>()` for each entry.
template <class F>
void for_each_entry(F&& f) {
#define VIADUCT_WITH_ENTRY(name, Args, gpu) f.template operator()<&OpTable::name>();
  VIADUCT_OPS(VIADUCT_WITH_ENTRY)
#undef VIADUCT_WITH_ENTRY
}

}  // namespace viaduct
