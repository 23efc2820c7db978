#pragma once
// The balancing loss of a step's routers by Hugging Face's formula, which compares with other
// implementations. Training has its own (ops/routing.h), layer by layer.

#include "engine/engine.h"

namespace viaduct {

/// E · Σ_e F_e · P_e, where F_e is the number of choices of expert e by a token and P_e the mean of
/// its probability over the tokens, both over the tokens of all layers together
/// (load_balancing_loss_func of Hugging Face's Mixtral). For routers whose scores are not a
/// softmax, probabilities are s / Σ s. 0 where every layer is dense. On rank 0 of the run, 0
/// elsewhere; every rank calls it after a step whose router log kept logits.
double collect_aux_loss(Engine& engine);

/// What multiplies it in the loss: the sum of the model's own coefficients, or without any
/// router_aux_loss_coef of the folder.
double aux_loss_coefficient(const MoeConfig& moe);

}  // namespace viaduct
