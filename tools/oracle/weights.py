"""Random weights with the scales of trained models, and the adjustments that make a model hard to compute with.

Trained matrices are not N(0, 0.02): rows and columns differ in size, a few directions carry more than the rest, norm weights spread around
1, some biases are large, and logits spread by 2 to 4. Values are rounded to BF16, as in most published models, so that a distance shows
errors of arithmetic, not of stored weights.
"""

import torch

LOGIT_SPREAD = 3.0


def spread(shape, width, generator):
    """Positive factors around 1: exp of a normal distribution."""
    return torch.exp(width * torch.randn(shape, generator=generator))


def matrix(rows, columns, gain, inputs, generator):
    """A matrix [rows, columns] that maps a vector of `inputs` unit elements to one with elements of about `gain`."""
    values = torch.randn(rows, columns, generator=generator)
    values *= spread((rows, 1), 0.3, generator)
    values *= spread((1, columns), 0.3, generator) * inputs**-0.5
    left, right = torch.randn(rows, generator=generator), torch.randn(columns, generator=generator)
    values += 4 * torch.outer(left / left.norm(), right / right.norm())  # the bulk's largest singular value is about 2
    return values.mul_(gain)


def draw(name, parameter, config, generator):
    shape = parameter.shape
    if parameter.dim() == 1:
        if name.endswith("bias"):
            outliers = torch.where(torch.rand(shape, generator=generator) < 0.01, 10.0, 1.0)
            return 0.1 * outliers * torch.randn(shape, generator=generator)
        weight = spread(shape, 0.3, generator)
        return weight - 1 if "gemma" in config.model_type else weight  # Gemma stores w − 1
    if "wpe" in name:
        return 0.1 * torch.randn(shape, generator=generator)
    if "lm_head" in name or "embed" in name or "wte" in name:
        head = "lm_head" in name or config.tie_word_embeddings
        size = LOGIT_SPREAD * shape[1] ** -0.5 if head else 0.05
        return size * spread((shape[0], 1), 0.2, generator) * torch.randn(shape, generator=generator)
    inputs_first = ".c_" in name  # GPT-2 stores [in, out]
    ends_branch = any(part in name for part in ("o_proj", "down_proj", "c_proj"))
    scores = "q_proj" in name or "k_proj" in name  # attention scores spread by 1 to 2
    gain = (2 * config.num_hidden_layers) ** -0.5 if ends_branch else 0.6 if scores else 1.0
    return matrix(*shape, gain, shape[0] if inputs_first else shape[1], generator)


@torch.no_grad()
def randomize(model, generator, adjust=None):
    """Draws every weight, lets `adjust` (a function of the parameters by name) change them, and rounds to BF16."""
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        parameter.copy_(draw(name, parameter, model.config, generator))
    if adjust:
        adjust(parameters)
    return model.to(torch.bfloat16)


def residual_mean(parameters):
    """The residual stream of GPT-2 gets mean 100, which its norms subtract."""
    parameters["transformer.wpe.weight"] += 100.0


def outlier_channels(parameters):
    """Makes three channels of the residual stream 1,000 times as large as the others, for every token; norm weights compensate."""
    loud = torch.tensor([5, 77, 200])
    embedding = parameters["model.embed_tokens.weight"]
    embedding *= 20.0  # to the size of the layers' outputs
    embedding[:, loud] = 1000.0 * (1 + 0.1 * embedding[:, loud].clamp(-3, 3)) * torch.tensor([1.0, -1.0, 1.0])
    for name, weight in parameters.items():
        if "norm" in name:
            quiet = torch.ones_like(weight, dtype=torch.bool)
            quiet[loud] = False
            weight[quiet] *= 700.0 * (len(loud) / len(weight)) ** 0.5
            weight[loud] *= 0.1
    parameters["lm_head.weight"] *= 0.25  # the last layer's output is larger than that of other models


def confident(parameters):
    """Raises logits to about 100, so that many tokens are predicted with p > 0.999."""
    parameters["lm_head.weight"] *= 4.0


def common_offset(parameters):
    """Adds an offset of about 64 to the logits of a row, so that they reach 80."""
    head, bias = parameters["lm_head.weight"], parameters["transformer.ln_f.bias"]
    direction = torch.ones(head.shape[1]) * head.shape[1] ** -0.5
    bias.add_(16 * direction)
    head.add_(4 * direction)


def extreme_logits(parameters):
    """Raises attention scores to hundreds, logits to ±500."""
    for name, weight in parameters.items():
        if "q_proj" in name or "k_proj" in name:
            weight *= 4.0
    parameters["lm_head.weight"] *= 40.0
