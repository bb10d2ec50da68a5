#include "train/model/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "base/words.hpp"

namespace rubato::train {
namespace {

constexpr std::string_view kIid = "iid";
constexpr std::string_view kLocal = "local";
constexpr std::string_view kDirichlet = "dirichlet:";
constexpr std::string_view kLabels = "labels:";
constexpr std::string_view kSlowest = "slowest:";

constexpr std::uint64_t kPartitionStream = 0x5041525449;  // "PARTI"

using Indices = std::vector<std::uint32_t>;

// Sample indices of each class, shuffled.
std::vector<Indices> shuffled_by_class(std::span<const std::int32_t> labels, int classes,
                                       Rng& rng) {
  std::vector<Indices> by_class(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    RUBATO_CHECK(labels[i] >= 0 && labels[i] < classes, "a label lies outside the classes");
    by_class[static_cast<std::size_t>(labels[i])].push_back(static_cast<std::uint32_t>(i));
  }
  for (Indices& samples : by_class) rng.shuffle(std::span(samples));
  return by_class;
}

std::vector<Indices> split_iid(std::size_t samples, std::size_t workers, Rng& rng) {
  Indices order(samples);
  std::iota(order.begin(), order.end(), 0u);
  rng.shuffle(std::span(order));
  std::vector<Indices> parts(workers);
  for (std::size_t i = 0; i < samples; ++i) parts[i % workers].push_back(order[i]);
  return parts;
}

// Index drawn with probability proportional to its weight. Requires: a positive sum.
std::size_t draw(std::span<const double> weights, Rng& rng) {
  double rest = rng.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    rest -= weights[i];
    if (rest < 0) break;
  }
  return last;
}

// Each worker draws its class shares q from a Dirichlet distribution around the shares of the whole
// (Hsu et al., section 2); then the workers take turns, one sample of a class drawn from q each,
// until none is left. So all hold equally many samples.
std::vector<Indices> split_dirichlet(std::vector<Indices> by_class, std::size_t samples,
                                     std::size_t workers, double alpha, Rng& rng) {
  const std::size_t classes = by_class.size();
  std::vector<double> prior(classes);
  for (std::size_t c = 0; c < classes; ++c)
    prior[c] = static_cast<double>(by_class[c].size()) / static_cast<double>(samples);

  std::vector<std::vector<double>> shares(workers, std::vector<double>(classes));
  for (auto& q : shares) {
    for (std::size_t c = 0; c < classes; ++c)
      if (prior[c] > 0) q[c] = rng.gamma(alpha * static_cast<double>(classes) * prior[c]);
    const double sum = std::accumulate(q.begin(), q.end(), 0.0);
    if (sum <= 0) q[draw(prior, rng)] = 1;  // a tiny alpha underflows: the limit is one class
  }

  std::vector<Indices> parts(workers);
  std::vector<double> weights(classes);
  for (std::size_t dealt = 0; dealt < samples; ++dealt) {
    const std::size_t worker = dealt % workers;
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c)
      sum += weights[c] = by_class[c].empty() ? 0 : shares[worker][c];
    if (sum <= 0) {  // none of its classes is left: anything that is
      for (std::size_t c = 0; c < classes; ++c)
        weights[c] = static_cast<double>(by_class[c].size());
    }
    Indices& source = by_class[draw(weights, rng)];
    parts[worker].push_back(source.back());
    source.pop_back();
  }
  return parts;
}

// Each worker in turn takes the k labels that the fewest workers hold so far (ties at random); a
// label's samples are then dealt to its holders.
Result<std::vector<Indices>> split_labels(std::vector<Indices> by_class, std::size_t workers,
                                          std::size_t k, Rng& rng) {
  std::erase_if(by_class, [](const Indices& samples) { return samples.empty(); });
  const std::size_t present = by_class.size();
  if (k > present)
    return fail(ErrorCode::BadInput,
                fmt::format("partition labels:{}: the training data has {} classes", k, present));
  if (workers * k < present)
    return fail(
        ErrorCode::BadInput,
        fmt::format("partition labels:{}: {} workers would leave {} of {} classes to nobody; "
                    "use labels:{} or more",
                    k, workers, present - workers * k, present, (present + workers - 1) / workers));

  std::vector<std::vector<std::size_t>> holders(present);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    std::vector<std::size_t> order(present);
    std::iota(order.begin(), order.end(), std::size_t{0});
    rng.shuffle(std::span(order));
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return holders[a].size() < holders[b].size();
    });
    for (std::size_t i = 0; i < k; ++i) holders[order[i]].push_back(worker);
  }

  std::vector<Indices> parts(workers);
  for (std::size_t c = 0; c < present; ++c) {
    if (by_class[c].size() < holders[c].size())
      return fail(ErrorCode::BadInput,
                  fmt::format("partition labels:{}: a class of {} samples cannot be shared by {} "
                              "workers; use fewer workers or more samples",
                              k, by_class[c].size(), holders[c].size()));
    for (std::size_t i = 0; i < by_class[c].size(); ++i)
      parts[holders[c][i % holders[c].size()]].push_back(by_class[c][i]);
  }
  return parts;
}

