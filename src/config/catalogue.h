#pragma once
// The knobs of Megatron-Bridge and NeMo that are known and not implemented yet, and the environment
// variables that their guides name. Data tables, one file per topic. To implement a knob, declare
// it in a group of the owning folder and remove its row (Schema refuses a name with two owners).

#include <span>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace viaduct {

/// Where a knob that is not implemented yet will have an effect.
enum class KnobReach {
  everywhere,  // planned on every device
  nowhere,     // concerns the other programs' runtime: no effect on any device here
};

/// One knob as text: `default_text` is YAML, `allowed` and `aliases` are separated by spaces.
struct KnobRow {
  std::string_view name, type, default_text, allowed, doc, constraints, aliases;
  KnobReach reach = KnobReach::everywhere;
};

/// Knobs of one section with the same reason and reach.
struct KnobTable {
  std::string_view section, doc;
  std::string_view reason;  // ends "not implemented yet: " or "has no effect on cpu: "
  std::span<const KnobRow> rows;
};

/// All tables as groups of unbound fields.
const std::vector<FieldGroup>& catalogue();

namespace catalogue_tables {
// One function per file.
std::vector<KnobTable> parallel();
std::vector<KnobTable> experts();
std::vector<KnobTable> memory();
std::vector<KnobTable> kernels();
std::vector<KnobTable> data();
std::vector<KnobTable> operations();
std::vector<KnobTable> environment();
}  // namespace catalogue_tables

}  // namespace viaduct
