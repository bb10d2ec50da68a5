// report/outputs.hpp - the files and the text that a finished comparison leaves behind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "cluster/cluster_config.hpp"
#include "report/comparison.hpp"
#include "report/live/live_page.hpp"

namespace rubato::report {

// A comparison of these models on this cluster and machine, without runs.
Comparison start_comparison(const cluster::ClusterConfig& config,
                            const std::vector<std::string>& models, std::string command,
                            bool virtual_time);

// The link of each worker of the file, in words: "20 ms, 5 Mb/s up".
std::map<std::string, std::string> link_texts(const cluster::ClusterConfig& config);

// The live page of --http, whose address is logged; null where `address` is empty. `sync`, `seed`:
// of the first run. `links`: where the nodes have those of the file.
[[nodiscard]] Result<std::unique_ptr<LivePage>> open_live_page(
    const std::string& address, Comparison comparison, const std::string& sync, std::uint64_t seed,
    std::map<std::string, std::string> links = {});

// Makes the directory of --out if it is absent. To be called before the work that fills it.
// BadInput when nothing can be written there.
[[nodiscard]] Result<void> make_output_directory(const std::string& directory);

// Adds to the note where a box was too busy for its steps.
void note_busy(Comparison& comparison);

// Prints where a file is, if it is there.
void print_place(const std::string& words, const std::string& path);

// Prints the table and where its page is, or results.json with `json`. `page`: empty: there is
// none.
void print_comparison(const Comparison& comparison, const std::string& page, bool json);

// Writes the run directory (report/run_directory.hpp), then prints as print_comparison()
// does.
[[nodiscard]] Result<void> write_outputs(const Comparison& comparison, const std::string& directory,
                                         bool json);

}  // namespace rubato::report
