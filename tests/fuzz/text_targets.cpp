// What people write: cluster files, catalogs of devices, traces, keys; and the log of a run.
#include <array>
#include <filesystem>

#include "base/file.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/device_catalog.hpp"
#include "cluster/trace_files.hpp"
#include "proto/key_files.hpp"
#include "report/run_log.hpp"
#include "tests/fuzz/targets.hpp"

namespace rubato::fuzz {
namespace {

// Every file below the directory that ends so.
std::vector<std::string> files(const std::string& directory, std::string_view end) {
  std::vector<std::string> all;
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory))
    if (file.path().string().ends_with(end)) all.push_back(*read_file(file.path().string()));
  return all;
}

bool read_cluster(std::string_view bytes) {
  return taken(cluster::parse_cluster(std::string(bytes), "a.toml", ""));
}
std::vector<std::string> clusters() {
  return files(RUBATO_SOURCE_DIR "/deploy/clusters", ".toml");
}

bool read_catalog(std::string_view bytes) {
  return taken(cluster::parse_catalog(bytes, "devices.toml"));
}
std::vector<std::string> catalogs() {
  return {*read_file(RUBATO_SOURCE_DIR "/deploy/devices.toml")};
}

bool read_trace(std::string_view bytes) {
  return taken(cluster::parse_trace(bytes, "a.csv"));
}
std::vector<std::string> traces() {
  return {"0 5\n1.5 2\n3 0\n",
          "seconds,down_mbps,up_mbps\n0,5,1\n2,7,2\n",
          "timestamp;bandwidth_kbps\n1700000000;500\n1700000001;700\n",
          "0\n3\n7\n7\n12\n",
          R"({"metadata": {"gap_seconds": 2}, "data": [0, 1, 0]})",
          "# a comment\nseconds\tspeed\n0\t1\n4\t0.5\n"};
}

bool read_key(std::string_view bytes) {
  return taken(proto::read_public_key(file_of("box-1.pub", bytes)));
}
std::vector<std::string> keys() {
  return {"name = \"box-1\"\nrole = \"worker\"\npublic_key = \"" +
          std::string(proto::kKeyCharacters, 'k') + "\"\n"};
}

bool read_log(std::string_view bytes) {
  return taken(report::parse_run_log(std::string(bytes), "run.jsonl"));
}
std::vector<std::string> logs() {
  report::Comparison comparison;
  comparison.runs.emplace_back();
  RunRecord& run = comparison.runs.back();
  run.sync = "adsp";
  run.stop_reason = "time";
  run.workers.emplace_back().id = "a";
  run.evaluations.push_back({.seconds = 1, .steps = 5, .loss = 0.5, .accuracy = 0.75});
  return {report::run_log(comparison)};
}

}  // namespace

std::span<const Target> text_targets() {
  static constexpr std::array kAll{Target{"cluster", read_cluster, clusters},
                                   Target{"catalog", read_catalog, catalogs},
                                   Target{"trace", read_trace, traces},
                                   Target{"key", read_key, keys}, Target{"log", read_log, logs}};
  return kAll;
}

}  // namespace rubato::fuzz
