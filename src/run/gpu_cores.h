#pragma once
// The cores of this machine that are near a GPU, as Linux lists them for the GPU's place on the
// bus.

#include <filesystem>
#include <string>
#include <vector>

namespace viaduct {

/// What a small file of /sys says, which cannot be mapped (base/file.h). IoError if it cannot be
/// read.
std::string system_text(const std::filesystem::path& file);

/// The numbers in a list of cores of the system ("0-3,8"), ascending. IoError if `file` cannot be
/// read, or is not such a list.
std::vector<int> read_core_list(const std::filesystem::path& file);

/// What the system says about the device `bus_id` ("0000:1B:00.0") of the bus.
std::filesystem::path device_folder(const std::string& bus_id, const std::filesystem::path& sysfs);

/// Numbers of the cores near the device `bus_id` ("0000:1B:00.0"), ascending. IoError if the system
/// (`sysfs`: where it is mounted) does not list them, or the entry is not a list of cores.
std::vector<int> cores_near(const std::string& bus_id, const std::filesystem::path& sysfs = "/sys");

/// "0-3,8" of 0, 1, 2, 3, 8.
std::string core_list(const std::vector<int>& cores);

/// Binds the calling thread, and threads that it starts, to those of `cores` that it may use, and
/// leaves these in `cores`. Returns why it is not bound, or "".
std::string bind_to_cores(std::vector<int>& cores);

/// Binds the calling thread, and threads that it starts, to the cores near the device that it may
/// use. Returns a line that names the cores, or says why it is not bound.
std::string bind_near(const std::string& bus_id, const std::filesystem::path& sysfs = "/sys");

}  // namespace viaduct
