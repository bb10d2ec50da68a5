// train/model/partition.hpp - which training samples each worker holds, and the order it visits
// them. Pure: everything follows from the seed. Source of dirichlet: Hsu, Qi, Brown 2019
// (1909.06335), with concentration alpha for each class where classes are equally frequent
// (Dirichlet(alpha 1)).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/rng.hpp"

namespace rubato::train {

struct Partition {
  // Local: nothing is dealt out, each worker has a file of its own.
  enum class Kind { Iid, Dirichlet, Labels, Slowest, Local } kind = Kind::Iid;
  double alpha = 0;  // Dirichlet: concentration > 0
  int labels = 0;    // Labels: distinct labels a worker holds, 1..classes.
                     // Slowest: labels that the slowest workers hold alone, 1..classes - 1
};

// "iid", "dirichlet:0.1", "labels:2", "slowest:3", "local". BadInput names the value and the valid
// forms.
[[nodiscard]] Result<Partition> parse_partition(std::string_view text);
// What parse_partition() reads as this one.
std::string partition_text(const Partition& partition);

// Returns: `workers` disjoint index lists that together hold every sample, none empty. Iid and
// Dirichlet: sizes differ by at most one. Labels: each worker holds exactly that many labels.
// Slowest: the workers marked in `slowest` share the samples of that many labels, and the others
// all other samples; within each of the two, sizes differ by at most one.
// BadInput when there are fewer samples than workers; for Labels also when a worker would hold more
// labels than there are, when a label would be held by nobody, or one has too few samples; for
// Slowest when all workers are equally slow, no label is left to the others, or samples are too
// few.
// Requires: workers > 0, classes > 0, 0 <= label < classes; not Local. For Slowest: a mark for each
// worker.
[[nodiscard]] Result<std::vector<std::vector<std::uint32_t>>> partition_samples(
    std::span<const std::int32_t> labels, int classes, int workers, const Partition& partition,
    std::uint64_t seed, const std::vector<bool>& slowest = {});

// Mini-batches without replacement: a fresh shuffle each epoch, from the worker's own stream; the
// rest of an epoch that does not fill a batch is carried into the next.
class BatchSampler {
 public:
  BatchSampler(std::vector<std::uint32_t> samples, Rng rng);
  // out <- the next out.size() sample indices.
  void next(std::span<std::uint32_t> out);

 private:
  std::vector<std::uint32_t> samples_;
  std::size_t position_ = 0;
  Rng rng_;
};

}  // namespace rubato::train
