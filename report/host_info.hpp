// report/host_info.hpp - which machine and which rubato produced a result.
#pragma once

#include <string>
#include <string_view>

namespace rubato::report {

struct HostInfo {
  std::string cpu;      // model name
  unsigned cores = 0;   // logical
  std::string os;       // distribution, else kernel name
  std::string version;  // of rubato
  std::string commit;   // that rubato was built from
};

// "0.1.0"
std::string_view version();

// "v0.1.0-12-g4f1c2a9b7d3e", "-dirty" behind it where files were changed; "unknown" of a build
// outside a repository.
std::string_view commit();

// Reads /proc/cpuinfo and /etc/os-release; what cannot be read is "unknown".
HostInfo read_host_info();

// "Intel Xeon, 2 cores, Debian GNU/Linux 12, rubato 0.1.0"
std::string describe(const HostInfo& host);

}  // namespace rubato::report
