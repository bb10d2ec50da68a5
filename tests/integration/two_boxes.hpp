// tests/integration/two_boxes.hpp - two network namespaces with a cable between them, which stand
// for two machines, and all bytes that pass through the cable.
// Needs the right to make namespaces, and `ip` of iproute2. Threads: one owner, and one of its own.
#pragma once

#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace rubato::integration {

class TwoBoxes {
 public:
  TwoBoxes();
  ~TwoBoxes();
  TwoBoxes(const TwoBoxes&) = delete;
  TwoBoxes& operator=(const TwoBoxes&) = delete;

  // Empty, or why there are none.
  const std::string& problem() const { return problem_; }
  const std::string& head() const { return names_[0]; }
  const std::string& far() const { return names_[1]; }
  static std::string head_address() { return "10.201.17.1"; }
  static std::string far_address() { return "10.201.17.2"; }
  // The cable's end at head(), and at far().
  const std::string& head_end() const { return ends_[0]; }
  const std::string& far_end() const { return ends_[1]; }
  // What went through the cable since the last call, both ways, headers included.
  std::string passed();

 private:
  void listen(const std::stop_token& stop);

  std::string names_[2];
  std::string ends_[2];
  std::string problem_;
  int socket_ = -1;   // hears the cable at head()
  std::mutex mutex_;  // guards passed_
  std::string passed_;
  std::jthread ear_;
};

}  // namespace rubato::integration
