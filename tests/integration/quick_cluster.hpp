// tests/integration/quick_cluster.hpp - a cluster file for tests: two fast workers and a slow one
// on synthetic data, at a loss of 0.3 within about two seconds.
#pragma once

#include <string>

namespace rubato::integration {

struct QuickCluster {
  std::string name = "quick";
  int servers = 1;
  double step_seconds = 0.005;  // of the fast ones; the slow one takes three times as long
  double learning_rate = 0.05;
  std::string data = "kind = \"blobs\"\nspread = 0.5";  // 10 features, 4 classes
  std::string partition = "iid";
  std::string stop = "target_loss = 0.3\nmax_seconds = 100";  // [stop]
  std::string wire = {};                                      // [wire]
  std::string hidden = "16";
  std::string training = {};  // more of [training]
  std::string link = {};      // of each worker and of the servers
  std::string text() const;
};

// A [stop] that no test waits for: it ends the run itself.
inline constexpr const char* kEndless = "max_seconds = 1000";

}  // namespace rubato::integration
