// What a worker keeps of measured products, and the device that goes by it.
#include "train/cpu/product_cache.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "tests/log_of.hpp"
#include "tests/temp_directory.hpp"
#include "tests/train/models.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

const std::string kMachine = "cpu: a, OpenBLAS b; oneDNN 1.2.3";

ProductCalls calls_from(int first, int count) {
  ProductCalls calls;
  for (int m = first; m < first + count; ++m) {
    const Product product{.transpose_b = Transpose::Yes, .m = m, .n = 20, .k = 3};
    calls[shape_of(product)].product = product;
  }
  return calls;
}

// Says that oneDNN takes half the time, and counts how often it is asked.
struct Clock {
  int asked = 0;
  LibraryChoices choose(const ProductCalls& calls, const ProductCache& cache) {
    return choose_libraries(calls, cache, [this](const ProductCall&, Library library) {
      ++asked;
      return Duration{library == Library::OneDnn ? 1000 : 2000};
    });
  }
};

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("what was measured is read at the next start, and only what is new is measured") {
  const TempDirectory place;
  const ProductCache cache{place.path("not/yet"), kMachine};
  Clock clock;
  LibraryChoices first, again;
  const auto log = tests::log_of([&] { first = clock.choose(calls_from(1, 3), cache); });
  CHECK(contains(log, "info products: 3 shapes, oneDNN 3, OpenBLAS 0; 3 measured in 0 ms\n"));
  CHECK(clock.asked > 0);
  CHECK(first.size() == 3);

  clock.asked = 0;
  const auto next = tests::log_of([&] { again = clock.choose(calls_from(1, 3), cache); });
  CHECK(contains(next, "info products: 3 shapes, oneDNN 3, OpenBLAS 0; from " + cache.path()));
  CHECK(clock.asked == 0);
  CHECK(again == first);

  const auto more = tests::log_of([&] { again = clock.choose(calls_from(3, 2), cache); });
  CHECK(contains(more, "2 shapes, oneDNN 2, OpenBLAS 0; 1 measured in 0 ms, the others from "));
  CHECK(again.size() == 2);  // this model's alone
  clock.asked = 0;
  CHECK(clock.choose(calls_from(1, 4), cache).size() == 4);
  CHECK(clock.asked == 0);
}

