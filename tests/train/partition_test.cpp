#include "train/model/partition.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <vector>

using rubato::Rng;
using rubato::train::BatchSampler;
using rubato::train::parse_partition;
using rubato::train::Partition;
using rubato::train::partition_samples;
using rubato::train::partition_text;
using Parts = std::vector<std::vector<std::uint32_t>>;
using Labels = std::vector<std::int32_t>;

namespace {

constexpr int kClasses = 6;

// Every class is present at least `each` times.
Labels random_labels(std::size_t extra, int each, std::uint64_t seed) {
  Labels labels;
  for (int i = 0; i < each * kClasses; ++i) labels.push_back(i % kClasses);
  Rng rng(seed);
  for (std::size_t i = 0; i < extra; ++i)
    labels.push_back(static_cast<std::int32_t>(rng.below(kClasses)));
  rng.shuffle(std::span(labels));
  return labels;
}

// Disjoint, together everything, none empty.
bool is_partition(const Parts& parts, std::size_t samples) {
  std::vector<std::uint32_t> all;
  for (const auto& part : parts) {
    if (part.empty()) return false;
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<std::uint32_t> expected(samples);
  std::iota(expected.begin(), expected.end(), 0u);
  return all == expected;
}

std::set<std::int32_t> labels_of(const std::vector<std::uint32_t>& part, const Labels& labels) {
  std::set<std::int32_t> result;
  for (const std::uint32_t sample : part) result.insert(labels[sample]);
  return result;
}

// Mean over the workers of the share that a worker's most frequent class has.
double skew(const Partition& partition, const Labels& labels, int workers) {
  const auto parts = partition_samples(labels, kClasses, workers, partition, 3);
  REQUIRE(parts.has_value());
  double sum = 0;
  for (const auto& part : *parts) {
    std::array<int, kClasses> counts{};
    for (const std::uint32_t sample : part) ++counts[static_cast<std::size_t>(labels[sample])];
    sum += *std::max_element(counts.begin(), counts.end()) / static_cast<double>(part.size());
  }
  return sum / workers;
}

Partition dirichlet(double alpha) {
  return {Partition::Kind::Dirichlet, alpha, 0};
}

std::string error_of(const Labels& labels, int workers, const Partition& partition) {
  const auto parts = partition_samples(labels, kClasses, workers, partition, 1);
  return parts ? "" : parts.error().message;
}

}  // namespace

TEST_CASE("partitions are parsed from their names") {
  CHECK(parse_partition("iid")->kind == Partition::Kind::Iid);
  CHECK(parse_partition("dirichlet:0.1")->alpha == 0.1);
  CHECK(parse_partition("labels:2")->labels == 2);
  CHECK(parse_partition("slowest:3")->labels == 3);
  for (const char* text : {"iid", "dirichlet:0.1", "labels:2", "slowest:3"})
    CHECK(partition_text(*parse_partition(text)) == text);
  for (const char* text :
       {"", "IID", "dirichlet", "dirichlet:", "dirichlet:0", "dirichlet:-1", "dirichlet:inf",
        "dirichlet:1x", "labels:0", "labels:1.5", "labels:", "slowest:0", "slowest"}) {
    CAPTURE(text);
    const auto partition = parse_partition(text);
    REQUIRE_FALSE(partition.has_value());
    CHECK(partition.error().message ==
          "\"" + std::string(text) +
              "\" is no partition; use \"iid\", \"dirichlet:ALPHA\" with ALPHA above 0, "
              "\"labels:K\" or \"slowest:K\" with K of at least 1, or \"local\"");
  }
}

TEST_CASE("iid and dirichlet: disjoint, complete, equal sizes, fixed by the seed") {
  CHECK(rc::check([](std::uint64_t seed) {
    const auto workers = *rc::gen::inRange(1, 30);
    const auto extra = *rc::gen::inRange<std::size_t>(30, 300);
    const Labels labels = random_labels(extra, 0, seed);
    const Partition partition =
        *rc::gen::element(Partition{}, dirichlet(0.001), dirichlet(0.5), dirichlet(100));
    const auto parts = partition_samples(labels, kClasses, workers, partition, seed);
    RC_ASSERT(parts.has_value());
    RC_ASSERT(parts->size() == static_cast<std::size_t>(workers));
    RC_ASSERT(is_partition(*parts, labels.size()));
    const auto [small, large] =
        std::minmax_element(parts->begin(), parts->end(),
                            [](const auto& a, const auto& b) { return a.size() < b.size(); });
    RC_ASSERT(large->size() - small->size() <= 1u);
    RC_ASSERT(partition_samples(labels, kClasses, workers, partition, seed).value() == *parts);
  }));
}

TEST_CASE("labels:k: disjoint, complete, exactly k labels a worker, fixed by the seed") {
  CHECK(rc::check([](std::uint64_t seed) {
    const auto k = *rc::gen::inRange(1, kClasses + 1);
    const auto workers = *rc::gen::inRange((kClasses + k - 1) / k, 20);
    const Labels labels = random_labels(*rc::gen::inRange<std::size_t>(0, 100), 20, seed);
    const Partition partition{Partition::Kind::Labels, 0, k};
    const auto parts = partition_samples(labels, kClasses, workers, partition, seed);
    RC_ASSERT(parts.has_value());
    RC_ASSERT(is_partition(*parts, labels.size()));
    for (const auto& part : *parts)
      RC_ASSERT(labels_of(part, labels).size() == static_cast<std::size_t>(k));
    RC_ASSERT(partition_samples(labels, kClasses, workers, partition, seed).value() == *parts);
  }));
}

TEST_CASE("slowest:k: the slowest alone hold k labels, all others share the rest") {
  CHECK(rc::check([](std::uint64_t seed) {
    const auto k = *rc::gen::inRange(1, kClasses);
    const auto fast = *rc::gen::inRange<std::size_t>(1, 10);
    const auto slow = *rc::gen::inRange<std::size_t>(1, 10);
    std::vector<bool> slowest(fast, false);
    slowest.resize(fast + slow, true);
    const Labels labels = random_labels(*rc::gen::inRange<std::size_t>(0, 100), 20, seed);
    const Partition partition{Partition::Kind::Slowest, 0, k};
    const auto workers = static_cast<int>(slowest.size());
    const auto parts = partition_samples(labels, kClasses, workers, partition, seed, slowest);
    RC_ASSERT(parts.has_value());
    RC_ASSERT(is_partition(*parts, labels.size()));
    std::set<std::int32_t> held[2];
    std::vector<std::size_t> sizes[2];
    for (std::size_t worker = 0; worker < slowest.size(); ++worker) {
      held[slowest[worker]].merge(labels_of((*parts)[worker], labels));
      sizes[slowest[worker]].push_back((*parts)[worker].size());
    }
    RC_ASSERT(held[true].size() == static_cast<std::size_t>(k));
    for (const std::int32_t label : held[true]) RC_ASSERT(!held[false].contains(label));
    for (const auto& each : sizes)
      RC_ASSERT(*std::ranges::max_element(each) - *std::ranges::min_element(each) <= 1u);
    RC_ASSERT(partition_samples(labels, kClasses, workers, partition, seed, slowest).value() ==
              *parts);
  }));
}

TEST_CASE("slowest:k: refused where nobody is slower, or no label is left") {
  const Labels labels = random_labels(0, 2, 1);
  const auto error = [&](int k, const std::vector<bool>& slowest) {
    const auto parts = partition_samples(labels, kClasses, static_cast<int>(slowest.size()),
                                         {Partition::Kind::Slowest, 0, k}, 1, slowest);
    return parts ? "" : parts.error().message;
  };
  CHECK(error(2, {false, false}) ==
        "partition slowest:2: no workers are slower than the others; give them different "
        "step_seconds");
  CHECK(error(6, {false, true}) ==
        "partition slowest:6: the training data has 6 classes, and one must be left to the others");
  CHECK(error(1, {false, true, true, true}) ==
        "partition slowest:1: a worker would hold no sample; use more samples or fewer workers");
}

TEST_CASE("another seed gives another partition") {
  const Labels labels = random_labels(200, 0, 1);
  for (const Partition& partition :
       {Partition{}, dirichlet(1), Partition{Partition::Kind::Labels, 0, 2}}) {
    CHECK(partition_samples(labels, kClasses, 4, partition, 1).value() !=
          partition_samples(labels, kClasses, 4, partition, 2).value());
  }
}

TEST_CASE("dirichlet: the skew grows as alpha falls, from iid's to one class a worker") {
  const Labels labels = random_labels(6000, 0, 1);
  const double iid = skew(Partition{}, labels, 12);
  double last = iid;
  for (const double alpha : {1000.0, 10.0, 1.0, 0.1}) {
    CAPTURE(alpha);
    const double now = skew(dirichlet(alpha), labels, 12);
    CHECK(now > last - 0.02);
    last = now;
  }
  CHECK(skew(dirichlet(1000), labels, 12) == doctest::Approx(iid).epsilon(0.2));
  CHECK(last > 0.6);
  CHECK(iid < 0.25);
}

TEST_CASE("impossible partitions are refused with the remedy") {
  const Labels labels = random_labels(0, 4, 1);  // 24 samples, 4 of each of 6 classes
  const auto k = [](int count) { return Partition{Partition::Kind::Labels, 0, count}; };
  CHECK(error_of(labels, 25, Partition{}) == "24 training samples cannot be shared by 25 workers");
  CHECK(error_of(labels, 3, k(7)) == "partition labels:7: the training data has 6 classes");
  CHECK(error_of(labels, 2, k(2)) ==
        "partition labels:2: 2 workers would leave 2 of 6 classes to nobody; use labels:3 or more");
  CHECK(
      error_of(labels, 10, k(6)) ==
      "partition labels:6: a class of 4 samples cannot be shared by 10 workers; use fewer workers "
      "or more samples");
}

TEST_CASE("the sampler visits every sample once an epoch, whatever the batch size") {
  CHECK(rc::check([](std::uint64_t seed) {
    const auto samples = *rc::gen::inRange<std::uint32_t>(1, 50);
    const auto batch = *rc::gen::inRange<std::size_t>(1, 60);
    std::vector<std::uint32_t> held(samples);
    std::iota(held.begin(), held.end(), 100u);
    BatchSampler sampler(held, Rng(seed));
    std::vector<std::uint32_t> seen;
    std::vector<std::uint32_t> out(batch);
    while (seen.size() < 4 * samples) {
      sampler.next(out);
      seen.insert(seen.end(), out.begin(), out.end());
    }
    for (std::size_t epoch = 0; epoch < 4; ++epoch) {
      const auto first = seen.begin() + static_cast<std::ptrdiff_t>(epoch * samples);
      std::vector<std::uint32_t> one(first, first + samples);
      std::sort(one.begin(), one.end());
      RC_ASSERT(one == held);
    }
  }));
}

TEST_CASE("the sampler's order follows from its generator and changes every epoch") {
  std::vector<std::uint32_t> held(100);
  std::iota(held.begin(), held.end(), 0u);
  std::vector<std::uint32_t> first(100), second(100), again(100);
  BatchSampler sampler(held, Rng(5));
  sampler.next(first);
  sampler.next(second);
  BatchSampler(held, Rng(5)).next(again);
  CHECK(first == again);
  CHECK(first != second);
  BatchSampler(held, Rng(6)).next(again);
  CHECK(first != again);
}
