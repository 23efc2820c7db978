#pragma once
// Groups of ranks as configurations name them: by the names of comm/group_kinds.h, or by Megatron's
// where those are others.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// The names of all kinds of groups.
std::vector<std::string> group_names();

/// The name here of the group that a configuration calls `given`: "expert_dp" of "expt_dp". Null:
/// there is none.
std::optional<std::string> group_of_name(std::string_view given);

}  // namespace viaduct