// The first `alone` of the labels, in random order, to the slowest workers; the rest to the others.
Result<std::vector<Indices>> split_by_speed(std::vector<Indices> by_class, std::size_t alone,
                                            const std::vector<bool>& slowest, Rng& rng) {
  const auto refused = [&](const std::string& why) {
    return fail(ErrorCode::BadInput, fmt::format("partition slowest:{}: {}", alone, why));
  };
  std::erase_if(by_class, [](const Indices& samples) { return samples.empty(); });
  if (alone >= by_class.size())
    return refused(fmt::format(
        "the training data has {} classes, and one must be left to the others", by_class.size()));
  std::vector<std::size_t> slow, others;
  for (std::size_t worker = 0; worker < slowest.size(); ++worker)
    (slowest[worker] ? slow : others).push_back(worker);
  if (slow.empty() || others.empty())
    return refused("no workers are slower than the others; give them different step_seconds");
  rng.shuffle(std::span(by_class));
  std::vector<Indices> parts(slowest.size());
  const auto deal = [&](std::span<const Indices> classes, const std::vector<std::size_t>& to) {
    Indices samples;
    for (const Indices& each : classes) samples.insert(samples.end(), each.begin(), each.end());
    if (samples.size() < to.size()) return false;
    rng.shuffle(std::span(samples));
    for (std::size_t i = 0; i < samples.size(); ++i) parts[to[i % to.size()]].push_back(samples[i]);
    return true;
  };
  const auto all = std::span<const Indices>(by_class);
  if (!deal(all.first(alone), slow) || !deal(all.subspan(alone), others))
    return refused("a worker would hold no sample; use more samples or fewer workers");
  return parts;
}

}  // namespace

Result<Partition> parse_partition(std::string_view text) {
  Partition partition;
  if (text == kIid) return partition;
  if (text == kLocal) {
    partition.kind = Partition::Kind::Local;
    return partition;
  }
  if (text.starts_with(kDirichlet)) {
    partition.kind = Partition::Kind::Dirichlet;
    partition.alpha = parse_number<double>(text.substr(kDirichlet.size())).value_or(0);
    if (partition.alpha > 0) return partition;
  }
  if (text.starts_with(kLabels)) {
    partition.kind = Partition::Kind::Labels;
    partition.labels = parse_number<int>(text.substr(kLabels.size())).value_or(0);
    if (partition.labels > 0) return partition;
  }
  if (text.starts_with(kSlowest)) {
    partition.kind = Partition::Kind::Slowest;
    partition.labels = parse_number<int>(text.substr(kSlowest.size())).value_or(0);
    if (partition.labels > 0) return partition;
  }
  return fail(
      ErrorCode::BadInput,
      fmt::format("\"{}\" is no partition; use \"iid\", \"dirichlet:ALPHA\" with ALPHA above 0, "
                  "\"labels:K\" or \"slowest:K\" with K of at least 1, or \"local\"",
                  text));
}

std::string partition_text(const Partition& partition) {
  switch (partition.kind) {
    case Partition::Kind::Dirichlet:
      return fmt::format("{}{}", kDirichlet, partition.alpha);
    case Partition::Kind::Labels:
      return fmt::format("{}{}", kLabels, partition.labels);
    case Partition::Kind::Slowest:
      return fmt::format("{}{}", kSlowest, partition.labels);
    case Partition::Kind::Local:
      return std::string(kLocal);
    case Partition::Kind::Iid:
      break;
  }
  return std::string(kIid);
}

Result<std::vector<Indices>> partition_samples(std::span<const std::int32_t> labels, int classes,
                                               int workers, const Partition& partition,
                                               std::uint64_t seed,
                                               const std::vector<bool>& slowest) {
  RUBATO_CHECK(workers > 0 && classes > 0, "partition_samples needs workers and classes");
  const auto count = static_cast<std::size_t>(workers);
  if (labels.size() < count)
    return fail(ErrorCode::BadInput,
                fmt::format("{} cannot be shared by {}", counted(labels.size(), "training sample"),
                            counted(count, "worker")));
  Rng rng(seed, kPartitionStream, 0);
  if (partition.kind == Partition::Kind::Iid) return split_iid(labels.size(), count, rng);
  std::vector<Indices> by_class = shuffled_by_class(labels, classes, rng);
  if (partition.kind == Partition::Kind::Labels)
    return split_labels(std::move(by_class), count, static_cast<std::size_t>(partition.labels),
                        rng);
  if (partition.kind == Partition::Kind::Slowest) {
    RUBATO_CHECK(slowest.size() == count, "slowest:K needs a mark for each worker");
    return split_by_speed(std::move(by_class), static_cast<std::size_t>(partition.labels), slowest,
                          rng);
  }
  return split_dirichlet(std::move(by_class), labels.size(), count, partition.alpha, rng);
}

BatchSampler::BatchSampler(std::vector<std::uint32_t> samples, Rng rng)
    : samples_(std::move(samples)), rng_(rng) {
  RUBATO_CHECK(!samples_.empty(), "a sampler needs at least one sample");
  rng_.shuffle(std::span(samples_));
}

void BatchSampler::next(std::span<std::uint32_t> out) {
  for (std::uint32_t& sample : out) {
    if (position_ == samples_.size()) {
      rng_.shuffle(std::span(samples_));
      position_ = 0;
    }
    sample = samples_[position_++];
  }
}

}  // namespace rubato::train