TEST_CASE("choices come back from their text as they were") {
  const LibraryChoices choices = {
      {{Transpose::No, Transpose::Yes, 32, 64, 784}, Library::OneDnn},
      {{Transpose::Yes, Transpose::No, 1, 2, 2'000'000'000}, Library::OpenBlas}};
  const std::string text = product_text(choices, kMachine);
  CHECK(text ==
        "rubato products 1\n" + kMachine + "\nN T 32 64 784 oneDNN\nT N 1 2 2000000000 OpenBLAS\n");
  CHECK(parse_products(text, kMachine).value() == choices);
  CHECK(parse_products(product_text({}, kMachine), kMachine).value().empty());
}

TEST_CASE("a file that is broken or another machine's is told, measured anew and replaced") {
  const std::string head = "rubato products 1\n" + kMachine + "\n";
  const std::string long_line(100'000, 'N');
  for (const std::string& text :
       {std::string(), std::string("\0\0\n", 3), std::string("rubato products 2\n"),
        std::string("rubato products 1\nanother machine\nN T 1 20 3 OpenBLAS\n"),
        head + "N T 1 20 3 OpenBL", head + "N T 1 20 OpenBLAS\n", head + "N X 1 20 3 OpenBLAS\n",
        head + "N T 0 20 3 OpenBLAS\n", head + "N T 1 20 99999999999 OpenBLAS\n",
        head + "N T 1 20 3 OpenBLAS\n\n", head + long_line}) {
    CAPTURE(text.substr(0, 200));
    const TempDirectory place;
    const ProductCache cache{place.path(), kMachine};
    REQUIRE(write_file(cache.path(), text));
    Clock clock;
    LibraryChoices choices;
    const auto log = tests::log_of([&] { choices = clock.choose(calls_from(1, 1), cache); });
    CHECK(contains(log, "warning products: cannot use " + cache.path() + " (it"));
    CHECK(std::ranges::count(log, '\n') == 2);
    CHECK(choices.begin()->second == Library::OneDnn);
    CHECK(parse_products(read_file(cache.path()).value(), kMachine).value() == choices);
  }
}

TEST_CASE("machines that share a directory have a file each") {
  const TempDirectory place;
  Clock clock;
  clock.choose(calls_from(1, 1), {place.path(), kMachine});
  clock.asked = 0;
  const auto log = tests::log_of([&] {
    clock.choose(calls_from(1, 1), {place.path(), kMachine + ", newer"});
  });
  CHECK(clock.asked > 0);
  CHECK_FALSE(contains(log, "warning"));
  clock.asked = 0;
  clock.choose(calls_from(1, 1), {place.path(), kMachine});
  CHECK(clock.asked == 0);
}

TEST_CASE("where nothing can be kept, one line says so and the choice is as good") {
  const TempDirectory place;
  place.write("file", "");
  Clock clock;
  LibraryChoices choices;
  const auto log = tests::log_of([&] {
    choices = clock.choose(calls_from(1, 2), {place.path("file/cache"), kMachine});
  });
  CHECK(choices.size() == 2);
  CHECK(contains(log, "warning products: cannot write "));
  CHECK(std::ranges::count(log, '\n') == 2);
  const auto without = tests::log_of([&] { clock.choose(calls_from(1, 2), {"", kMachine}); });
  CHECK_FALSE(contains(without, "warning"));
  CHECK(tests::log_of([&] { clock.choose({}, {"", kMachine}); }).empty());
}

TEST_CASE("workers that start together measure one after the other and lose nothing") {
  const TempDirectory place;
  std::vector<LibraryChoices> choices(8);
  std::vector<Clock> clocks(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < choices.size(); ++i)
      threads.emplace_back([&, i] {
        const int first = i % 2 == 0 ? 1 : 40;
        choices[i] = clocks[i].choose(calls_from(first, 30), {place.path(), kMachine});
      });
  }
  // Of each model the first one measured.
  CHECK(std::ranges::count_if(clocks, [](const Clock& clock) { return clock.asked > 0; }) == 2);
  const ProductCache cache{place.path(), kMachine};
  CHECK(parse_products(read_file(cache.path()).value(), kMachine).value().size() == 60);
}

TEST_CASE("one that holds the others up is not waited for without end") {
  const TempDirectory place;
  const int held = ::open(place.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  Clock clock;
  const ProductCache cache{place.path(), kMachine, Duration::from_ms(1)};
  CHECK(clock.choose(calls_from(1, 1), cache).size() == 1);
  ::close(held);
  clock.asked = 0;
  CHECK(clock.choose(calls_from(1, 1), cache).size() == 1);
  CHECK(clock.asked == 0);
}

TEST_CASE("a device that measures keeps its choices, and agrees with the reference by any") {
  constexpr int kBatch = 17;
  for (const ModelOptions& options :
       {ModelOptions{"mlp", {33}}, ModelOptions{"lenet", {}}, ModelOptions{"lstm", {24, 9}}}) {
    CAPTURE(options.kind);
    const ModelSpec spec = make_model(options, {1, 28, 28}, 10).value();
    const auto parameters = initial_parameters(spec, 3);
    const OwnedBatch batch(spec, kBatch, 4);
    const auto gradient_on = [&](Device& device) {
      device.load(parameters);
      std::vector<float> gradient(parameters.size());
      device.gradient(batch.view(), gradient);
      return gradient;
    };
    const TempDirectory place;
    const auto build = [&] {
      auto device = make_device("cpu", {.measure = true, .cache = place.path()}).value();
      REQUIRE(device->build(spec, kBatch));
      return device;
    };
    // A busy machine may leave a shape unmeasured; the next start measures it.
    auto measured = build();
    std::string log;
    for (int start = 0; start < 50 && !contains(log, "; from "); ++start)
      log = tests::log_of([&] { measured = build(); });
    std::vector<float> weights(parameters.size(), 1.0f);
    measured->read(weights);
    CHECK(std::ranges::count(weights, 0.0f) == static_cast<std::ptrdiff_t>(weights.size()));
    const ProductCache cache{place.path(), product_machine()};
    const auto kept = parse_products(read_file(cache.path()).value(), cache.machine);
    REQUIRE(kept.has_value());
    REQUIRE(kept->size() >= 5);
    const auto reference = gradient_on(*built_device("reference", spec, kBatch));
    double largest = 0;
    for (const float value : reference) largest = std::max<double>(largest, std::abs(value));
    std::vector<std::vector<float>> gradients = {gradient_on(*measured)};
    for (const Library library : {Library::OneDnn, Library::OpenBlas}) {
      LibraryChoices choices = *kept;
      for (auto& choice : choices) choice.second = library;
      const std::string text = product_text(choices, cache.machine);
      REQUIRE(write_file(cache.path(), text));
      std::unique_ptr<Device> device;
      log = tests::log_of([&] { device = build(); });
      CHECK(contains(log, "; from " + cache.path()));  // every shape of a step was known
      CHECK(read_file(cache.path()).value() == text);
      gradients.push_back(gradient_on(*device));
      CHECK(gradients.back() == gradient_on(*build()));  // the same bits at the next start
    }
    for (const auto& gradient : gradients)
      for (std::size_t i = 0; i < gradient.size(); ++i)
        REQUIRE(std::abs(gradient[i] - reference[i]) < 1e-5 * (1 + largest));
  }
}

TEST_CASE("a device that nobody asked to measure goes by the rule in silence") {
  const ModelSpec spec = make_model({"mlp", {9}}, {6, 1, 1}, 4).value();
  CHECK(tests::log_of([&] { built_device("cpu", spec, 8); }).empty());
}
