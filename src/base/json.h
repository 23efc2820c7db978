#pragma once
// The JSON library, its two classes compiled once (json.cpp): a unit that includes the library
// itself compiles what it uses of them again, which is most of the time of small units. Headers
// declare with <nlohmann/json_fwd.hpp>.

#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
