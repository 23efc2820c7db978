#pragma once
// A probe on many ranks, as on the command line: ranks are threads.

#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace viaduct::test {

/// The tensors dumped by `viaduct probe --model MODEL --batch BATCH [--train] OVERRIDES…`.
std::map<std::string, Tensor> probe_layout(const std::filesystem::path& model,
                                           const std::filesystem::path& batch, bool train,
                                           std::vector<std::string> overrides);

/// A layout of a run over ranks.
struct LayoutCase {
  std::string name;  // "tp2_cp2"
  std::vector<std::string> overrides;
  std::vector<std::string> only = {};  // reference cases that support it; empty: all
  bool suits(const std::string& reference) const;
};
void PrintTo(const LayoutCase& c, std::ostream* os);

/// Sizes of the axes, further overrides, and a suffix of the name that describes them.
LayoutCase layout(int tp, int cp, int pp, int dp, std::vector<std::string> more = {},
                  const std::string& suffix = "");

/// A model of the reference (tests/data/golden) in a layout.
struct ModelLayout {
  std::string model;
  LayoutCase layout;
  std::string name() const { return model + "_" + layout.name; }
};
void PrintTo(const ModelLayout& c, std::ostream* os);
/// Each of the models in each of the layouts that suit it.
std::vector<ModelLayout> models_in_layouts(const std::vector<std::string>& models,
                                           const std::vector<LayoutCase>& layouts);
/// Checks that its logits, loss and gradients are the reference's up to this relative error.
/// Returns the number of gradients.
int expect_reference(const ModelLayout& c, double limit);

/// The optimizer settings of the reference's ten steps (tests/data/golden), as overrides.
std::vector<std::string> reference_optimizer();

/// Checks that the losses and gradient norms of ten steps are those of the reference's trace, up to
/// 2e-4 of each.
void expect_trace(const ModelLayout& c);

}  // namespace viaduct::test
